"""Params of the PGKPR track: its data, models, training, decoding, evaluation."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from models.pgkpr.settings import RewriterSettings
from stages.common.params import Block, Name, Presets, Switches
from stages.common.settings import NOTHING
from stages.tracks.common.params import block_of


class Joined(Block):
    """Tables that the pairs of a data set are joined with besides, for models and runs that read them."""

    psi: str = Field(NOTHING, description=f"artifacts/data/NAME/psi, or {NOTHING}")
    s_tags: str = Field(NOTHING, description="artifacts/data/NAME/s_tags, likewise")
    textrank: str = Field(NOTHING, description="artifacts/data/NAME/textrank, likewise")


class ParaphraseItems(Block):
    """Words, tags and keyword scores of each pair, and the vocabulary."""

    datasets: dict[Name, Joined] = Field(default_factory=dict, description="of attribution.datasets, and the tables "
                                                                           "that their pairs are joined with")
    vocabulary: int = Field(8000, ge=1, description="words kept, the most frequent of the training split (Quora 8,000, "
                                                    "MSCOCO 11,000); tags and special tokens come on top")
    max_length: int = Field(17, ge=1, description="words of a text that models read and are taught (Quora 17, MSCOCO "
                                                  "16); the rest is cut")


class KeywordInput(Block):
    """Which words of the source count as keywords (PGKPR section 4.1, docs/pgkpr.md)."""

    by: Literal["attribution", "psi", "textrank", "random", "none", "all"] = Field(
        "attribution", description="psi: primary words, without coin flips; textrank: words of a source's best "
                                   "phrases, as many as attribution expects; as controls random (as many words, by "
                                   "coins), none and all. ianet takes psi for attribution")
    train_scores: Literal["both", "xy"] = Field("both", description="both: an epoch passes over the training pairs "
                                                                    "twice, once with each set of scores; by psi, once")
    flip: Literal["epoch", "offline"] = Field("epoch", description="coins of training: drawn anew each epoch, or once")
    mark_all: bool = Field(False, description="every occurrence of a keyword is one, as in the released code")


class PgkprTraining(Block):
    """Optimisation and selection (PGKPR section 5.3)."""

    epochs: int = Field(35, ge=0, description="Quora 35, MSCOCO 15 in the released code; 0: the model stays as it "
                                              "begins (`init`), for a row of its own")
    batch_size: int = Field(128, ge=1, description="pairs per optimiser step")
    micro_batch: int = Field(128, ge=1, description="pairs per forward pass; gradients are accumulated")
    learning_rate: float | None = Field(None, gt=0, description="null: the architecture's own (pgkpr, transformer and "
                                                                "ianet 1e-4, residual_lstm 1e-3, latent_bow 8e-4)")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of all steps")
    schedule: Literal["constant", "linear"] = "constant"
    clip: float | None = Field(1.0, gt=0, description="largest norm of a step's gradient; null: any, as in the "
                                                      "released code")
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = Field(True, description="batches of pairs of similar length, drawn anew each epoch")


# `paper` is the text; `released` is the code of DaSESmartEdu/PGKPR where it differs (docs/pgkpr.md).
_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"keywords": {"train_scores": "xy", "flip": "epoch", "mark_all": False},
              "reconstruction": {"weight": 1.0, "reduction": "sent_mean"},
              "contrast": {"weight": 0.1, "neg": "all", "sim": "dot", "order": "sent_pos"}},
    "released": {"keywords": {"train_scores": "both", "flip": "offline", "mark_all": True},
                 "reconstruction": {"weight": 0.5, "reduction": "token_mean"},
                 "contrast": {"weight": 0.01, "neg": "targets", "sim": "cosine", "order": "pos_sent"},
                 "sizes": {"inner_dropout": True},
                 "training": {"clip": None, "bucket": False}},
}


class _Row(Switches):
    """The trained architecture and its preset."""

    presets: ClassVar[Presets] = _PRESETS

    preset: Literal["paper", "released"] | None = Field(
        None, description="sets the switches of keywords, reconstruction and contrast as the text, or the code, has "
                          "them for Quora (for MSCOCO set each, without a preset); released: networks and training too")
    keywords: KeywordInput = KeywordInput()


class TrainPgkpr(block_of(RewriterSettings(), _Row)):  # type: ignore[misc]  # a class that is made
    """Everything that defines a model of the PGKPR track."""

    training: PgkprTraining = PgkprTraining()


class GeneratePgkpr(Block):
    """Decoding (docs/pgkpr.md)."""

    split: Literal["validation", "test"] = "test"
    keywords: Literal["xx", "xy", "psi_xx", "psi_xy", "s_tagger", "textrank", "random", "none", "all"] | None = Field(
        None, description="keywords of the source: by attribution from the source alone (xx: PGKPR) or with the "
                          "reference (xy: PGKPR-ref, an oracle); primary words by PSI likewise (psi_xx: +X; psi_xy) or "
                          "by the S-Tagger (+S); textrank, random, none, all: as `train_pgkpr.keywords.by` has them, "
                          "whatever the model was trained by. null: as it was trained (xx, psi_xx, or these); it stays "
                          "null for models without keywords")
    num_beams: int = Field(1, ge=1, description="1 is greedy")
    max_length: int = Field(16, ge=1, description="words; Quora 16, MSCOCO 15")
    unknown: Literal["keep", "ban"] = Field("keep", description="ban: no output holds [unk]")


class EvaluatePgkpr(Block):
    """Metrics (PGKPR section 5.1); intervals, word vectors and BERTScore are as `evaluation` says."""

    reference_words: int = Field(16, ge=1, description="ref_norm released: references are cut to so many words, and "
                                                       "words outside the vocabulary become [unk]; both readings are "
                                                       "computed")
