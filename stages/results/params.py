"""Params of the comparison of runs, and of the page."""

from pydantic import Field

from stages.common.params import Block


class Compare(Block):
    """Paired tests between the runs of a data set."""

    resamples: int = Field(1000, ge=100, description="paired bootstrap")


class Report(Block):
    """The page."""

    examples: int = Field(12, ge=0, description="items whose outputs are shown side by side; 0 shows none")
