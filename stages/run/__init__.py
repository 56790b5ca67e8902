"""Processes, locks, logging, executors and checkpoints, which do not affect the bytes of artifacts."""
