"""Layers, decoding, losses and training that the methods share."""
