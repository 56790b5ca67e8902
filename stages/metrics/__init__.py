"""Metrics of generated text and of classifiers; baselines; intervals and tests."""
