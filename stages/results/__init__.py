"""Comparison of runs, and the report."""
