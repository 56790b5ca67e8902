"""Params of the PGKPR track: its data, models, training, decoding, evaluation."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from stages.common.params import SEEDS, Block, Name, Presets, Seeds, Switches
from stages.common.settings import NOTHING
from stages.tracks.common.params import BEGINNING, Sizes

Architecture = Literal["pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet"]


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


class Reconstruction(Block):
    """Reconstruction of tags and keywords at the encoder (eq. 2)."""

    weight: float = Field(1.0, ge=0, description="lambda 1; 0 removes it")
    reduction: Literal["token_mean", "sent_mean"] = "token_mean"


class PairContrast(Block):
    """Contrast of sentence encodings in the batch (eq. 3)."""

    weight: float = Field(0.1, ge=0, description="lambda 2; 0 removes it")
    neg: Literal["targets", "all"] = Field("targets", description="all: the other sources too, unperturbed")
    sim: Literal["cosine", "dot"] = "cosine"
    order: Literal["pos_sent", "sent_pos"] = Field("pos_sent", description="of the unperturbed counterparts")


class RewriterSizes(Sizes):
    """Sizes of the Transformers of this track."""

    inner_dropout: bool = Field(False, description="dropout inside the feed-forward networks too, as in the released "
                                                   "code")


class Source(Block):
    """How the encoders of `transformer` and `ianet` read a source; what `pgkpr` reads is always wrapped."""

    wrapped: bool = Field(False, description="between <s> and </s>, as in the released code")


class ResidualLstm(Block):
    """Residual-LSTM (Prakash et al. 2016)."""

    width: int = Field(512, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)


class LatentBow(Block):
    """Latent bag of words (Fu et al. 2019)."""

    width: int = Field(500, ge=1)
    memory: int = Field(11, ge=1, description="K: words of the memory, and most words of the bag to predict (Quora "
                                              "11, MSCOCO 25 to 30)")
    dropout: float = Field(0.6, ge=0, lt=1, description="of LSTM outputs")
    gumbel: bool = Field(False, description="memory from softmaxes with Gumbel noise; false: from the plain bag (Topk)")


class IaNet(Block):
    """IANet's aggregation model (Su et al. 2021); width, heads and dropout are those of `sizes`."""

    encoder_layers: int = Field(3, ge=1, description="of each of the two encoders")
    decoder_layers: int = Field(4, ge=1)
    embeddings: Literal["shared", "separate"] = Field("shared", description="separate: of each encoder, and of the "
                                                                            "decoder, as in the released code")
    norms: Literal["shared", "separate"] = Field("shared", description="separate: one before each attention to a "
                                                                       "sequence and one before the feed-forward "
                                                                       "network, as in the released code")


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
                 "source": {"wrapped": True},
                 "ianet": {"embeddings": "separate", "norms": "separate"},
                 "training": {"clip": None, "bucket": False}},
}


class TrainPgkpr(Switches):
    """Everything that defines a model of the PGKPR track."""

    presets: ClassVar[Presets] = _PRESETS

    preset: Literal["paper", "released"] | None = Field(
        None, description="sets the switches of keywords, reconstruction and contrast as the text, or the code, has "
                          "them (Quora; for MSCOCO give the weights); released: those of networks and training too")
    architecture: Architecture = "pgkpr"
    keywords: KeywordInput = KeywordInput()
    reconstruction: Reconstruction = Reconstruction()
    contrast: PairContrast = PairContrast()
    sizes: RewriterSizes = RewriterSizes()
    source: Source = Source()
    residual_lstm: ResidualLstm = ResidualLstm()
    latent_bow: LatentBow = LatentBow()
    ianet: IaNet = IaNet()
    training: PgkprTraining = PgkprTraining()


class PgkprModel(Block):
    """One trained model: a data set, and what differs from the ``train_pgkpr`` block."""

    dataset: str
    seeds: Seeds = Field([], description=SEEDS)
    init: str = Field(NOTHING, description=BEGINNING)
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_pgkpr`")


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


class PgkprRun(Block):
    """A row of the results table: a model and what differs from the ``generate_pgkpr`` block."""

    model: str
    decode: dict[str, Any] = Field(default_factory=dict)


class EvaluatePgkpr(Block):
    """Metrics (PGKPR section 5.1); intervals, word vectors and BERTScore are as `evaluation` says."""

    reference_words: int = Field(16, ge=1, description="ref_norm released: references are cut to so many words, and "
                                                       "words outside the vocabulary become [unk]; both readings are "
                                                       "computed")
