"""Decoding without a cache: slow, and simple enough to check decoding with one by."""

import torch

from models.common.transformer import masking


class WholeSteps:
    """Each step runs the decoder on whole hypotheses, with ``given`` repeated for each.

    Arguments are those of :class:`models.common.decoding.CachedSteps`. ``decode`` gets tokens (B W, L) and no cache,
    and
    returns (B W, L, d).
    """

    def __init__(self, decode, score, given):
        self._decode, self._score, self._given = decode, score, tuple(given)
        first = self._given[0]
        self.tokens = torch.empty(len(first), 1, 0, dtype=torch.int64, device=first.device)  # (B, W, length)

    def step(self, tokens):
        """Append tokens (B, W); return the states (B, W, d)."""
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(-1)], dim=-1)
        items, width, length = self.tokens.shape
        given = tuple(part.repeat_interleave(width, dim=0) for part in self._given)
        states = self._decode(self.tokens.view(-1, length), given, None)  # (B W, length, d)
        return states[:, -1].view(items, width, -1)

    def logits(self, states):
        """Return scores (..., V)."""
        return self._score(states)

    def reorder(self, parents):
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.tokens = self.tokens.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.tokens.shape[-1]))

    def keep(self, items):
        """Keep the items at these rows."""
        self._given, self.tokens = tuple(part[items] for part in self._given), self.tokens[items]


def whole(model, memory, mask, z, slots=None):
    """What :meth:`models.hcl.model.HclModel.steps` returns, without a cache."""
    given = [memory, masking(mask.bool(), memory)[:, None, None], *([] if z is None else [z])]
    return WholeSteps(model._decoded, model._scored, given)
