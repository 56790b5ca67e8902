"""Paraphrasers of the PGKPR track: the model, its ablations and the baselines.

Nothing is imported here: the vocabulary needs :mod:`models.common` alone, without torch.
"""
