"""Params of the baselines of HCL's table (METHODS B): a block each, under the name of its architecture."""

from typing import Literal

from pydantic import Field

from stages.params.pgkpr import Sizes


class PieceTransformer(Sizes):
    """Transformer of word pieces (METHODS B3)."""

    norm: Literal["pre", "post"] = Field("pre", description="before each part, or behind its addition as in the paper")
