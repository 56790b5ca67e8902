"""Measures a GPU: every track, both precisions, in one command that fits into ten minutes."""
