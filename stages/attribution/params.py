"""Params of attribution keywords: the pair classifier, and the saliency of words."""

from typing import ClassVar, Literal

from pydantic import Field

from stages.common.params import Block, Datasets, Presets, Switches


class PairClassifier(Block):
    """Classifier of sentence pairs whose gradients become keyword scores (PGKPR section 3)."""

    stage1_neg: Literal["random2", "released"] = "random2"
    max_sources: int | None = Field(None, ge=1, description="seeded sample of training pairs; null takes all")
    max_length: int = Field(51, ge=8, description="word pieces of a pair, special tokens included")
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(5, ge=1)
    clip: float = Field(1.0, gt=0)
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; losses are always fp32")
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")


class Attribution(Switches):
    """Saliency of source words (PGKPR eq. 1)."""

    # The paper's text as read in docs/pgkpr.md, and what the released code does.
    presets: ClassVar[Presets] = {
        "paper": {"attr_target": "pos_logit", "released_bugs": False},
        "released": {"attr_target": "argmax_logit", "released_bugs": True}}

    datasets: Datasets = Field([], description="of pairs, whose words are scored; each has a pair classifier trained")
    preset: Literal["paper", "released"] | None = Field(None, description="sets every switch below at once")
    attr_target: Literal["pos_logit", "argmax_logit"] = "pos_logit"
    released_bugs: bool = Field(False, description="as the released code has it: argmax_logit is that of the class "
                                                   "predicted for the batch's first row, and the output "
                                                   "of the embedding block is fed in again without segments")
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]
    batch_size: int = Field(64, ge=1, description="pairs of a forward pass")
