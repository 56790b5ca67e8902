"""What recurrent baselines share: reading texts, additive attention, copying from the source, steps of decoding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.common.decoding import project_in_full
from models.common.losses import at_least_float32
from models.common.precision import recurrent
from models.common.rows import HostTensor, gathered

State = tuple[Tensor, ...]  # of W hypotheses per item, (B, W, ...) each
Given = tuple[Tensor, ...]  # what is decoded from, (B, ...) each
_LEAST = 1e-12  # added to probabilities before their logarithm


def lengths_of(mask: Tensor, name: str) -> dict[str, Tensor]:
    """Return what :func:`read` needs of texts ``name`` with ``mask`` (B, L), to be computed where batches are loaded.

    Their lengths (B,), the longest first, on the CPU, where recurrent layers want them; which text stands where in that
    order (B,), and where each text stands.
    """
    lengths, order = mask.sum(-1).cpu().sort(descending=True, stable=True)
    return {f"{name}_lengths": HostTensor.of(lengths), f"{name}_order": order.to(mask.device),
            f"{name}_back": order.argsort().to(mask.device)}


def read(layer: nn.RNNBase, embedded: Tensor, batch: Mapping[str, Any], name: str) -> tuple[Tensor, State]:
    """Read texts ``name`` of a planned batch, embedded (B, L, d).

    Returns:
        Outputs (B, L, d'), zero at padding, and the last states of all directions side by side (B, d'), of an LSTM
        hidden ones and cells.
    """
    order, back = batch[f"{name}_order"], batch[f"{name}_back"]
    packed = pack_padded_sequence(gathered(embedded, order, back), batch[f"{name}_lengths"].plain, batch_first=True)
    outputs, state = recurrent(layer, packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
    last = state if isinstance(state, tuple) else (state,)
    return gathered(padded, back, order), tuple(gathered(part.transpose(0, 1).flatten(1), back, order) for part in last)


class AdditiveAttention(nn.Module):
    """e_ti = v . tanh(Wh h_i + Ws s_t + b), a softmax over real slots, c_t = sum of a_ti h_i (Bahdanau et al. 2015).

    Args:
        memory: width of the slots h.
        query: width of the queries s.
        width: of the sum.
    """

    def __init__(self, memory: int, query: int, width: int) -> None:
        super().__init__()
        self.keys, self.queries = nn.Linear(memory, width), nn.Linear(query, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, memory: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts (B, Q, d) and weights (B, Q, S).

        Args:
            queries: s (B, Q, d').
            memory: h (B, S, d).
            keys: Wh h + b, from ``self.keys``; once for all steps of decoding.
            mask: True for real slots (B, S).
        """
        sums = torch.tanh(keys.unsqueeze(1) + self.queries(queries).unsqueeze(2))  # (B, Q, S, width)
        scores = self.score(sums).squeeze(-1).float().masked_fill(~mask.unsqueeze(1), -torch.inf)
        weights = scores.softmax(-1)
        return weights.to(memory.dtype) @ memory, weights


def copied(weights: Tensor, x_ids: Tensor, vocabulary: int) -> Tensor:
    """Return the attention (B, Q, V) that each word draws: weights (B, Q, S) of equal source tokens are added up."""
    places = x_ids.unsqueeze(1).expand_as(weights)
    return weights.new_zeros(*weights.shape[:2], vocabulary).scatter_add_(-1, places, weights)


def mixed(logits: Tensor, generate: Tensor, weights: Tensor, x_ids: Tensor) -> Tensor:
    """Return P(w) = p_gen P_vocab(w) + (1 - p_gen) sum over x_i = w of a_ti (See et al. 2017, eq. 9), (B, Q, V).

    Args:
        logits: of P_vocab (B, Q, V).
        generate: p_gen (B, Q, 1).
        weights: a (B, Q, S).
        x_ids: source tokens (B, S).
    """
    return generate * logits.softmax(-1) + (1 - generate) * copied(weights, x_ids, logits.shape[-1])


class PointerGenerator(nn.Module):
    """Words from the vocabulary, or copied from the source.

    P_vocab = softmax(E (V [s_t; c_t] + b) + b'), where E are the word embeddings (our choice);
    p_gen = sigmoid(w [c_t; s_t; x_t] + b). Features of a word are s_t, c_t and x_t, one behind the other.

    Args:
        features: width of [s_t; c_t].
        embedding: width of x_t and of E.
        vocabulary: V.
    """

    def __init__(self, features: int, embedding: int, vocabulary: int) -> None:
        super().__init__()
        self.width = features
        self.reduce = nn.Linear(features, embedding)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.gate = nn.Linear(features + embedding, 1)

    def nll(self, features: Tensor, matching: Tensor, targets: Tensor, words: Tensor) -> Tensor:
        """Return -log(P(y) + 1e-12) (M,).

        Args:
            features: of the words (M, d).
            matching: attention that source tokens draw which equal the target (M,).
            targets: y (M,).
            words: E (V, e).
        """
        logits = nn.functional.linear(self.reduce(features[:, :self.width]), words, self.bias)
        (logits,) = at_least_float32(logits)
        cost = nn.functional.cross_entropy(logits, targets, reduction="none")
        generate = torch.sigmoid(self.gate(features).float()).squeeze(-1)
        return -torch.log(generate * torch.exp(-cost) + (1 - generate) * matching + _LEAST)

    def scores(self, features: Tensor, weights: Tensor, x_ids: Tensor, words: Tensor) -> Tensor:
        """Return log(P(w) + 1e-12) (B, W, V) of features (B, W, d); arguments as of :meth:`nll` and :func:`mixed`."""
        logits = project_in_full(self.reduce(features[..., :self.width]), words, self.bias)
        generate = torch.sigmoid(self.gate(features).float())
        return torch.log(mixed(logits, generate, weights, x_ids) + _LEAST)


Advance = Callable[[Tensor, State, Given], tuple[Tensor, State]]


class RecurrentSteps:
    """Decoding with recurrent layers: each of the W hypotheses of an item has states of its own.

    Args:
        advance: given tokens (B, W), the states (B, W, ...) before them and what is decoded from, returns features
            (B, W, d) of the next tokens, and the states.
        score: returns scores (B, W, V) of features, given what is decoded from.
        state: of one hypothesis per item.
        given: what is decoded from.
    """

    def __init__(self, advance: Advance, score: Callable[[Tensor, Given], Tensor], state: Sequence[Tensor],
                 given: Sequence[Tensor]) -> None:
        self._advance, self._score, self.state, self.given = advance, score, tuple(state), tuple(given)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the features (B, W, d)."""
        features, self.state = self._advance(tokens, self.state, self.given)
        return features

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (B, W, V)."""
        return self._score(states, self.given)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.state = tuple(part.gather(1, parents.unsqueeze(-1).expand(-1, -1, part.shape[-1]))
                           for part in self.state)

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        self.state = tuple(part.index_select(0, items) for part in self.state)
        self.given = tuple(part.index_select(0, items) for part in self.given)
