"""Params of the baselines of HCL's table (METHODS B): a block each, under the name of its architecture."""

from typing import Literal

from pydantic import Field, field_validator

from stages.params.block import Block
from stages.params.hcl_method import Method
from stages.params.pgkpr import Sizes
from stages.run.errors import nearest


class PieceTransformer(Sizes):
    """Transformer of word pieces (METHODS B3)."""

    norm: Literal["pre", "post"] = Field("pre", description="before each part, or behind its addition as in the paper")


class Seq2Seq(Block):
    """LSTMs with attention and a pointer (METHODS B2); the paper gives no sizes."""

    embedding: int = Field(256, ge=1, description="of word pieces, which also score the output")
    width: int = Field(256, ge=1, description="of the encoder, per direction, and of the decoder")
    dropout: float = Field(0.1, ge=0, lt=1, description="of embeddings")
    pointer: bool = Field(True, description="false: words come from the vocabulary alone")


class Cvae(Block):
    """The CVAE of GRUs (METHODS B1). With clip 5.0, Adam at 1e-3 and batches of 30 the released code's."""

    embedding: int = Field(200, ge=1)
    encoder: int = Field(300, ge=1, description="per direction")
    context: int = Field(600, ge=1)
    width: int = Field(400, ge=1, description="of the decoder")
    latent: int = Field(200, ge=1)
    bag: int = Field(400, ge=1, description="of the layer that predicts the bag of words")
    bow_loss: bool = True
    annealing_steps: int = Field(10_000, ge=0, description="over which the KL's weight rises from 0 to 1")
    annealing_share: float = Field(1.0, ge=0, le=1, description="of all steps; the smaller of both counts")


class Seq2SeqDu(Block):
    """Seq2Seq-DU, adapted (METHODS B4); its width is the encoder's."""

    phrases: int = Field(5, ge=1, description="keywords of a source at most: its own, and known ones that it holds")
    dropout: float = Field(0.1, ge=0, lt=1)


class GroupWise(PieceTransformer):
    """Group-wise contrasts over a Transformer (METHODS B8)."""

    pretrain_steps: int = Field(5_000, ge=0, description="by likelihood alone, before the reference is frozen")
    pretrain_share: float = Field(0.5, ge=0, lt=1, description="of all steps; the smaller of both counts")
    top: int = Field(5, ge=1, description="candidates: items of the most similar inputs by BM25")
    tail: int = Field(5, ge=0, description="candidates: items of the least similar inputs")
    sample_k: int = Field(6, ge=1, description="draws beside each observed pair")
    score: Literal["tfidf", "label"] = Field("tfidf", description="how well a pair matches: cosine of TF-IDF vectors, "
                                                                  "or whether the data have it as a pair")
    threshold: float = Field(0.5, ge=0, le=1, description="score of a pair that teaches nothing")
    speed: float | None = Field(1.0, gt=0, description="at which the contrast takes over: half the loss after 3,500 / "
                                                       "speed steps; null: all of it when the training ends")


class Pretrained(Sizes):
    """A model of ``transformers``: pretrained, or a small one of the same architecture from scratch."""

    source: str | None = Field(None, pattern="^(hub|path):.+$", description="hub:ID or path:FOLDER of weights "
                               "(safetensors) and tokenizer, whose sizes then hold; null: from scratch, of the sizes "
                               "here, over the encoder's word pieces")
    layers: int = Field(4, ge=1, description="of T5 in encoder and decoder each")
    heads: int = Field(4, ge=1)
    width: int = Field(256, ge=1)
    feed_forward: int = Field(1024, ge=1)


class DialoGpt(Pretrained):
    """DialoGPT: GPT-2 over x and y in one sequence (METHODS B5)."""

    positions: int = Field(256, ge=1, description="tokens of x and y together at most")


class SimCtg(DialoGpt):
    """DialoGPT's model with SimCTG's contrast between tokens (METHODS F)."""

    margin: float = Field(0.5, ge=0, le=2, description="cosines above 1 - margin cost something; 0 is DialoGPT")


class T5(Pretrained):
    """T5 (METHODS B7)."""

    layers: int = Field(2, ge=1, description="of the encoder, and of the decoder")
    prefix: str | None = Field(None, description="task that stands before x; null: `reply: ` for dialogues, "
                                                 "`continue: ` for stories, else `paraphrase: `")


class T5Claps(T5):
    """T5 with contrasts against perturbed targets (METHODS B9); items of a micro-batch are each other's negatives."""

    eps_neg: float = Field(1.0, ge=0, description="length of the step that makes a wrong target")
    eps_pos: float = Field(3.0, ge=0, description="length of the steps away from the source and back")
    temperature: float = Field(0.1, gt=0)
    claps_tau_both: bool = Field(True, description="false: the second contrast without temperature, as in the "
                                                   "released code")


class Architectures(Method):
    """What may be trained on the track's items: HCL, or the baseline that has a block of its name here."""

    cvae: Cvae = Cvae()
    seq2seq: Seq2Seq = Seq2Seq()
    transformer: PieceTransformer = PieceTransformer()
    seq2seq_du: Seq2SeqDu = Seq2SeqDu()
    group_wise: GroupWise = GroupWise()
    dialogpt: DialoGpt = DialoGpt()
    t5: T5 = T5()
    t5_claps: T5Claps = T5Claps()
    simctg: SimCtg = SimCtg()

    @field_validator("architecture")
    @classmethod
    def _has_a_block(cls, name: str) -> str:
        names = ["hcl", *(other for other in Architectures.model_fields if other not in Method.model_fields)]
        if name not in names:
            raise ValueError(f"no value is called {name!r}; {nearest(name, names)}")
        return name
