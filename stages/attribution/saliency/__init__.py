"""Saliency of the words of texts: what scores them, and the pairs to be scored, block by block."""
