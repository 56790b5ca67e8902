"""Params of attribution keywords: the pair classifier, and the saliency of words."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

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


# The paper's text as read in docs/pgkpr.md, and what the released code does.
_ATTRIBUTION_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"method": "gradient", "attr_target": "pos_logit", "argmax_of": "row", "embedding": "lookup",
              "token_types": True, "normalisation": "minmax"},
    "released": {"method": "gradient", "attr_target": "argmax_logit", "argmax_of": "first_row",
                 "embedding": "block_output", "token_types": False, "normalisation": "minmax"},
}


class Attribution(Switches):
    """Saliency of source words (PGKPR eq. 1)."""

    presets: ClassVar[Presets] = _ATTRIBUTION_PRESETS

    datasets: Datasets = Field([], description="of pairs, whose words are scored; each has a pair classifier trained")
    preset: Literal["paper", "released"] | None = Field(None, description="sets every switch below at once")
    method: Literal["gradient", "integrated_gradients", "siamese"] = "gradient"
    attr_target: Literal["pos_logit", "argmax_logit", "logit_diff", "pos_prob"] = "pos_logit"
    argmax_of: Literal["row", "first_row"] = Field(
        "row", description="first_row: the class of the batch's first row for all, a bug of the released code")
    embedding: Literal["lookup", "block_output"] = Field(
        "lookup", description="block_output: the embedding block's output fed in again, a bug of the released code")
    token_types: bool = Field(True, description="false: the pass that is differentiated does not tell segments apart, "
                                                "a bug of the released code")
    normalisation: Literal["minmax", "max", "sum"] = "minmax"
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]
    steps: int = Field(32, ge=1, description="integrated_gradients and siamese: points of the path")
    batch_size: int = Field(64, ge=1, description="rows of a forward pass: pairs, or points of their paths")

    @model_validator(mode="after")
    def _switches_fit(self) -> "Attribution":
        if self.argmax_of == "first_row" and self.attr_target != "argmax_logit":
            raise ValueError(f"argmax_of first_row is about attr_target argmax_logit, and attr_target is "
                             f"{self.attr_target}; set argmax_of to row, or attr_target to argmax_logit")
        idle = [f"{name} {getattr(self, name)}" for name in ("attr_target", "argmax_of", "embedding", "token_types")
                if getattr(self, name) != type(self).model_fields[name].default]
        if self.method == "siamese" and idle:
            raise ValueError(f"method siamese has no pair classifier, so these mean nothing to it: "
                             f"{', '.join(idle)}. Take them out, or choose another method")
        return self
