"""What of a network is differentiated, where, and gradients integrated along the line from a reference to a text."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.keywords.attribution.words import checked

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


Inputs = Mapping[str, Tensor]


class Lookup:
    """The word-embedding look-up, before position and type embeddings and normalisation.

    Args:
        network: what is differentiated.
        token_types: False: :meth:`run` drops ``token_type_ids``.
    """

    def __init__(self, network: PreTrainedModel, token_types: bool = True) -> None:
        self.network, self.token_types = network, token_types

    def value(self, inputs: Inputs) -> Tensor:
        """Return the embedding of each piece (B, L, d), without history."""
        with torch.no_grad():
            return self.network.get_input_embeddings()(inputs["input_ids"]).detach()

    def run(self, inputs: Inputs, embedding: Tensor) -> Any:
        """Return what the network gives with ``embedding`` (B, L, d) in place of its own look-up.

        Raises:
            ValueError: the network does not use its look-up.
        """
        used: list[bool] = []

        def replace(module: nn.Module, arguments: object, output: Tensor) -> Tensor:
            used.append(True)
            return embedding

        handle = self.network.get_input_embeddings().register_forward_hook(replace)
        try:
            output = self.network(**_seen(inputs, self.token_types))
        finally:
            handle.remove()
        if not used:
            raise ValueError("the classifier did not use get_input_embeddings(); there is nothing to differentiate")
        return output


class BlockOutput:
    """The output of the whole embedding block, fed in again as if it were word embeddings.

    Positions, types and normalisation are thereby applied twice, to a text that the network never saw in
    training: a bug of the released code of PGKPR, kept to reproduce it.

    Args:
        network: what is differentiated.
        token_types: False: :meth:`run` drops ``token_type_ids``. The block's own output has them all the same: in
            the released code the first pass, through the block alone, gets them, and the second one does not.
    """

    def __init__(self, network: PreTrainedModel, token_types: bool = True) -> None:
        self.network, self.token_types = network, token_types
        self.block = getattr(getattr(network, "base_model", network), "embeddings", None)
        if self.block is None:
            raise ValueError(f"embedding: {type(network).__name__} has no embedding block to take the output of; "
                             f"use lookup")

    def value(self, inputs: Inputs) -> Tensor:
        """Return the block's output for each piece (B, L, d), without history."""
        with torch.no_grad():
            return self.block(**_without(inputs, "attention_mask")).detach()  # type: ignore[misc]

    def run(self, inputs: Inputs, embedding: Tensor) -> Any:
        """Return what the network gives with ``embedding`` (B, L, d) as ``inputs_embeds``."""
        return self.network(**_without(_seen(inputs, self.token_types), "input_ids"), inputs_embeds=embedding)


POINTS: dict[str, type[Lookup] | type[BlockOutput]] = {"lookup": Lookup, "block_output": BlockOutput}


def _seen(inputs: Inputs, token_types: bool) -> Inputs:
    return inputs if token_types else _without(inputs, "token_type_ids")


def _without(inputs: Inputs, name: str) -> dict[str, Tensor]:
    return {key: value for key, value in inputs.items() if key != name}


@contextmanager
def at_rest(network: nn.Module) -> Iterator[None]:
    """Switch ``network`` to evaluation mode with frozen parameters, gradients on, and everything back afterwards.

    With frozen parameters a forward pass keeps only what the gradient by the embedding needs.
    """
    modes = [(part, part.training) for part in network.modules()]
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval()
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for part, training in modes:
            part.training = training


ROWS = 64  # rows of a forward pass where the caller names none

# From the network's output and the text of each of its rows: what is pulled back, and the cotangent.
Pull = Callable[[Any, Tensor], tuple[Tensor, Tensor]]


def integrated(point: Lookup | BlockOutput, inputs: Mapping[str, Tensor], reference_ids: Tensor, pull: Pull,
               steps: int, rows: int | None = None) -> Tensor:
    """Return the signed attribution of every word piece, (B, L) float64 on the CPU.

    That of coordinate i is (e_i - r_i) times the integral over a in [0, 1] of df/de_i at r + a (e - r); they sum to
    f(e) - f(r) (Sundararajan, Taly, Yan 2017, Axiomatic Attribution for Deep Networks, equation 1). The integral is a
    Gauss-Legendre sum. The B * ``steps`` points go through the network ``rows`` at a time, those of a text beside each
    other, so memory does not grow with ``steps``.

    Args:
        point: where the network is differentiated.
        inputs: the texts, each (B, L).
        reference_ids: where the paths begin (B, L); where it equals ``input_ids`` the attribution is 0.
        pull: what is differentiated.
        steps: points of a path.
        rows: rows of one forward pass; by default those of the batch, and 64 if it has fewer.
    """
    end = point.value(inputs)  # (B, L, d)
    begin = point.value({**inputs, "input_ids": reference_ids})
    way = end - begin
    places, weights = (torch.from_numpy(array).to(end.device) for array in nodes(steps))
    count = len(end) * steps
    size = rows or max(len(end), ROWS)
    total = torch.zeros(end.shape[:2], dtype=torch.float64, device=end.device)
    for first in range(0, count, size):
        flat = torch.arange(first, min(first + size, count), device=end.device)
        text, step = flat // steps, flat % steps
        leaf = torch.addcmul(begin[text], way[text], places[step, None, None].to(end.dtype)).requires_grad_()
        result, cotangent = pull(point.run({name: value[text] for name, value in inputs.items()}, leaf), text)
        gradient, factor = pulled_back(result, cotangent, leaf)
        share = torch.einsum("bld,bld->bl", gradient, way[text]).double() * factor * weights[step, None]
        total.index_add_(0, text, share)
    return total.cpu()


@cache
def nodes(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places in (0, 1) and weights, which sum to 1, of the Gauss-Legendre sum of ``steps`` terms.

    It is exact for polynomials of degree 2 ``steps`` - 1.

    Raises:
        ValueError: no steps.
    """
    if steps < 1:
        raise ValueError(f"steps: a path needs at least one point, not {steps}")
    places, weights = np.polynomial.legendre.leggauss(steps)
    return (places + 1) / 2, weights / 2
