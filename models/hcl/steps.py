"""The HCL decoder as something that searches can take steps with."""

from collections.abc import Callable, Sequence

from torch import Tensor

from models import decoding
from models.bert import additive_mask
from models.decoding import BeamCache, project_in_full
from models.hcl.network import HclNetwork


class CachedSteps(decoding.CachedSteps):
    """Decoding with keys and values kept; memory and z are not repeated for each hypothesis.

    Args:
        model: the network, in evaluation mode.
        memory: what the decoder attends to (B, S, d).
        mask: True for its real slots (B, S).
        z: latent vectors (B, dz); None for the deterministic backbone.
        slots: tokens that will be tried per item.
    """

    def __init__(self, model: HclNetwork, memory: Tensor, mask: Tensor, z: Tensor | None, slots: int) -> None:
        super().__init__(_decoding(model), _scoring(model), _given(memory, mask, z), slots)


class WholeSteps(decoding.WholeSteps):
    """Decoding without a cache, memory and z repeated for each hypothesis; arguments are the same."""

    def __init__(self, model: HclNetwork, memory: Tensor, mask: Tensor, z: Tensor | None) -> None:
        super().__init__(_decoding(model), _scoring(model), _given(memory, mask, z))


def _given(memory: Tensor, mask: Tensor, z: Tensor | None) -> tuple[Tensor, ...]:
    bias = additive_mask(mask.bool(), memory.dtype)  # once for all tokens
    return (memory, bias) if z is None else (memory, bias, z)


def _decoding(model: HclNetwork) -> Callable[[Tensor, Sequence[Tensor], BeamCache | None], Tensor]:
    def decode(tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None) -> Tensor:
        memory, mask, *rest = given
        return model.decode(tokens, memory, mask, rest[0] if rest else None, cache)

    return decode


def _scoring(model: HclNetwork) -> Callable[[Tensor], Tensor]:
    return lambda states: project_in_full(states, model.get_input_embeddings().weight, model.word_scores.bias)
