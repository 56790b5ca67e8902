"""From an architecture's name to the class of its model."""

from pathlib import Path
from typing import Any


def model_class(architecture: str) -> Any:
    """Return the class of an architecture: a ``PieceModel`` beside a ``PreTrainedModel``.

    Raises:
        ValueError: the architecture is unknown.
    """
    # imported when asked for: a model loads the modules of its own architecture alone
    if architecture == "transformer":
        from models.baselines.transformer import PieceTransformer

        return PieceTransformer
    raise ValueError(f"no baseline of word pieces is called {architecture!r}")


def load_pieces(folder: str | Path, architecture: str) -> Any:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode.

    Raises:
        OSError: there is none.
        ValueError: the architecture is unknown.
    """
    return model_class(architecture).from_pretrained(folder).eval()
