"""Settings of the networks of the PGKPR track: groups of ``train_pgkpr`` and of a saved model's ``config.json``."""

from dataclasses import dataclass
from typing import Literal

from models.common import setting

Architecture = Literal["pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet"]


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction of tags and keywords from encoder states."""

    weight: float = setting(1.0, "lambda 1; 0 removes it", ge=0)
    reduction: Literal["token_mean", "sent_mean"] = "token_mean"


@dataclass(frozen=True)
class PairContrast:
    """Contrast of sentence encodings in the batch."""

    weight: float = setting(0.1, "lambda 2; 0 removes it", ge=0)
    neg: Literal["targets", "all"] = setting("targets", "all: also the other sources, unperturbed")
    sim: Literal["cosine", "dot"] = "cosine"
    order: Literal["pos_sent", "sent_pos"] = setting("pos_sent", "unperturbed counterparts: tags first, or words first")


@dataclass(frozen=True)
class Sizes:
    """Sizes of the Transformers of this track (PGKPR section 5.3); IANet has numbers of layers of its own."""

    layers: int = setting(6, "of the encoder, and of the decoder", ge=1)
    heads: int = setting(8, ge=1)
    width: int = setting(512, ge=1)
    feed_forward: int = setting(2048, ge=1)
    dropout: float = setting(0.1, ge=0, lt=1)
    inner_dropout: bool = setting(False, "dropout inside the feed-forward networks too, as in the released code")

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")


@dataclass(frozen=True)
class ResidualLstmSettings:
    """Residual-LSTM (Prakash et al. 2016)."""

    width: int = setting(512, ge=1)
    dropout: float = setting(0.1, ge=0, lt=1)


@dataclass(frozen=True)
class LatentBowSettings:
    """Latent bag of words (Fu et al. 2019)."""

    width: int = setting(500, ge=1)
    memory: int = setting(11, "K: words of the memory, and largest number of words in the bag to predict (Quora 11, "
                              "MSCOCO 25 to 30)", ge=1)
    dropout: float = setting(0.6, "of LSTM outputs", ge=0, lt=1)
    gumbel: bool = setting(False, "memory from softmaxes with Gumbel noise; false: from the plain bag (Topk)")


@dataclass(frozen=True)
class IaNetSettings:
    """IANet's aggregation model (Su et al. 2021); width, heads and dropout are those of `sizes`."""

    encoder_layers: int = setting(3, "of each of the two encoders", ge=1)
    decoder_layers: int = setting(4, ge=1)


@dataclass(frozen=True)
class RewriterSettings:
    """Everything that defines a network of this track; an architecture reads its own groups."""

    architecture: Architecture = "pgkpr"
    reconstruction: Reconstruction = Reconstruction()
    contrast: PairContrast = PairContrast()
    sizes: Sizes = Sizes()
    residual_lstm: ResidualLstmSettings = ResidualLstmSettings()
    latent_bow: LatentBowSettings = LatentBowSettings()
    ianet: IaNetSettings = IaNetSettings()
