"""Decoding for every generator: greedy, beam and contrastive search over a model that decodes step by step.

Greedy and beam search are equal to ``transformers`` with the same options, ties aside. Contrastive search is SimCTG's
(Su et al. 2022, A Contrastive Framework for Neural Text Generation, eq. 5).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from models.common.losses import at_least_float32

Pair = tuple[Tensor, Tensor]
_BLOCK = 64  # words of a vocabulary whose largest score is found first
Value = TypeVar("Value")


class Decodable(Protocol):
    """A batch of items during decoding; each has W hypotheses (beams or candidates) of equal length, at first one."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append a token to every hypothesis (B, W); return the states (B, W, d) that predict the next ones."""

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised scores (..., V) of the next token, at least float32; the search may overwrite them."""

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of item b a continuation of its hypothesis ``parents[b, w]`` (B, W'); W' may differ."""

    def keep(self, items: Tensor) -> None:
        """Remove all items but these rows (n,)."""


@dataclass(frozen=True)
class Rules:
    """Rules of outputs, as in ``transformers``; ``banned`` tokens keep their share of the probability.

    Lengths exclude the end token, which is forced after ``max_length`` at no cost to the score.
    """

    end: int
    pad: int    # fills the rows after the end token
    min_length: int
    max_length: int
    banned: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise ValueError(f"decoding: min_length {self.min_length} and max_length {self.max_length} must satisfy "
                             f"0 <= min <= max")

    def forbidden(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the tokens forbidden before ``min_length`` and those forbidden from then on."""
        banned = sorted(set(self.banned))
        return torch.tensor([*banned, self.end], device=device), torch.tensor(banned, dtype=torch.int64, device=device)


class BeamCache:
    """Keys and values of every token that was tried, and the table of ancestors of each hypothesis.

    Each step writes W new slots per item, of ``slots`` in all. A change of beams moves no key and no value, only the
    ancestors (B, W, slots), which are the mask of self-attention: the W hypotheses of an item are W queries to its
    slots.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.steps = 0  # tokens of each hypothesis
        self._used = 0  # slots written before the step in progress
        self._ancestors: Tensor | None = None  # (B, W, slots so far); None while all slots are ancestors of all
        self._written: dict[int, Pair] = {}  # by layer, (B, H, slots, d / H) each
        self._memory: dict[int, Pair] = {}  # by layer, (B, H, S, d / H) each
        self._once: Any = None

    def allowed(self, width: int, device: torch.device) -> Tensor | None:
        """Begin a step of ``width`` hypotheses; return the mask of their slots (B, 1, W, slots), None for all."""
        if self._ancestors is None:
            return None
        batch = len(self._ancestors)
        own = torch.eye(width, dtype=torch.bool, device=device).expand(batch, width, width)
        self._ancestors = torch.cat([self._ancestors, own], dim=-1)
        return self._ancestors.unsqueeze(1)

    def once(self, compute: Callable[[], Value]) -> Value:
        """Return ``compute()`` of the first step."""
        if self._once is None:
            self._once = compute()
        return self._once

    def update(self, keys: Tensor, values: Tensor, layer: int) -> Pair:
        """Write keys and values (B, H, W, d / H) of this step; return those of all slots so far."""
        if layer not in self._written:
            batch, heads, _, width = keys.shape
            shape = (batch, heads, self.slots, width)
            self._written[layer] = keys.new_empty(shape), values.new_empty(shape)
        all_keys, all_values = self._written[layer]
        end = self._used + keys.shape[2]
        all_keys[:, :, self._used:end], all_values[:, :, self._used:end] = keys, values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def memory(self, layer: int, project: Callable[[], Pair]) -> Pair:
        """Return keys and values of a layer's memory, projected at its first step."""
        if layer not in self._memory:
            self._memory[layer] = project()
        return self._memory[layer]

    def advance(self, width: int) -> None:
        """End a step in which every layer has written ``width`` slots."""
        self._used += width
        self.steps += 1

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w a continuation of hypothesis ``parents[b, w]`` (B, W)."""
        if self._ancestors is None:
            if parents.shape[1] > 1:
                self._ancestors = torch.ones(*parents.shape, self._used, dtype=torch.bool, device=parents.device)
            return
        self._ancestors = self._ancestors.gather(1, parents.unsqueeze(-1).expand(-1, -1, self._used))

    def keep(self, items: Tensor) -> None:
        """Remove all items but these rows (n,)."""
        for table in (self._written, self._memory):
            for layer, (keys, values) in table.items():
                table[layer] = keys.index_select(0, items), values.index_select(0, items)
        if self._ancestors is not None:
            self._ancestors = self._ancestors.index_select(0, items)


Decode = Callable[[Tensor, Sequence[Tensor], BeamCache | None], Tensor]
Score = Callable[[Tensor], Tensor]


class CachedSteps:
    """A :class:`Decodable` with a cache: each step runs the decoder on the newest tokens alone.

    ``decode`` maps tokens (B, W), the tensors ``given`` of each item and the cache to states (B, W, d), ``score`` maps
    states to scores (..., V); ``slots`` tokens will be tried per item.
    """

    def __init__(self, decode: Decode, score: Score, given: Sequence[Tensor], slots: int) -> None:
        self._decode, self._score, self._given = decode, score, tuple(given)
        self.cache = BeamCache(slots)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        states = self._decode(tokens, self._given, self.cache)
        self.cache.advance(tokens.shape[1])
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V)."""
        return self._score(states)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w a continuation of hypothesis ``parents[b, w]``."""
        self.cache.reorder(parents)

    def keep(self, items: Tensor) -> None:
        """Remove all items but these rows."""
        self._given = tuple(part.index_select(0, items) for part in self._given)
        self.cache.keep(items)


@torch.no_grad()
def project_in_full(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return states (..., d) times weight (V, d) plus bias (V,) in the precision of the weights, under autocast too."""
    with torch.autocast(states.device.type, enabled=False):  # in eight bits most candidates would have equal scores
        return F.linear(states.to(weight.dtype), weight, bias)


class Candidates(NamedTuple):
    """The best continuations of each item, best first, (B, n) each."""

    scores: Tensor      # sums of log probabilities; minus infinity where there are fewer than n
    parents: Tensor     # hypothesis that each one continues
    tokens: Tensor      # its last token


def best_continuations(logits: Tensor, scores: Tensor, forbidden: Tensor, count: int) -> Candidates:
    """Return the best continuations by logits (B, W, V) of hypotheses of ``scores`` (B, W), no ``forbidden`` tokens."""
    # faster than subtracting torch's logsumexp, which allocates two more tables of this size
    chances = F.log_softmax(logits, dim=-1).index_fill_(-1, forbidden, -torch.inf)
    # the best of all are among the best of each hypothesis (B, W, m)
    values, tokens = _largest(chances, min(count, chances.shape[-1]))
    totals = (values + scores.unsqueeze(-1)).flatten(1)  # (B, W m)
    best, places = totals.topk(min(count, totals.shape[1]), dim=-1)
    missing = count - best.shape[1]  # of a vocabulary smaller than the beam
    return Candidates(F.pad(best, (0, missing), value=-torch.inf), F.pad(places // values.shape[-1], (0, missing)),
                      F.pad(tokens.flatten(1).gather(1, places), (0, missing)))


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of ``values`` (..., V), best first, and their places.

    On a CPU the blocks that can contain them are found first, in half the time for a vocabulary of 30,000 words.
    """
    blocks = values.shape[-1] // _BLOCK
    if not values.is_cpu or blocks <= count:
        return values.topk(count, dim=-1)
    grouped = values[..., :blocks * _BLOCK].unflatten(-1, (blocks, _BLOCK))
    first = _BLOCK * grouped.amax(-1).topk(count, dim=-1).indices  # of each block with one of the largest
    within = torch.arange(_BLOCK, device=values.device)
    rest = torch.arange(blocks * _BLOCK, values.shape[-1], device=values.device).expand(*values.shape[:-1], -1)
    places = torch.cat([(first.unsqueeze(-1) + within).flatten(-2), rest], dim=-1)
    best, chosen = values.gather(-1, places).topk(count, dim=-1)
    return best, places.gather(-1, chosen)


def beam_search(model: Decodable, start: Tensor, rules: Rules, *, num_beams: int = 4,
                length_penalty: float = 1.0) -> Tensor:
    """Return the best output of each item (B, L) that :func:`best_outputs` finds."""
    return best_outputs(model, start, rules, 1, num_beams=num_beams, length_penalty=length_penalty)[:, 0]


@torch.no_grad()
def best_outputs(model: Decodable, start: Tensor, rules: Rules, count: int, *, num_beams: int,
                 length_penalty: float = 1.0) -> Tensor:
    """Return the ``count`` best different outputs of a search with K = ``num_beams`` for each item (B, count, L).

    Best first: the output, the end token, then padding; padding alone where the search found fewer. ``start`` (B,) is
    the first token. Each step finds the 2 K best continuations. Those that end and are among the first K are finished;
    their score is the sum of log probabilities divided by length ** ``length_penalty``, end token included. The K best
    others continue. An item is done when it has K finished outputs and none has a lower score than its best running
    hypothesis, scored by its present length. One beam is greedy. Equal scores may be ordered either way.
    """
    if not 1 <= count <= num_beams:
        raise ValueError(f"decoding: {count} outputs of {num_beams} beams; expected from 1 to as many as beams")
    if num_beams == 1:
        return _greedy(model, start, rules).unsqueeze(1)
    beams = _Beams(start, rules, num_beams, length_penalty, count)
    before, after = rules.forbidden(start.device)
    tokens = start.unsqueeze(1)
    for length in range(rules.max_length):
        (logits,) = at_least_float32(model.logits(model.step(tokens)))
        forbidden = before if length < rules.min_length else after
        running, kept = beams.advance(best_continuations(logits, beams.scores.to(logits), forbidden, 2 * num_beams))
        if kept is not None:
            if not len(kept):
                break
            model.keep(kept)
        if length + 1 < rules.max_length:
            model.reorder(running.parents)
        tokens = running.tokens
    return beams.outputs()


class _Beams:
    """Running and finished hypotheses of the items that are not done, and the R best outputs of the others."""

    def __init__(self, start: Tensor, rules: Rules, width: int, length_penalty: float, count: int) -> None:
        self.rules, self.width, self.length_penalty = rules, width, length_penalty
        items = len(start)
        self._items = torch.arange(items, device=start.device)  # rows of the outputs that are not done
        self._outputs = start.new_full((items, count, rules.max_length + 1), rules.pad)
        self._running = start.new_empty(items, 1, 0)  # tokens (n, W, length)
        self.scores = torch.zeros(items, 1, device=start.device)  # of the running hypotheses, best first (n, W)
        self._finished = torch.full((items, width), -torch.inf, device=start.device)  # best first
        self._best = self._outputs.clone()  # the best finished outputs (n, R, max_length + 1)

    def advance(self, candidates: Candidates) -> tuple[Candidates, Tensor | None]:
        """Continue with candidates (n, 2 W); return those that run on, and the rows of items not done, None for all."""
        ended = candidates.tokens == self.rules.end
        finishing = candidates.scores.masked_fill(~ended, -torch.inf)[:, : self.width]
        if bool((finishing > -torch.inf).any()):
            self._finish(finishing / self._divisor(self._length + 1), candidates.parents)
        self.scores, places = candidates.scores.masked_fill(ended, -torch.inf).topk(self.width, dim=-1)
        running = Candidates(*(part.gather(1, places) for part in candidates))
        parents = running.parents.unsqueeze(-1).expand(-1, -1, self._length)
        self._running = torch.cat([self._running.gather(1, parents), running.tokens.unsqueeze(-1)], dim=-1)
        best, worst = self.scores[:, 0], self._finished[:, -1]
        done = ((worst > -torch.inf) & (best / self._divisor(self._length) <= worst)) | (best == -torch.inf)  # (n,)
        if not bool(done.any()):
            return running, None
        rows = done.nonzero().squeeze(-1)
        self._outputs[self._items[rows]] = self._best[rows]
        kept = (~done).nonzero().squeeze(-1)
        for name in ("_items", "_running", "scores", "_finished", "_best"):
            setattr(self, name, getattr(self, name).index_select(0, kept))
        return Candidates(*(part.index_select(0, kept) for part in running)), kept

    def outputs(self) -> Tensor:
        """End the running hypotheses, at no cost, and return the best outputs of each item (B, R, L)."""
        if len(self._items):
            everyone = torch.arange(self.scores.shape[1], device=self.scores.device).expand_as(self.scores)
            self._finish(self.scores / self._divisor(self._length + 1), everyone)
            self._outputs[self._items] = self._best
        ends = self._outputs == self.rules.end
        if not bool(ends[:, 0].any(dim=-1).all()):
            raise ValueError("decoding: there are items without any output that the rules allow: too much is banned")
        return self._outputs[..., : int(ends.nonzero()[:, 2].max()) + 1] if len(ends) else self._outputs

    @property
    def _length(self) -> int:
        return self._running.shape[-1]

    def _divisor(self, length: int) -> float:
        return float(length) ** self.length_penalty

    def _finish(self, scores: Tensor, parents: Tensor) -> None:
        """Add running hypotheses ``parents`` (n, m), which end now with final ``scores`` (n, m), to the finished."""
        count = self._best.shape[1]
        # stable: of equal scores the earlier one wins
        score, place = (part[:, :count] for part in scores.sort(dim=-1, descending=True, stable=True))  # (n, R)
        parent = parents.gather(1, place).unsqueeze(-1).expand(-1, -1, self._length)
        output = self._best.new_full((*score.shape, self._best.shape[-1]), self.rules.pad)
        output[..., : self._length] = self._running.gather(1, parent)
        output[..., self._length] = self.rules.end
        output = output.masked_fill((score == -torch.inf).unsqueeze(-1), self.rules.pad)  # these have not ended
        both = torch.cat([self._finished[:, :count], score], dim=-1)
        chosen = both.sort(dim=-1, descending=True, stable=True).indices[:, :count, None]
        outputs = torch.cat([self._best, output], dim=1)
        self._best = outputs.gather(1, chosen.expand(-1, -1, outputs.shape[-1]))
        self._finished = torch.cat([self._finished, scores], dim=-1).topk(self.width, dim=-1).values


def _greedy(model: Decodable, start: Tensor, rules: Rules) -> Tensor:
    before, after = rules.forbidden(start.device)
    outputs = start.new_full((len(start), rules.max_length + 1), rules.pad)
    items, tokens = torch.arange(len(start), device=start.device), start
    for length in range(rules.max_length):
        logits = model.logits(model.step(tokens.unsqueeze(1))).squeeze(1)
        logits.index_fill_(-1, before if length < rules.min_length else after, -torch.inf)
        tokens = logits.argmax(-1)
        outputs[items, length] = tokens
        going = tokens != rules.end
        if not bool(going.all()):
            kept = going.nonzero().squeeze(-1)
            items, tokens = items[kept], tokens[kept]
            if not len(kept):
                return outputs[:, : length + 1]
            model.keep(kept)
    outputs[items, rules.max_length] = rules.end
    return outputs


@torch.no_grad()
def contrastive_search(model: Decodable, start: Tensor, rules: Rules, *, top_k: int = 5, alpha: float = 0.6) -> Tensor:
    """Return one output per item (B, L), of likely tokens whose states differ from those before them.

    Each step chooses, among the ``top_k`` likeliest allowed tokens v, that of largest (1 - alpha) p(v | prefix) - alpha
    max_j cos(h_v, h_j), with p among the allowed tokens and states h after v and after the earlier tokens. ``top_k`` 1
    or ``alpha`` 0 is greedy.
    """
    before, after = rules.forbidden(start.device)
    outputs = start.new_full((len(start), rules.max_length + 1), rules.pad)
    items = torch.arange(len(start), device=start.device)
    state = model.step(start.unsqueeze(1))  # (n, 1, d)
    seen = F.normalize(at_least_float32(state)[0], dim=-1)  # (n, tokens so far, d), unit vectors
    for length in range(rules.max_length):
        logits = at_least_float32(model.logits(state))[0].squeeze(1)
        logits.index_fill_(-1, before if length < rules.min_length else after, -torch.inf)
        values, words = logits.topk(min(top_k, logits.shape[-1]), dim=-1)  # (n, k)
        model.reorder(torch.zeros_like(words))  # k hypotheses with one prefix
        states = model.step(words)  # (n, k, d)
        directions = F.normalize(at_least_float32(states)[0], dim=-1)
        confidence = torch.exp(values - logits.logsumexp(-1, keepdim=True))
        similarity = (directions @ seen.transpose(1, 2)).amax(-1)  # (n, k)
        scores = ((1 - alpha) * confidence - alpha * similarity).masked_fill(values == -torch.inf, -torch.inf)
        chosen = scores.argmax(-1, keepdim=True)  # (n, 1)
        model.reorder(chosen)
        tokens = words.gather(1, chosen).squeeze(1)
        outputs[items, length] = tokens
        state, direction = (part.gather(1, chosen.unsqueeze(-1).expand(-1, -1, part.shape[-1]))
                            for part in (states, directions))  # (n, 1, d)
        seen = torch.cat([seen, direction], dim=1)
        going = tokens != rules.end
        if not bool(going.all()):
            kept = going.nonzero().squeeze(-1)
            if not len(kept):
                return outputs[:, : length + 1]
            items, state, seen = items[kept], state[kept], seen[kept]
            model.keep(kept)
    outputs[items, rules.max_length] = rules.end
    return outputs
