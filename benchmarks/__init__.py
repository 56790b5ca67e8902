"""What the project's engines cost beside their named peers, measured in one command: ``python -m benchmarks``."""
