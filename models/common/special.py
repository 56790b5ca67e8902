"""Ids of the special tokens with which every vocabulary of the PGKPR track begins."""

PAD, UNK, BOS, EOS, SEP, NOK, MASK = range(7)
IGNORE = -100  # target at positions that are not to be predicted
