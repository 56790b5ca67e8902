"""Params of the HCL track: method, training, decoding, evaluation."""

from typing import Any, Literal

from pydantic import Field

from stages.params.block import Block


class GraphAttention(Block):
    """Graph attention with edge and node updates (eq. 4-9)."""

    iterations: int = Field(2, ge=0, description="T; 0 is the ablation without graph")
    edge_type: Literal["shared", "signed"] = "shared"
    layer_norm: bool = True


class KeywordUse(Block):
    """How keywords take part."""

    condition: bool = Field(True, description="false: ablation without keyword (prior, both keyword contrasts)")
    imp_weight: Literal["attn", "mean", "linear"] = "attn"
    kw_anchor: Literal["input", "output"] = "input"


class Latent(Block):
    """The CVAE's latent variable (METHODS A.5)."""

    enabled: bool = Field(True, description="false: deterministic backbone")
    size: int = Field(200, ge=1)
    free_bits: float = Field(5.0, ge=0, description="nats in all, shared evenly by the dimensions")
    annealing_steps: int = Field(10_000, ge=0)
    annealing_share: float = Field(0.2, ge=0, le=1, description="of all steps; the smaller of both counts")
    bow_loss: bool = True
    word_dropout: float = Field(0.0, ge=0, lt=1)


class Contrast(Block):
    """Weight and temperature of a contrast; weight 0 removes it."""

    weight: float = Field(1.0, ge=0)
    temperature: float = Field(gt=0)


class Mahalanobis(Contrast):
    """The contrast between levels."""

    temperature: float = Field(0.5, gt=0)
    form: Literal["inverse", "printed"] = "inverse"
    sqrt: bool = False


class Contrasts(Block):
    """The three contrasts (METHODS A.6)."""

    instance: Contrast = Contrast(temperature=0.1)
    keyword: Contrast = Contrast(temperature=0.1)
    mahalanobis: Mahalanobis = Mahalanobis()
    dist_norm: Literal["dim", "none"] = "dim"


class Decoder(Block):
    """Transformer decoder (METHODS A.7)."""

    layers: int = Field(6, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    kw_memory: bool = False


class Training(Block):
    """Optimisation and selection (METHODS A.8)."""

    epochs: int = Field(30, ge=1)
    patience: int = Field(3, ge=1, description="epochs without a smaller validation loss, after annealing")
    batch_size: int = Field(256, ge=1, description="triples per optimiser step")
    micro_batch: int = Field(64, ge=1, description="triples per forward pass; gradients are accumulated")
    encoder_rate: float = Field(5e-5, gt=0)
    learning_rate: float = Field(2e-4, gt=0, description="of everything but the encoder")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of all steps")
    clip: float = Field(1.0, gt=0)
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")
    checkpoint_steps: int = Field(20, ge=1, description="optimiser steps between checkpoints")
    max_source: int = Field(20, ge=1, description="word pieces, special tokens not counted")
    max_target: int = Field(20, ge=1, description="likewise")


class TrainHcl(Block):
    """Everything that defines an HCL model."""

    graph: GraphAttention = GraphAttention()
    keyword: KeywordUse = KeywordUse()
    latent: Latent = Latent()
    contrasts: Contrasts = Contrasts()
    decoder: Decoder = Decoder()
    training: Training = Training()


class HclModel(Block):
    """One trained model: a data set, and what differs from the ``train_hcl`` block."""

    dataset: str
    seed: int | None = Field(None, description="null takes the project's seed")
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_hcl`")


class GenerateHcl(Block):
    """Decoding (METHODS A.8)."""

    split: Literal["validation", "test"] = "test"
    num_beams: int = Field(4, ge=1)
    min_length: int = Field(5, ge=0)
    max_length: int = Field(20, ge=1)
    length_penalty: float = 1.0
    samples: int = Field(0, ge=0, description="further outputs per item, z drawn from the prior")
    batch_size: int = Field(32, ge=1)


class HclRun(Block):
    """A row of the results table: a model and what differs from the ``generate_hcl`` block."""

    model: str
    decode: dict[str, Any] = Field(default_factory=dict)


class EvaluateHcl(Block):
    """Metrics (METHODS E)."""

    bleu_style: Literal["individual_m7"] = "individual_m7"
    emb: Literal["encoder"] = "encoder"
    floors: list[Literal["copy", "nearest"]] = ["copy", "nearest"]
