"""Recurrent layers: reading texts of several lengths, stacks, attention, a pointer to the source, decoding."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from models.common.decoding import project_in_full
from models.common.losses import at_least_float32

States = tuple[tuple[Tensor, Tensor], ...]  # hidden and cell (1, N, d) of every layer
State = tuple[Tensor, ...]  # of W hypotheses per item, (B, W, d) each
Given = tuple[Tensor, ...]  # tensors of the sources, (B, ...) each
Advance = Callable[[Tensor, State, Given], tuple[Tensor, State]]
_LEAST = 1e-12  # added to probabilities before their logarithm


def recurrent(layer: nn.Module, inputs: Tensor | PackedSequence,
              state: Tensor | tuple[Tensor, ...] | None = None) -> Any:
    """Return ``layer(inputs, state)`` in the precision of its weights; autocast would run cuDNN's layers in float16."""
    weight = next(layer.parameters())
    with torch.autocast(weight.device.type, enabled=False):
        if isinstance(state, tuple):
            return layer(inputs.to(weight.dtype), tuple(part.to(weight.dtype) for part in state))
        return layer(inputs.to(weight.dtype), None if state is None else state.to(weight.dtype))


def read(layer: nn.RNNBase, embedded: Tensor, mask: Tensor) -> tuple[Tensor, State]:
    """Read texts (B, L, d) under ``mask`` (B, L): outputs (B, L, d'), 0 at padding, and last states (B, d') each."""
    packed = pack_padded_sequence(embedded, mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False)
    outputs, state = recurrent(layer, packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
    return padded, tuple(part.transpose(0, 1).flatten(1) for part in (state if isinstance(state, tuple) else (state,)))


class LstmStack(nn.Module):
    """LSTM layers of one width, left to right, with residual additions every few layers (Prakash et al. 2016: 2).

    x^(l+1) = h^(l), the output of layer l after dropout; behind every n-th layer x^(l+1) = h^(l) + x^(l+1-n).
    """

    def __init__(self, width: int, layers: int, residual_every: int, dropout: float) -> None:
        super().__init__()
        self.residual_every = residual_every
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, start: States | None = None,
                packed: PackedSequence | None = None) -> tuple[Tensor, States]:
        """Return outputs of the shape of ``inputs``, (N, L, d) or (M, d) of ``packed`` words, and the last states."""
        block, states = inputs, []
        for number, layer in enumerate(self.layers):
            words = inputs if packed is None else PackedSequence(inputs, *packed[1:])
            outputs, state = recurrent(layer, words, None if start is None else start[number])
            inputs = self.dropout(outputs if packed is None else outputs.data)
            if (number + 1) % self.residual_every == 0:
                inputs = block = inputs + block
            states.append(state)
        return inputs, tuple(states)


def attend(queries: Tensor, memory: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """Return the means of memory (B, S, d) under ``mask`` (B, S), weighted by dot products with queries (B, Q, d)."""
    allowed = None if mask is None else mask.unsqueeze(1)  # (B, 1, S)
    return F.scaled_dot_product_attention(queries, memory, memory, attn_mask=allowed, scale=scale)


class AdditiveAttention(nn.Module):
    """e_ti = v . tanh(Wh h_i + Ws s_t + b), a softmax over real slots, c_t = sum of a_ti h_i (Bahdanau et al. 2015)."""

    def __init__(self, memory: int, query: int, width: int) -> None:
        super().__init__()
        self.keys, self.queries = nn.Linear(memory, width), nn.Linear(query, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, memory: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts (B, Q, d) and weights (B, Q, S) over ``memory``, whose keys are ``self.keys(memory)``."""
        sums = torch.tanh(keys.unsqueeze(1) + self.queries(queries).unsqueeze(2))  # (B, Q, S, width)
        scores = self.score(sums).squeeze(-1).float().masked_fill(~mask.unsqueeze(1), -torch.inf)
        weights = scores.softmax(-1)
        return weights.to(memory.dtype) @ memory, weights


def mixed(logits: Tensor, generate: Tensor, weights: Tensor, x_ids: Tensor) -> Tensor:
    """Return P(w) = p_gen P_vocab(w) + (1 - p_gen) sum over x_i = w of a_ti (See et al. 2017, eq. 9), (B, Q, V).

    The ``weights`` (B, Q, S) a_ti are 0 at source tokens that are not copied; P is divided by its sum.
    """
    total = generate + (1 - generate) * weights.sum(-1, keepdim=True)
    places = x_ids.unsqueeze(1).expand_as(weights)  # equal source tokens add up
    copied = torch.zeros_like(logits, dtype=weights.dtype).scatter_add_(-1, places, weights)
    return (generate * logits.softmax(-1) + (1 - generate) * copied) / total


class PointerGenerator(nn.Module):
    """Words from the vocabulary, or copied from the source (See et al. 2017); features are [s_t; c_t; x_t].

    P_vocab = softmax(E (V [s_t; c_t] + b) + b'), with word embeddings E (our choice); p_gen = sigmoid(w [s_t; c_t;
    x_t]).
    """

    def __init__(self, features: int, embedding: int, vocabulary: int) -> None:
        super().__init__()
        self.width = features
        self.reduce = nn.Linear(features, embedding)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.gate = nn.Linear(features + embedding, 1)

    def nll(self, features: Tensor, matching: Tensor, mass: Tensor, targets: Tensor, words: Tensor) -> Tensor:
        """Return -log(P(y) + 1e-12) (M,) of targets y (M,) with features (M, d) and word embeddings (V, e).

        ``matching`` (M,) is the attention to source tokens that equal the target, ``mass`` to all that may be copied.
        """
        logits = F.linear(self.reduce(features[:, :self.width]), words, self.bias)
        (logits,) = at_least_float32(logits)
        cost = F.cross_entropy(logits, targets, reduction="none")
        generate = torch.sigmoid(self.gate(features).float()).squeeze(-1)
        chance = generate * torch.exp(-cost) + (1 - generate) * matching
        return -torch.log(chance / (generate + (1 - generate) * mass) + _LEAST)

    def scores(self, features: Tensor, weights: Tensor, x_ids: Tensor, words: Tensor) -> Tensor:
        """Return log(P(w) + 1e-12) (B, W, V) of features (B, W, d); see :meth:`nll` and :func:`mixed`."""
        logits = project_in_full(self.reduce(features[..., :self.width]), words, self.bias)
        generate = torch.sigmoid(self.gate(features).float())
        return torch.log(mixed(logits, generate, weights, x_ids) + _LEAST)


class RecurrentSteps:
    """A :class:`models.common.decoding.Decodable` of recurrent layers, with states (B, W, d) of each hypothesis."""

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
        """Make hypothesis w a continuation of hypothesis ``parents[b, w]``."""
        first = self.state[0].shape[1] * torch.arange(len(parents), device=parents.device).unsqueeze(1)  # (B, 1)
        rows = (first + parents).flatten()
        self.state = tuple(part.flatten(0, 1).index_select(0, rows).view(*parents.shape, -1) for part in self.state)

    def keep(self, items: Tensor) -> None:
        """Remove all items but these rows."""
        self.state = tuple(part.index_select(0, items) for part in self.state)
        self.given = tuple(part.index_select(0, items) for part in self.given)
