"""Which number of a pair classifier is differentiated (METHODS C.2, ``attr_target``)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from models.attribution.scores import checked

POSITIVE = 1  # class of "these two sentences mean the same"
ARGMAX_OF = ("row", "first_row")

_TINY = torch.finfo(torch.float64).tiny


def _logit_diff(logits: Tensor, classes: Tensor) -> Tensor:
    return logits[:, POSITIVE] - logits[:, 1 - POSITIVE]


def _pos_prob(logits: Tensor, classes: Tensor) -> Tensor:
    """P(positive) up to a constant, in a form whose gradient p(1-p) stays exact where p is next to 1."""
    difference = _logit_diff(logits, classes)
    return torch.where(difference > 0, -torch.sigmoid(-difference), torch.sigmoid(difference))


# Of logits (B, 2) and the classes (B,) that argmax_logit asks about.
TARGETS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pos_logit": lambda logits, classes: logits[:, POSITIVE],
    "argmax_logit": lambda logits, classes: logits.gather(1, classes.unsqueeze(1)).squeeze(1),
    "logit_diff": _logit_diff,
    "pos_prob": _pos_prob,
}


@dataclass(frozen=True)
class Output:
    """The number f that is differentiated.

    Attributes:
        target: ``pos_logit``, ``argmax_logit``, ``logit_diff`` (positive minus negative) or ``pos_prob``.
        argmax_of: whose class ``argmax_logit`` takes: each ``row``'s own, or for all rows that of the
            ``first_row``, as the released code does by mistake; scores then depend on the batch.
    """

    target: str = "pos_logit"
    argmax_of: str = "row"

    def __post_init__(self) -> None:
        """Check the names."""
        checked(self.target, TARGETS, "target")
        checked(self.argmax_of, ARGMAX_OF, "argmax_of")

    def classes(self, logits: Tensor) -> Tensor:
        """Return the class that ``argmax_logit`` takes of each row of a batch (B,)."""
        own = logits.detach().argmax(dim=-1)
        return own if self.argmax_of == "row" else own[:1].expand_as(own)

    def by_logits(self, logits: Tensor, classes: Tensor) -> Tensor:
        """Return df / d logits (B, 2) in double precision."""
        leaf = logits.detach().double().requires_grad_()
        gradient, = torch.autograd.grad(TARGETS[self.target](leaf, classes).sum(), leaf)
        return gradient


def pulled_back(result: Tensor, cotangent: Tensor, leaf: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient by ``leaf`` in one backward pass, as a tensor and a factor for each row.

    Rows do not interact, so one pass holds the gradient of each. The pass starts from numbers around 1, and the
    factor is kept apart: the gradient of a probability next to 0 or 1 would vanish in single precision.

    Args:
        result: what the network gave (B, n).
        cotangent: df / d result (B, n), double precision.
        leaf: what to differentiate by (B, L, d).

    Returns:
        (B, L, d) in the network's precision and (B, 1) in double; their product is the gradient.
    """
    factor = cotangent.abs().amax(dim=1, keepdim=True).clamp(min=_TINY)
    gradient, = torch.autograd.grad(result, leaf, (cotangent / factor).to(result.dtype))
    return gradient, factor
