"""The first look at a GPU: every track, both precisions, in one command that fits into ten minutes.

It needs torch, transformers, numpy, pandas, pyarrow and accelerate, no network and no artifacts: models have the
papers' sizes and random weights, texts are drawn from a seed. Each part runs in a process of its own, and results are
written after each, so that a fault in one loses none of the others.
"""
