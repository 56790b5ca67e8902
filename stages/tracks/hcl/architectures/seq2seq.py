"""Seq2Seq with attention and a pointer, from scratch."""

from models.hcl.baselines.seq2seq import PointerSeq2Seq
from stages.tracks.hcl.piece_baselines import of_pieces

ARCHITECTURE = of_pieces("seq2seq", "Seq2Seq with attention and pointer", __name__, PointerSeq2Seq)
