"""Paraphrasers of the PGKPR track: the model, its ablations and the baselines.

Ids of the special tokens with which every vocabulary of the track begins. Nothing is imported here: vocabularies need
no torch.
"""

PAD, UNK, BOS, EOS, SEP, NOK, MASK = range(7)
IGNORE = -100  # target at positions that are not to be predicted
