"""Models of ``transformers`` as baselines: the loss of their outputs, and decoding by ``generate``."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, GenerationConfig

from models.common.decoding import Rules
from models.common.losses import at_least_float32


def item_nll(logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """Return -log p of each item's targets (B,), summed over real tokens.

    Args:
        logits: unnormalised scores (B, T, V).
        targets: tokens (B, T).
        real: True for those that count (B, T).
    """
    (logits,) = at_least_float32(logits)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return losses.masked_fill(~real, 0.0).sum(-1)


def left_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) and mask (B, L) with the padding at the left, where any token may stand for it."""
    places = torch.arange(ids.shape[1], device=ids.device) - (ids.shape[1] - mask.sum(1, keepdim=True))
    return ids.gather(1, places.clamp(min=0)), places >= 0


def positions(mask: Tensor) -> Tensor:
    """Return the position of each token among the real ones (B, L); 0 for padding at the left."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def generated(model: Any, rules: Rules, num_beams: int, length_penalty: float, **inputs: Tensor) -> Tensor:
    """Return tokens (B, L), without any prompt, by ``generate`` of transformers.

    Lengths and the length penalty count generated tokens alone, as :func:`models.common.decoding.beam_search` does.
    What the
    model's own ``generation_config`` says is not looked at.
    """
    if model.training:
        raise ValueError(f"{type(model).__name__}: call eval() before rewrite(), or dropout decides the output")
    start = getattr(model.config, "decoder_start_token_id", None)
    model.generation_config = GenerationConfig(
        do_sample=False, num_beams=num_beams, length_penalty=length_penalty, early_stopping=False,
        min_new_tokens=rules.min_length, max_new_tokens=rules.max_length + 1, forced_eos_token_id=rules.end,
        suppress_tokens=list(rules.banned) or None, eos_token_id=rules.end, pad_token_id=rules.pad,
        bos_token_id=rules.end, decoder_start_token_id=start)
    with torch.autocast(model.device.type, enabled=False):  # eight bits would make ties of most candidates
        tokens: Tensor = model.generate(**inputs)
    return tokens[:, 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]:]


class PromptedSteps:
    """A decoder of ``transformers`` as searches of :mod:`models.common.decoding` take steps with it.

    Args:
        decoder: returns ``last_hidden_state`` of ids, given mask, positions and earlier keys and values.
        head: from states to scores.
        ids: what comes before the first token (B, L), padded at the left; L may be 0.
        mask: True for its real tokens (B, L).
    """

    def __init__(self, decoder: nn.Module, head: nn.Linear, ids: Tensor, mask: Tensor) -> None:
        self._decoder, self._head, self._mask = decoder, head, mask
        self._width, self._cache = 1, DynamicCache()
        if ids.shape[1]:
            self._run(ids, positions(mask))

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        self._width = tokens.shape[1]
        self._mask = F.pad(self._mask, (0, 1), value=True)
        return self._run(tokens.reshape(-1, 1), positions(self._mask)[:, -1:]).view(*tokens.shape, -1)

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V)."""
        with torch.autocast(states.device.type, enabled=False):  # as ``project_in_full``
            return self._head(states.to(self._head.weight.dtype))

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        first = torch.arange(len(parents), device=parents.device).unsqueeze(1) * self._width
        self._select((first + parents).flatten(), parents.shape[1])

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        beams = torch.arange(self._width, device=items.device)
        self._select((items.unsqueeze(1) * self._width + beams).flatten(), self._width)

    def _run(self, ids: Tensor, places: Tensor) -> Tensor:
        states: Tensor = self._decoder(input_ids=ids, attention_mask=self._mask.long(), position_ids=places,
                                       past_key_values=self._cache, use_cache=True).last_hidden_state
        return states

    def _select(self, rows: Tensor, width: int) -> None:
        self._cache.batch_select_indices(rows)
        self._mask, self._width = self._mask.index_select(0, rows), width
