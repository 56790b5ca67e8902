"""Stages pair_classifier and attribution: keywords by gradients of a classifier of sentence pairs."""
