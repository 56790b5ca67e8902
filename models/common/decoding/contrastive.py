"""Contrastive search (SimCTG; Su et al. 2022, A Contrastive Framework for Neural Text Generation, eq. 5)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.common.decoding.scores import full_precision
from models.common.decoding.steps import Decodable, Rules


@torch.no_grad()
def contrastive_search(model: Decodable, start: Tensor, rules: Rules, *, top_k: int = 5, alpha: float = 0.6) -> Tensor:
    """Return one output per item, of likely tokens whose states are unlike those before them.

    Each step takes, of the ``top_k`` likeliest tokens v, the largest
    (1 - alpha) p(v | prefix) - alpha max_j cos(h_v, h_j), where h_v is the decoder's state after v and h_j its states
    after the tokens before, the start token among them. p is the softmax over the tokens that are allowed; states are
    those from which the next token is predicted. The states of all candidates come from one pass; only the chosen
    one is scored against the vocabulary.

    Args:
        model: the batch, at its beginning.
        start: first token of each item (B,).
        rules: lengths and banned tokens.
        top_k: candidates per step; 1 is greedy.
        alpha: weight of the penalty; 0 is greedy.

    Returns:
        Tokens (B, L), L <= max_length + 1: the output, the end token, then padding.

    Raises:
        ValueError: no candidate, or alpha outside 0 .. 1.
    """
    if top_k < 1 or not 0.0 <= alpha <= 1.0:
        raise ValueError(f"contrastive_search: top_k is {top_k}, alpha {alpha}; expected top_k >= 1, 0 <= alpha <= 1")
    before, after = rules.forbidden(start.device)
    outputs = start.new_full((len(start), rules.max_length + 1), rules.pad)
    items = torch.arange(len(start), device=start.device)
    state = model.step(start.unsqueeze(1))  # (n, 1, d)
    seen = _directions(state)  # (n, tokens so far, d)
    for length in range(rules.max_length):
        logits = full_precision(model.logits(state)).squeeze(1)
        logits.index_fill_(-1, before if length < rules.min_length else after, -torch.inf)
        values, words = logits.topk(min(top_k, logits.shape[-1]), dim=-1)  # (n, k)
        model.reorder(torch.zeros_like(words))  # k hypotheses with one prefix
        states = model.step(words)  # (n, k, d)
        directions = _directions(states)
        confidence = torch.exp(values - logits.logsumexp(-1, keepdim=True))
        likeness = (directions @ seen.transpose(1, 2)).amax(-1)  # (n, k)
        scores = ((1 - alpha) * confidence - alpha * likeness).masked_fill(values == -torch.inf, -torch.inf)
        chosen = scores.argmax(-1, keepdim=True)  # (n, 1)
        model.reorder(chosen)
        tokens = words.gather(1, chosen).squeeze(1)
        outputs[items, length] = tokens
        state, direction = _chosen(states, chosen), _chosen(directions, chosen)
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


def _directions(states: Tensor) -> Tensor:
    """Return states (n, W, d) scaled to length 1, so that products are cosines."""
    return F.normalize(full_precision(states), dim=-1)


def _chosen(states: Tensor, places: Tensor) -> Tensor:
    """Return the states (n, 1, d) at ``places`` (n, 1)."""
    return states.gather(1, places.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
