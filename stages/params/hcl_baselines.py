"""Params of the baselines of HCL's table (METHODS B): a block each, under the name of its architecture."""

from typing import Literal

from pydantic import Field

from stages.params.block import Block
from stages.params.pgkpr import Sizes


class PieceTransformer(Sizes):
    """Transformer of word pieces (METHODS B3)."""

    norm: Literal["pre", "post"] = Field("pre", description="before each part, or behind its addition as in the paper")


class Seq2Seq(Block):
    """LSTMs with attention and a pointer (METHODS B2); the paper gives no sizes."""

    embedding: int = Field(256, ge=1, description="of word pieces, which also score the output")
    width: int = Field(256, ge=1, description="of the encoder, per direction, and of the decoder")
    dropout: float = Field(0.1, ge=0, lt=1, description="of embeddings")
    pointer: bool = Field(True, description="false: words come from the vocabulary alone")
