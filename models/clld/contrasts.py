"""The contrasts of a CLLD classifier by name: what is beside the cross-entropy in its loss (METHODS D.1, D.2).

A further one is its function in ``models.common.losses``, its place in :data:`CONTRASTS`, and its row in
``stages.tracks.clld.rows``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from models.common.losses import label_distance_contrast, supervised_contrast, token_contrast, twin_contrast

if TYPE_CHECKING:
    from models.clld.config import ClldConfig


@dataclass(frozen=True)
class Contrast:
    """A contrast between the views of the texts of a batch.

    Attributes:
        loss: given the configuration, vectors (V M, d) of V views of M texts, one view behind the other, the class of
            each vector (V M,) and the label distance matrix (N, N), a scalar: a mean over the vectors, or over texts.
        temperature: of its paper, where the configuration has None.
        reads_distance: it reads a label distance matrix, which the model then has as its buffer ``ldm``.
        views: at most so many; None for any number.
        reads_tokens: its vectors are those of the first tokens of each view, joined; which needs an encoder.
    """

    loss: Callable[["ClldConfig", Tensor, Tensor, Tensor | None], Tensor]
    temperature: float
    reads_distance: bool = False
    views: int | None = None
    reads_tokens: bool = False


def _label_distance(config: "ClldConfig", vectors: Tensor, classes: Tensor, ldm: Tensor | None) -> Tensor:
    if ldm is None:
        raise ValueError("contrast: contrast.kind is 'label_distance', and LDM is missing")
    return label_distance_contrast(vectors, classes, ldm, config.contrast_temperature, config.contrast["form"])


def _supervised(config: "ClldConfig", vectors: Tensor, classes: Tensor, ldm: Tensor | None) -> Tensor:
    return supervised_contrast(vectors, classes, config.contrast_temperature, config.contrast["base_temperature"])


def _twin(config: "ClldConfig", vectors: Tensor, classes: Tensor, ldm: Tensor | None) -> Tensor:
    return twin_contrast(vectors, config.contrast_temperature)


def _tokens(config: "ClldConfig", vectors: Tensor, classes: Tensor, ldm: Tensor | None) -> Tensor:
    tokens = vectors.unflatten(1, (config.contrast["tokens"], -1))  # (V M, T, dproj)
    return token_contrast(tokens, classes, config.contrast_temperature)


CONTRASTS: dict[str, Contrast] = {
    "label_distance": Contrast(_label_distance, temperature=1.0, reads_distance=True),
    "supervised": Contrast(_supervised, temperature=0.05),  # SupCL-Seq
    "tokens": Contrast(_tokens, temperature=0.07, views=2, reads_tokens=True),  # FastFit
    "twin": Contrast(_twin, temperature=0.05, views=2),  # SimCSE
}
