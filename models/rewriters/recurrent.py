"""What the LSTM rewriters share: stacks of layers with residual additions, dot attention, and steps of decoding."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from models.decoding import Decodable, project_in_full
from models.precision import recurrent
from models.rewriters.base import Batch, Rewriter
from models.rewriters.config import RewriterConfig
from models.rewriters.layers import token_nll
from models.rewriters.special import BOS, PAD
from models.rows import RealTokens

State = tuple[tuple[Tensor, Tensor], ...]  # hidden and cell (1, N, d) of every layer
Sources = tuple[Tensor, ...]  # what is decoded from, (B, ...) each


class LstmStack(nn.Module):
    """LSTM layers of one width, left to right, whose input is added back every few layers.

    Symbols: x^(l) is the input of layer l and h^(l) its output, after dropout; x^(l+1) = h^(l), and behind every n-th
    layer x^(l+1) = h^(l) + x^(l+1-n) (Prakash et al. 2016: n = 2; METHODS C.7). Layers behind the last multiple of
    n have no addition.

    Args:
        width: d, of inputs and states.
        layers: number of layers.
        residual_every: n.
        dropout: of the outputs of every layer, in training; states go on to the next word whole.
    """

    def __init__(self, width: int, layers: int, residual_every: int, dropout: float) -> None:
        super().__init__()
        self.residual_every = residual_every
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, start: State | None = None) -> tuple[Tensor, State]:
        """Transform inputs (N, L, d), of L real words each; return outputs (N, L, d) and the states after the last.

        Args:
            inputs: embedded words, no padding among them that matters.
            start: states before the first word; None is zero.
        """
        return self._through(inputs, lambda values: values, start)

    def read(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Transform padded inputs (N, L, d); return outputs (N, L, d), 0 at padding, and states after the last word.

        Args:
            inputs: embedded words, padded at the right.
            lengths: real words of each text (N,), 1 or more.
        """
        # packed: what follows a text would change its last states, the cell above all, which no output shows
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, state = self._through(packed.data, lambda values: packed._replace(data=values))
        padded, _ = pad_packed_sequence(
            packed._replace(data=outputs), batch_first=True, total_length=inputs.shape[1]
        )
        return padded, state

    def _through(
        self, inputs: Tensor, wrap: Callable[[Tensor], Tensor | PackedSequence], start: State | None = None
    ) -> tuple[Tensor, State]:
        """Run the layers over values (..., d) that ``wrap`` makes a sequence of."""
        block, states = inputs, []
        for number, layer in enumerate(self.layers):
            found, state = recurrent(layer, wrap(inputs), None if start is None else start[number])
            inputs = self.dropout(found.data if isinstance(found, PackedSequence) else found)
            if (number + 1) % self.residual_every == 0:
                inputs = block = inputs + block
            states.append(state)
        return inputs, tuple(states)


def real_words(batch: Batch) -> Tensor:
    """Return which places of sources hold words (B, L)."""
    ids, lengths = batch["x_ids"], batch["x_lengths"]
    return torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)


def attend(queries: Tensor, memory: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """Return the mean of memory (B, S, d) that each query (B, Q, d) draws by its dot products: contexts (B, Q, d).

    Args:
        queries: of hypotheses, or of words.
        memory: what is attended to, keys and values in one.
        mask: True for real slots (B, S); None if all are.
        scale: of the products; None is d ** -0.5.
    """
    allowed = None if mask is None else mask.unsqueeze(1)  # (B, 1, S)
    return F.scaled_dot_product_attention(queries, memory, memory, attn_mask=allowed, scale=scale)


class RecurrentRewriter(Rewriter):
    """A rewriter whose decoder is a stack of LSTM layers, and whose embedding serves encoder and decoder.

    Args:
        config: of the model.
        width: d, of embeddings and states.
    """

    def __init__(self, config: RewriterConfig, width: int) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, width, padding_idx=PAD)
        self.words = nn.Linear(width, config.vocab_size)

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[State, Sources]:
        """Read sources; return the states that decoding starts from and what it attends to."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: State, sources: Sources) -> tuple[Tensor, State]:
        """Append a token to every hypothesis (B, W); return what predicts the next ones (B, W, d), and the states."""

    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return what takes decoding steps, and the first token of each output (B,)."""
        state, sources = self.encode(batch)
        start = batch["x_ids"].new_full((len(batch["x_ids"]),), BOS)
        return RecurrentSteps(self, state, sources), start

    def generation(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of -log p of the real tokens of targets (B, T), predicted from states (B, T, d)."""
        tokens = RealTokens(targets != PAD)
        return token_nll(self.words, tokens.rows(states), tokens.rows(targets), PAD)


class RecurrentSteps:
    """Decoding with an LSTM: each of the W hypotheses of an item has states of its own, sources are never copied.

    Args:
        model: in evaluation mode.
        state: after encoding, of one hypothesis per item.
        sources: what is decoded from, (B, ...) each.
    """

    def __init__(self, model: RecurrentRewriter, state: State, sources: Sources) -> None:
        self.model, self.state, self.sources = model, state, sources
        self.width = 1  # W; hypothesis w of item b is row b W + w of the states

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        states, self.state = self.model.advance(tokens, self.state, self.sources)
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V), in the precision of the weights under autocast too."""
        return project_in_full(states, self.model.words.weight, self.model.words.bias)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        first = self.width * torch.arange(len(parents), device=parents.device).unsqueeze(1)  # (B, 1)
        self._take((first + parents).flatten())
        self.width = parents.shape[1]

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        own = torch.arange(self.width, device=items.device)
        self._take((self.width * items.unsqueeze(1) + own).flatten())
        self.sources = tuple(part.index_select(0, items) for part in self.sources)

    def _take(self, rows: Tensor) -> None:
        self.state = tuple(
            (hidden.index_select(1, rows), cell.index_select(1, rows)) for hidden, cell in self.state
        )
