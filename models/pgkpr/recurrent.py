"""What the LSTM rewriters share: stacks of layers with residual additions, dot attention, and steps of decoding."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from models.common.decoding import Decodable, project_in_full
from models.common.layers import token_nll
from models.common.precision import recurrent
from models.common.rows import HostTensor, RealTokens, gathered
from models.common.special import BOS, PAD
from models.pgkpr.base import Batch, Rewriter, RewriterConfig

State = tuple[tuple[Tensor, Tensor], ...]  # hidden and cell (1, N, d) of every layer
Sources = tuple[Tensor, ...]  # what is decoded from, (B, ...) each


class LstmStack(nn.Module):
    """LSTM layers of one width, left to right, whose input is added back every few layers.

    Symbols: x^(l) is the input of layer l and h^(l) its output, after dropout; x^(l+1) = h^(l), and behind every n-th
    layer x^(l+1) = h^(l) + x^(l+1-n) (Prakash et al. 2016: n = 2). Layers behind the last multiple of
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

    def read(self, inputs: Tensor, texts: "PackedTexts") -> tuple[Tensor, State]:
        """Transform the words (N, d) of ``texts``; return outputs (B, L, d) and the states after each last word.

        What stands at padding means nothing.
        """
        # packed: what follows a text would change its last states, the cell above all, which no output shows
        sizes = texts.sizes.plain
        zero = inputs.new_zeros(1, int(sizes[0]), inputs.shape[-1])
        start = tuple((zero, zero) for _ in self.layers)
        outputs, state = self._through(inputs, lambda values: PackedSequence(values, sizes), start)
        return texts.padded(outputs), texts.ordered(state)

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


class PackedTexts:
    """Texts as recurrent layers read them: the first words of all, then the second ones, the longest text first.

    Args:
        real: which places of the padded batch hold words (B, L).
        sizes: number of texts that have a first word, a second one and so on.
        index: places of the words (N,) in the flat batch.
        inverse: word of each place (B L,), any at padding.
        back: where each text of the batch stands among those sorted by length (B,), and which text stands where;
            empty if that is their order already.
    """

    def __init__(self, real: Tensor, sizes: HostTensor, index: Tensor, inverse: Tensor, back: Tensor) -> None:
        self.real, self.sizes, self.index, self.inverse, self.back = real, sizes, index, inverse, back

    @classmethod
    def of(cls, lengths: Tensor, width: int) -> Self:
        """Return texts of ``lengths`` (B,), 1 or more, padded to ``width`` L; a device is waited for."""
        found, order = lengths.cpu().sort(descending=True, stable=True)
        places = torch.arange(width).unsqueeze(1)  # (L, 1)
        there = places < found  # (L, B)
        index = (order * width + places)[there]
        inverse = torch.zeros(there.numel(), dtype=torch.int64)
        inverse[index] = torch.arange(len(index))
        sorted_already = torch.equal(order, torch.arange(len(order)))
        back = torch.stack([order.argsort(), order])[:, : 0 if sorted_already else None]
        sizes = there.sum(1)
        real = torch.arange(width) < lengths.cpu().unsqueeze(1)
        others = (part.to(lengths.device) for part in (index, inverse, back))
        return cls(real.to(lengths.device), HostTensor.of(sizes[sizes > 0]), *others)

    @classmethod
    def given(cls, batch: Batch, name: str) -> Self:
        """Return what :meth:`named` put into a batch."""
        return cls(batch[f"{name}_real"], batch[f"{name}_sizes"],  # type: ignore[arg-type]
                   *(batch[f"{name}_{part}"] for part in ("index", "inverse", "back")))

    def named(self, name: str) -> dict[str, Tensor]:
        """Return the tensors by which :meth:`given` knows it, to be computed where batches are loaded."""
        return {f"{name}_{part}": getattr(self, part) for part in ("real", "sizes", "index", "inverse", "back")}

    def words(self, padded: Tensor) -> Tensor:
        """Return the words (N,) of ``padded`` (B, L)."""
        return padded[:, : self.real.shape[1]].flatten().index_select(0, self.index)

    def padded(self, words: Tensor) -> Tensor:
        """Return (B, L, d) with the vectors (N, d) at their places; what looks at padding must not learn from it."""
        return gathered(words, self.inverse, self.index).unflatten(0, self.real.shape)

    def ordered(self, state: State) -> State:
        """Return the states of texts sorted by length in the order of the batch."""
        if not self.back.numel():
            return state
        into, back = self.back
        return tuple((gathered(hidden[0], into, back)[None], gathered(cell[0], into, back)[None])
                     for hidden, cell in state)


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

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with its items sorted by the length of sources, and the places of words."""
        if "x_sizes" in batch:
            return batch
        order = batch["x_lengths"].argsort(descending=True, stable=True)
        found = {name: part.index_select(0, order) for name, part in batch.items()}
        found |= PackedTexts.of(found["x_lengths"], found["x_ids"].shape[1]).named("x")
        return {**found, **RealTokens(found["y_out"] != PAD).named("y")}

    def texts(self, batch: Batch) -> PackedTexts:
        """Return the sources of a batch, planned or not."""
        if "x_sizes" in batch:
            return PackedTexts.given(batch, "x")
        return PackedTexts.of(batch["x_lengths"], batch["x_ids"].shape[1])

    def generation(self, states: Tensor, batch: Batch) -> Tensor:
        """Return the sum of -log p of the targets of a planned batch, predicted from states (B, T, d)."""
        tokens = RealTokens.given(batch, "y")
        return token_nll(self.words, tokens.rows(states), tokens.rows(batch["y_out"]), PAD)


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
