"""From an architecture's name to its model."""

from pathlib import Path

from models.pgkpr.base import Rewriter, RewriterConfig
from models.pgkpr.config import ARCHITECTURES


def rewriter_of(config: RewriterConfig) -> Rewriter:
    """Return a new model of ``config.architecture``, its weights drawn from torch's generator.

    Raises:
        ValueError: the architecture is unknown.
    """
    return _class_of(config.architecture)(config)


def load_rewriter(folder: str | Path) -> Rewriter:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode.

    Raises:
        OSError: there is none.
        ValueError: the architecture is unknown.
    """
    config = RewriterConfig.from_pretrained(folder)
    return _class_of(config.architecture).from_pretrained(folder, config=config)


def _class_of(architecture: str) -> type[Rewriter]:
    # imported when asked for: a model loads the modules of its own architecture alone
    if architecture == "pgkpr":
        from models.pgkpr.pgkpr import Pgkpr

        return Pgkpr
    if architecture == "transformer":
        from models.pgkpr.transformer import PlainTransformer

        return PlainTransformer
    if architecture == "residual_lstm":
        from models.pgkpr.residual_lstm import ResidualLstm

        return ResidualLstm
    if architecture == "latent_bow":
        from models.pgkpr.latent_bow import LatentBow

        return LatentBow
    if architecture == "ianet":
        from models.pgkpr.ianet import IaNet

        return IaNet
    raise ValueError(f"architecture is {architecture!r}, expected one of {', '.join(ARCHITECTURES)}")
