"""What several methods share. Here, without torch, ids of special tokens: each vocabulary of PGKPR begins with them."""

PAD, UNK, BOS, EOS, SEP, NOK, MASK = range(7)
IGNORE = -100  # target at positions that are not to be predicted
