"""Greedy and beam search, batched; equal to ``transformers`` with the same options, ties aside."""

import torch
from torch import Tensor

from models.common.decoding.scores import Candidates, best_continuations, full_precision
from models.common.decoding.steps import Decodable, Rules


@torch.no_grad()
def beam_search(
    model: Decodable,
    start: Tensor,
    rules: Rules,
    *,
    num_beams: int = 4,
    length_penalty: float = 1.0,
) -> Tensor:
    """Return the best output that a beam of ``num_beams`` hypotheses finds for each item.

    Of all continuations the 2 K best are looked at: those among the first K that end are finished, with their sum of
    log probabilities divided by length ** ``length_penalty``, the end token counted; the K best others go on. An item
    is done, and leaves the batch, when it has K finished outputs and its best running hypothesis, divided likewise by
    its present length, is no better than the worst of them. One beam is greedy: the likeliest token until the end
    token is it. Scores that are equal within rounding (about 1e-5 for outputs of twenty tokens in float32) are ties,
    which may fall either way; each search is deterministic.

    Args:
        model: the batch, at its beginning.
        start: first token of each item (B,).
        rules: lengths and banned tokens.
        num_beams: K.
        length_penalty: above 0 favours long outputs, below 0 short ones.

    Returns:
        Tokens (B, L), L <= max_length + 1: the output, the end token, then padding.

    Raises:
        ValueError: no beam at all, or no output is allowed.
    """
    if num_beams < 1:
        raise ValueError(f"beam_search: num_beams is {num_beams}, expected 1 or more")
    if num_beams == 1:
        return _greedy(model, start, rules)
    return _search(model, start, rules, _Beams(start, rules, num_beams, length_penalty))[:, 0]


@torch.no_grad()
def best_outputs(
    model: Decodable, start: Tensor, rules: Rules, count: int, *, num_beams: int, length_penalty: float = 1.0
) -> Tensor:
    """Return the ``count`` best different outputs that :func:`beam_search` finds for each item, best first.

    Returns:
        Tokens (B, count, L); padding alone where the search found fewer outputs.

    Raises:
        ValueError: more outputs than beams, or no output is allowed.
    """
    if not 1 <= count <= num_beams:
        raise ValueError(f"best_outputs: {count} outputs of {num_beams} beams; expected from 1 to as many as beams")
    if num_beams == 1:
        return _greedy(model, start, rules).unsqueeze(1)
    return _search(model, start, rules, _Beams(start, rules, num_beams, length_penalty, count))


def _search(model: Decodable, start: Tensor, rules: Rules, beams: "_Beams") -> Tensor:
    """Take steps until every item is done; return the best outputs of each (B, R, L)."""
    before, after = rules.forbidden(start.device)
    tokens = start.unsqueeze(1)
    for length in range(rules.max_length):
        logits = full_precision(model.logits(model.step(tokens)))
        forbidden = before if length < rules.min_length else after
        going, kept = beams.advance(best_continuations(logits, beams.scores.to(logits), forbidden, 2 * beams.width))
        if kept is not None:
            if not len(kept):
                break
            model.keep(kept)
        if length + 1 < rules.max_length:
            model.reorder(going.parents)
        tokens = going.tokens
    return beams.outputs()


class _Beams:
    """Running and finished hypotheses of the items that are not done, and the R best outputs of those that are.

    Attributes:
        scores: of the running hypotheses, best first (n, W).
    """

    def __init__(self, start: Tensor, rules: Rules, width: int, length_penalty: float, count: int = 1) -> None:
        self.rules, self.width, self.length_penalty = rules, width, length_penalty
        items = len(start)
        self._items = torch.arange(items, device=start.device)  # rows of the outputs that are not done
        self._outputs = start.new_full((items, count, rules.max_length + 1), rules.pad)
        self._running = start.new_empty(items, 1, 0)  # tokens (n, W, length)
        self.scores = torch.zeros(items, 1, device=start.device)
        self._finished = torch.full((items, width), -torch.inf, device=start.device)  # best first
        self._best = self._outputs.clone()  # the best finished outputs (n, R, max_length + 1)

    def advance(self, found: Candidates) -> tuple[Candidates, Tensor | None]:
        """Take the candidates of one step (n, 2 W).

        Returns:
            The continuations that run on, of the items that are not done, and the rows that these items had; None if
            that is all of them.
        """
        ended = found.tokens == self.rules.end
        finishing = found.scores.masked_fill(~ended, -torch.inf)[:, : self.width]
        if bool((finishing > -torch.inf).any()):
            self._finish(finishing / self._divisor(self._length + 1), found.parents)
        open_scores, places = found.scores.masked_fill(ended, -torch.inf).topk(self.width, dim=-1)
        going = found.take(places)
        self.scores = open_scores
        parents = going.parents.unsqueeze(-1).expand(-1, -1, self._length)
        self._running = torch.cat([self._running.gather(1, parents), going.tokens.unsqueeze(-1)], dim=-1)
        return self._without_done(going)

    def outputs(self) -> Tensor:
        """End what still runs, at no cost, and return the best outputs of each item (B, R, L)."""
        if len(self._items):
            everyone = torch.arange(self.scores.shape[1], device=self.scores.device).expand_as(self.scores)
            self._finish(self.scores / self._divisor(self._length + 1), everyone)
            self._outputs[self._items] = self._best
        ends = self._outputs == self.rules.end
        if not bool(ends[:, 0].any(dim=-1).all()):
            raise ValueError("beam_search: there are items without any output that the rules allow: too much is banned")
        return self._outputs[..., : int(ends.nonzero()[:, 2].max()) + 1] if len(ends) else self._outputs

    @property
    def _length(self) -> int:
        return self._running.shape[-1]

    def _divisor(self, length: int) -> float:
        return float(length) ** self.length_penalty

    def _finish(self, scores: Tensor, parents: Tensor) -> None:
        """Enter running hypotheses ``parents`` (n, m) that end now with these final ``scores`` (n, m)."""
        count = self._best.shape[1]
        # stable: of equal scores what was found first is kept
        score, place = (part[:, :count] for part in scores.sort(dim=-1, descending=True, stable=True))  # (n, R)
        parent = parents.gather(1, place).unsqueeze(-1).expand(-1, -1, self._length)
        output = self._best.new_full((*score.shape, self._best.shape[-1]), self.rules.pad)
        output[..., : self._length] = self._running.gather(1, parent)
        output[..., self._length] = self.rules.end
        output = output.masked_fill((score == -torch.inf).unsqueeze(-1), self.rules.pad)  # these do not end here
        both = torch.cat([self._finished[:, :count], score], dim=-1)
        chosen = both.sort(dim=-1, descending=True, stable=True).indices[:, :count, None]
        together = torch.cat([self._best, output], dim=1)
        self._best = together.gather(1, chosen.expand(-1, -1, together.shape[-1]))
        self._finished = torch.cat([self._finished, scores], dim=-1).topk(self.width, dim=-1).values

    def _without_done(self, going: Candidates) -> tuple[Candidates, Tensor | None]:
        done = self._done()
        if not bool(done.any()):
            return going, None
        rows = done.nonzero().squeeze(-1)
        self._outputs[self._items[rows]] = self._best[rows]
        kept = (~done).nonzero().squeeze(-1)
        for name in ("_items", "_running", "scores", "_finished", "_best"):
            setattr(self, name, getattr(self, name).index_select(0, kept))
        parts = (part.index_select(0, kept) for part in (going.scores, going.parents, going.tokens))
        return Candidates(*parts), kept

    def _done(self) -> Tensor:
        """Return which items (n,) need no further step."""
        best, worst = self.scores[:, 0], self._finished[:, -1]
        full = worst > -torch.inf
        return (full & (best / self._divisor(self._length) <= worst)) | (best == -torch.inf)


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
