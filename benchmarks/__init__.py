"""Time and memory of the project's engines beside named peers: ``python -m benchmarks``."""
