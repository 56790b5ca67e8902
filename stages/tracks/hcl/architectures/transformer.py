"""Transformer over word pieces, from scratch."""

from models.hcl.baselines.transformer import PieceTransformer
from stages.tracks.hcl.piece_baselines import of_pieces

ARCHITECTURE = of_pieces("transformer", "Transformer", __name__, PieceTransformer)
