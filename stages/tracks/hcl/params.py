"""Params of the HCL track: method, baselines, training, decoding, probes."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from keycontrast.errors import nearest
from models.hcl.settings import HclSettings
from stages.common.params import Block, Presets, Switches
from stages.tracks.common.params import Sizes, block_of

# The paper read literally, with only clear misprints corrected: the Mahalanobis distance keeps its inverse (hcl.md).
# The text leaves W_i of the impostor undefined; `linear` makes it a matrix, as its capital letter suggests. Switches
# that the text does not decide keep their defaults, and those of ablations may be set beside the preset.
_PRESETS: dict[str, dict[str, Any]] = {"paper": {
    "graph": {"layer_norm": False, "own_edges": "leaking", "kw_dropout": 0.0},
    "keyword": {"impostor_weight": "linear", "unit_scale": False},
    "latent": {"free_bits": 0.0, "free_bits_for": "both", "prior_share": 0.0, "annealing_steps": 0},
    "contrasts": {"added_to": "sentence"},
    "decoder": {"kw_memory": False, "source_dropout": 0.0}}}


class _Row(Switches):
    """The trained architecture and its preset."""

    presets: ClassVar[Presets] = _PRESETS

    architecture: str = Field(
        "hcl", description="hcl, and its ablations by the switches below; others: a baseline of word pieces on the "
                           "same items, which reads the block of its own name and `training` alone")
    preset: Literal["paper"] | None = Field(None, description="paper: every switch as printed, only clear misprints "
                                                              "corrected")


# HCL with its ablations.
Method = block_of(HclSettings(), _Row)


class Seq2Seq(Block):
    """LSTMs with attention and a pointer; HCL gives no sizes."""

    embedding: int = Field(256, ge=1, description="of word pieces, which also score the output")
    width: int = Field(256, ge=1, description="of the encoder, per direction, and of the decoder")
    dropout: float = Field(0.1, ge=0, lt=1, description="of embeddings")


class Cvae(Block):
    """The CVAE of GRUs (Zhao et al. 2017); the released code also has clip 5.0, Adam at 1e-3 and batches of 30."""

    embedding: int = Field(200, ge=1)
    encoder: int = Field(300, ge=1, description="per direction")
    context: int = Field(600, ge=1)
    width: int = Field(400, ge=1, description="of the decoder")
    latent: int = Field(200, ge=1)
    bag: int = Field(400, ge=1, description="of the layer that predicts the bag of words")
    annealing_share: float = Field(1.0, ge=0, le=1, description="of all steps, 10,000 at most, over which the KL's "
                                                                "weight rises from 0 to 1")


class Seq2SeqDu(Block):
    """Seq2Seq-DU, adapted (docs/hcl.md); its width is the encoder's."""

    dropout: float = Field(0.1, ge=0, lt=1)


class GroupWise(Sizes):
    """Group-wise contrasts over a Transformer (Cai et al. 2020)."""

    pretrain_share: float = Field(0.5, ge=0, lt=1, description="of all steps, 5,000 at most, by likelihood alone, "
                                                               "before the reference is frozen")
    sample_k: int = Field(6, ge=1, description="draws beside each observed pair")
    score: Literal["tfidf", "label"] = Field("tfidf", description="how well a drawn pair matches: cosine of TF-IDF "
                                                                  "vectors, or whether it is a pair of the training "
                                                                  "split, for stories, whose parts share few words")
    speed: float | None = Field(1.0, gt=0, description="at which the contrast takes over: half the loss after 3,500 / "
                                                       "speed steps; null: all of it when the training ends")


class Pretrained(Sizes):
    """A model of ``transformers``: pretrained, or a small one of the same architecture from scratch."""

    source: str | None = Field(None, pattern="^(hub:.+|path)$", description=(
        "hub:ID, or path: the folder that `init` of the model names, with weights (safetensors) and tokenizer; its "
        "sizes replace those here. null: from scratch, with the sizes here and the encoder's word pieces"))
    layers: int = Field(4, ge=1, description="of T5 in encoder and decoder each")
    heads: int = Field(4, ge=1)
    width: int = Field(256, ge=1)
    feed_forward: int = Field(1024, ge=1)


class DialoGpt(Pretrained):
    """DialoGPT: GPT-2 over x and y in one sequence."""

    positions: int = Field(256, ge=1, description="tokens of x and y together at most")


class T5(Pretrained):
    """T5 (Raffel et al. 2020)."""

    layers: int = Field(2, ge=1, description="of the encoder, and of the decoder")


class Training(Block):
    """Optimisation and selection (HCL section 4.2)."""

    epochs: int = Field(30, ge=0, description="0: the model stays as it begins (`init`), for a row of its own")
    patience: int = Field(3, ge=1, description="epochs without a smaller validation loss, after annealing")
    batch_size: int = Field(256, ge=1, description="triples per optimiser step")
    micro_batch: int = Field(64, ge=1, description="triples per forward pass; gradients are accumulated")
    encoder_rate: float = Field(5e-5, gt=0)
    learning_rate: float = Field(2e-4, gt=0, description="of everything but the encoder")
    restart_learning_rate: float | None = Field(None, gt=0, description="of the weights from `init`, the encoder "
                                                                        "aside; null: learning_rate")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of all steps; then rates fall linearly to 0")
    clip: float = Field(1.0, gt=0)
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; losses are always fp32")
    max_source: int = Field(20, ge=1, description="word pieces, special tokens not counted")
    max_target: int = Field(20, ge=1, description="likewise")
    keep: Literal["first", "last"] = Field("first", description="which end of a longer input is read; the last of a "
                                                                "dialogue, so that its latest turn survives")


class TrainHcl(Method):  # type: ignore[misc, valid-type]
    """Everything that defines a model of the HCL track: HCL, or the baseline that has a block of its name here."""

    cvae: Cvae = Cvae()
    seq2seq: Seq2Seq = Seq2Seq()
    transformer: Sizes = Sizes()
    seq2seq_du: Seq2SeqDu = Seq2SeqDu()
    group_wise: GroupWise = GroupWise()
    dialogpt: DialoGpt = DialoGpt()
    t5: T5 = T5()
    t5_claps: T5 = T5()
    simctg: DialoGpt = DialoGpt()
    training: Training = Training()

    @field_validator("architecture")
    @classmethod
    def _has_a_block(cls, name: str) -> str:
        names = ["hcl", *(other for other in cls.model_fields if other not in {*Method.model_fields, "training"})]
        if name not in names:
            raise ValueError(f"no value is called {name!r}; {nearest(name, names)}")
        return name


class GenerateHcl(Block):
    """Decoding (HCL section 4.2)."""

    split: Literal["validation", "test"] = "test"
    search: Literal["beam", "contrastive"] = Field("beam", description="beam search (one beam is greedy), or "
                                                                       "contrastive search (SimCTG)")
    num_beams: int = Field(4, ge=1)
    min_length: int = Field(5, ge=0)
    max_length: int = Field(20, ge=1)
    length_penalty: float = 1.0
    top_k: int = Field(5, ge=1, description="contrastive search: candidates per step")
    alpha: float = Field(0.6, ge=0, le=1, description="contrastive search: weight of the penalty on similarity")
    samples: int = Field(0, ge=0, description="further outputs per item, with z drawn from the prior, not its mean")
    keyword: str = Field("own", pattern=r"^(own|random|given:.*\S.*)$",
                         description="own: the input's; random: another node's; given:KEYWORD for every item (Table 4)")
    batch_size: int = Field(32, ge=1)

    @model_validator(mode="after")
    def _lengths_fit(self) -> "GenerateHcl":
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}; lower the one or "
                             f"raise the other")
        return self


class ProbeHcl(Block):
    """The effect of keywords on a trained model, and its latent space (HCL Table 4 and Figure 3)."""

    split: Literal["train", "validation", "test"] = "test"
    items: int = Field(100, ge=2, description="items of the t-SNE picture, a seeded sample")
    perplexity: float = Field(20.0, gt=0, description="of t-SNE")
    swaps: int = Field(12, ge=0, description="items whose keyword is swapped")


class Probe(Block):
    """A model that is probed."""

    model: str
