"""PGKPR's baselines: Residual-LSTM, latent bag of words and IANet; and every architecture by name.

Symbols: B items, W hypotheses of each, L words of a source, T of a target, d width, V vocabulary.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from transformers import initialization as init

from models.common import BOS, MASK, PAD, transformer
from models.common.decoding import Decodable, project_in_full
from models.common.losses import at_least_float32, bag_of_words
from models.common.recurrent import Given, LstmStack, RecurrentSteps, State, States, attend
from models.pgkpr.pgkpr import AttentiveRewriter, Batch, Pgkpr, PlainTransformer, Rewriter, RewriterConfig

_BAGS = 3  # softmaxes over the vocabulary at each position
_TEMPERATURE, _DECODING_TEMPERATURE = 0.5, 1e-5  # of Gumbel's softmaxes
_SPREAD = 0.05  # of LatentBow's initial matrices
# Modules with a row for each token of the vocabulary.
_BY_TOKEN = ("embedder.words.", "generator.", "reconstruction.output.", "embedding.", "words.", "predict.")

Tokens = tuple[Tensor, Tensor]  # ids and which of them are real, (B, S) each


class RecurrentRewriter(Rewriter):
    """A rewriter whose encoder and decoder are stacks of LSTM layers, with one embedding of width d for both."""

    encoder: LstmStack
    decoder: LstmStack

    def __init__(self, config: RewriterConfig, width: int) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, width, padding_idx=PAD)
        self.words = nn.Linear(width, config.vocab_size)

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[States, Given]:
        """Read sources; return the decoder's first states and the tensors that it attends to."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: States, sources: Given) -> tuple[Tensor, States]:
        """Append a token to every hypothesis (B, W); return features of the next tokens (B, W, d), and the states."""

    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`Rewriter.begin`."""
        state, sources = self.encode(batch)
        start = batch["x_ids"].new_full((len(batch["x_ids"]),), BOS)
        flat = [part.transpose(0, 1) for pair in state for part in pair]
        return RecurrentSteps(self._advanced, self._scored, flat, sources), start

    def _advanced(self, tokens: Tensor, flat: State, sources: Given) -> tuple[Tensor, State]:
        """Return :meth:`advance` from and to states (B, W, d) of hypotheses."""
        parts = [part.flatten(0, 1).unsqueeze(0) for part in flat]
        features, states = self.advance(tokens, tuple(zip(parts[::2], parts[1::2], strict=True)), sources)
        return features, tuple(part.view(*tokens.shape, -1) for pair in states for part in pair)

    def _scored(self, states: Tensor, sources: Given) -> Tensor:
        return project_in_full(states, self.words.weight, self.words.bias)

    def ordered(self, batch: Batch) -> Batch:
        """Return ``batch`` with its items sorted by the length of sources, and these lengths on the host."""
        order = batch["x_lengths"].argsort(descending=True, stable=True)
        ordered = {name: part.index_select(0, order) for name, part in batch.items()}
        return {**ordered, "x_host": ordered["x_lengths"].cpu()}

    def read(self, batch: Batch) -> tuple[Tensor, States, Tensor]:
        """Return outputs (B, L, d), 0 at padding, states after each last word, and which places are words (B, L)."""
        is_ordered, width = "x_host" in batch, batch["x_ids"].shape[1]
        lengths = batch["x_host"] if is_ordered else batch["x_lengths"].cpu()
        words = pack_padded_sequence(batch["x_ids"], lengths, batch_first=True, enforce_sorted=is_ordered)
        outputs, state = self.encoder(self.embedding(words.data), packed=words)
        padded, _ = pad_packed_sequence(PackedSequence(outputs, *words[1:]), batch_first=True, total_length=width)
        return padded, state, torch.arange(width, device=padded.device) < batch["x_lengths"].unsqueeze(1)

    def generation(self, states: Tensor, batch: Batch) -> Tensor:
        """Return the sum of -log p of the targets of a batch, predicted from states (B, T, d)."""
        tokens = transformer.RealTokens(batch["y_out"] != PAD)
        return transformer.token_nll(self.words, tokens.rows(states), tokens.rows(batch["y_out"]), PAD)


class ResidualLstm(RecurrentRewriter):
    """Stacked LSTMs with residual additions; the decoder starts from the encoder's last states.

    A decoder's output h becomes tanh(W [c; h]) before words are scored, where c is the mean of the encoder's outputs,
    weighted by dot products with h (Luong et al. 2015, eq. 5, 8). Most settings are ours (docs/pgkpr.md).
    """

    def __init__(self, config: RewriterConfig) -> None:
        width, dropout = config.residual_lstm.width, config.residual_lstm.dropout
        super().__init__(config, width)
        self.encoder, self.decoder = (LstmStack(width, layers=4, residual_every=2, dropout=dropout) for _ in range(2))
        self.combine = nn.Linear(2 * width, width, bias=False)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -0.1, 0.1)
        if isinstance(module, nn.Embedding):
            init.zeros_(module.weight[PAD])

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sum of the generation loss."""
        batch = self.ordered(batch)
        state, sources = self.encode(batch)
        outputs, _ = self.decoder(self.embedding(batch["y_in"]), state)  # (B, T, d)
        return {"generation": self.generation(self._attending(outputs, sources), batch)}

    def encode(self, batch: Batch) -> tuple[States, Given]:
        """Return the last states of every layer, and outputs (B, L, d) and which are real (B, L)."""
        outputs, state, real = self.read(batch)
        return state, (outputs, real)

    def advance(self, tokens: Tensor, state: States, sources: Given) -> tuple[Tensor, States]:
        """Append a token to every hypothesis; see :meth:`RecurrentRewriter.advance`."""
        outputs, state = self.decoder(self.embedding(tokens.view(-1, 1)), state)  # (B W, 1, d)
        return self._attending(outputs.view(*tokens.shape, -1), sources), state

    def _attending(self, outputs: Tensor, sources: Given) -> Tensor:
        """Return tanh(W [c; h]) of outputs h (B, Q, d)."""
        memory, real = sources
        context = attend(outputs, memory, real, scale=1.0)  # (B, Q, d)
        return torch.tanh(self.combine(torch.cat([context, outputs], dim=-1)))


class Bags(NamedTuple):
    """Bags of words predicted from a source, (B, V) each, not normalised."""

    plain: Tensor   # b, the sum of all softmaxes of all real words, which the loss reads
    memory: Tensor  # weights of the memory's words: b itself, or the bag of sharpened softmaxes
    choice: Tensor  # its K largest entries are the words of the memory; no gradient


class LatentBow(RecurrentRewriter):
    """Predicts the words of the paraphrase first, from each source word, then decodes from the likeliest of them.

    h_t is the encoder's output at source word t; b is the sum over words and k of softmax(W_k2 W_k1 h_t). The memory M
    is embedding(v) b_v of the K words v with the largest b_v. Every layer of the decoder starts from the encoder's
    first layer, its hidden state plus the mean of M. At each step the query q, the hidden state of the decoder's top
    layer, attends to M by W q and to the h_t by W W q; the two contexts are joined and projected, and the cell reads
    word + q + context.

    ``gumbel``: in training the memory is weighted by softmaxes of (logits + Gumbel noise) / temperature; in evaluation
    mode the temperature is 1e-5 and there is no noise, unlike in the released code, and the plain b breaks ties.
    """

    def __init__(self, config: RewriterConfig) -> None:
        width, dropout = config.latent_bow.width, config.latent_bow.dropout
        super().__init__(config, width)
        self.encoder, self.decoder = (LstmStack(width, 2, 1, dropout) for _ in range(2))
        self.turn = nn.ModuleList(nn.Linear(width, width) for _ in range(_BAGS))  # W_k1
        self.predict = nn.ModuleList(nn.Linear(width, config.vocab_size) for _ in range(_BAGS))  # W_k2
        self.query = nn.Linear(width, width)
        self.context = nn.Linear(2 * width, width)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices from N(0, 0.05); biases are 0, of forget gates 1."""
        for name, parameter in module.named_parameters(recurse=False):
            if "bias" not in name:
                init.normal_(parameter, std=_SPREAD)
            elif isinstance(module, nn.LSTM) and name.startswith("bias_ih"):
                forget = torch.arange(len(parameter)) // module.hidden_size == 1  # gates: input, forget, cell, output
                init.copy_(parameter, forget.to(parameter))
            else:
                init.zeros_(parameter)
        if isinstance(module, nn.Embedding):
            init.zeros_(module.weight[PAD])

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return ``generation``, summed over tokens, and ``bow``, over items, of distinct words ``bow_ids`` (B, K)."""
        batch = self.ordered(batch)
        state, sources, bags = self._encoded(batch)
        features = []
        for word in self.embedding(batch["y_in"]).split(1, dim=1):  # (B, 1, d); its input depends on the states before
            top, state = self._advance(word, state, sources)
            features.append(top)
        words = batch["bow_ids"]
        return {"generation": self.generation(torch.cat(features, dim=1), batch),
                "bow": bag_of_words(bags.plain, words, words != PAD).sum()}

    def encode(self, batch: Batch) -> tuple[States, Given]:
        """Return the decoder's first states; memory (B, K, d), encoder's outputs (B, L, d), which are real (B, L)."""
        state, sources, _ = self._encoded(batch)
        return state, sources

    def advance(self, tokens: Tensor, state: States, sources: Given) -> tuple[Tensor, States]:
        """Append a token to every hypothesis; see :meth:`RecurrentRewriter.advance`."""
        return self._advance(self.embedding(tokens), state, sources)

    def bags(self, outputs: Tensor, real: Tensor) -> Bags:
        """Predict the bags of sources from the encoder's outputs (B, L, d) at ``real`` places (B, L)."""
        weights = real.unsqueeze(-1).to(torch.float32)  # (B, L, 1)
        plain = memory = torch.zeros((), device=outputs.device)
        for turn, predict in zip(self.turn, self.predict, strict=True):
            (logits,) = at_least_float32(predict(turn(outputs)))  # (B, L, V)
            plain = plain + (logits.softmax(-1) * weights).sum(1)
            if self.config.latent_bow.gumbel:
                memory = memory + (self._sharpened(logits) * weights).sum(1)
        if not self.config.latent_bow.gumbel:
            return Bags(plain, plain, plain.detach())
        if self.training:
            return Bags(plain, memory, memory.detach())
        # these are counts, many of them equal; less than 1 is added
        return Bags(plain, memory, (memory + plain / (1 + plain.sum(-1, keepdim=True))).detach())

    def remember(self, bags: Bags) -> tuple[Tensor, Tensor]:
        """Return the words (B, K) of the memory, likeliest first, and the memory (B, K, d)."""
        size = min(self.config.latent_bow.memory, self.config.vocab_size)
        words = bags.choice.topk(size, dim=-1).indices
        return words, self.embedding(words) * bags.memory.gather(-1, words).unsqueeze(-1)

    def _sharpened(self, logits: Tensor) -> Tensor:
        if not self.training:
            return (logits / _DECODING_TEMPERATURE).softmax(-1)
        noise = -torch.empty_like(logits).exponential_().log()  # minus the log of Exp(1) is Gumbel(0, 1)
        return ((logits + noise) / _TEMPERATURE).softmax(-1)

    def _encoded(self, batch: Batch) -> tuple[States, Given, Bags]:
        """Return :meth:`encode` and the bags of a batch of sources."""
        outputs, states, real = self.read(batch)
        bags = self.bags(outputs, real)
        _, memory = self.remember(bags)
        hidden, cell = states[0]
        start = (hidden + memory.mean(1), cell)
        return tuple(start for _ in self.decoder.layers), (memory, outputs, real), bags

    def _advance(self, embedded: Tensor, state: States, sources: Given) -> tuple[Tensor, States]:
        """Append embedded words (B, W, d), one to each hypothesis."""
        memory, outputs, real = sources
        query = state[-1][0].view(embedded.shape)  # (B, W, d)
        of_memory = self.query(query)
        contexts = attend(of_memory, memory), attend(self.query(of_memory), outputs, real)
        inputs = embedded + query + self.context(torch.cat(contexts, dim=-1))
        features, state = self.decoder(inputs.flatten(0, 1).unsqueeze(1), state)  # (B W, 1, d)
        return features.view(embedded.shape), state


# IANet (Su et al. 2021)


def primary_secondary(x_ids: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tokens, Tokens]:
    """Return the primary and the secondary sequence of each text, in which one [MASK] replaces a run of the others.

    >>> ids, mask = torch.tensor([[11, 12, 13, 14]]), torch.tensor([[True, False, False, True]])
    >>> (primary, _), (secondary, _) = primary_secondary(ids, mask, torch.tensor([4]))
    >>> primary, secondary
    (tensor([[11,  6, 14]]), tensor([[ 6, 12, 13,  6]]))

    ``mask`` (B, L) is True for primary words. An empty sequence is [MASK].
    """
    real = torch.arange(x_ids.shape[1], device=x_ids.device) < lengths.unsqueeze(1)
    primary, secondary = real & mask.bool(), real & ~mask.bool()
    return _collapsed(x_ids, primary, secondary), _collapsed(x_ids, secondary, primary)


def _collapsed(ids: Tensor, kept: Tensor, others: Tensor) -> Tokens:
    """Return the words under ``kept`` (B, L) with one [MASK] for each run of ``others`` (B, L)."""
    starts = others & ~F.pad(others, (1, -1))  # first words of runs
    selected = kept | starts
    counts = selected.sum(-1, keepdim=True)  # (B, 1)
    order = selected.byte().argsort(dim=-1, descending=True, stable=True)[:, : int(counts.max())]
    real = torch.arange(order.shape[1], device=ids.device) < counts
    return ids.masked_fill(starts, MASK).gather(1, order).masked_fill(~real, PAD), real


class AggregationLayer(transformer.DecoderLayer):
    """A decoder layer that attends to two memories from one state x, the output of self-attention.

    x1 = x + attention(primary), x2 = x + attention(secondary), x = LayerNorm(x1 + x2); then a feed-forward network.
    Norms before the parts are ours: one before self-attention, one before the attentions to the memories.
    """

    memories = 2
    additions = 4

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        nn.Module.__init__(self)
        self.self_attention = transformer.Attention(width, heads, dropout)
        self.to_primary = transformer.Attention(width, heads, dropout)
        self.to_secondary = transformer.Attention(width, heads, dropout)
        self.widen, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.self_norm, self.cross_norm, self.joint_norm = (nn.LayerNorm(width) for _ in range(3))
        self.activation = activation

    def to_memories(self) -> list[transformer.Attention]:
        """Return the attentions to the primary memory and to the secondary one."""
        return [self.to_primary, self.to_secondary]

    def forward(self, hidden: Tensor, step: transformer.DecoderStep, number: int) -> Tensor:
        """Transform hidden, the vectors of ``step``, as layer ``number`` of a stack."""
        first = self.additions * number
        hidden = step.added(hidden, step.own(number, self.self_attention, self.self_norm(hidden)), first)
        queries = self.cross_norm(hidden)
        left, right = (step.added(hidden, step.cross(number, memory, attention, queries), first + 1 + memory)
                       for memory, attention in enumerate(self.to_memories()))
        hidden = self.joint_norm(left + right)
        return step.added(hidden, self.narrow(self.activation(self.widen(hidden))), first + 3)


class IaNet(AttentiveRewriter):
    """IANet's aggregation model: an encoder for primary words, one for the others, a decoder that attends to both."""

    uses_keywords = True

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        layers, sizes = config.ianet, asdict(config.sizes)
        self.encoders = nn.ModuleList(transformer.Encoder({**sizes, "layers": layers.encoder_layers}) for _ in range(2))
        self.decoder = transformer.Decoder({**sizes, "layers": layers.decoder_layers}, AggregationLayer)
        self.post_init()

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memories of the primary and of the secondary sequence."""
        if mask is None:
            raise ValueError("IaNet: give the primary words of the sources, mask (B, L)")
        biases, projected = [], []
        for number, (ids, real) in enumerate(primary_secondary(batch["x_ids"], mask, batch["x_lengths"])):
            tokens = transformer.RealTokens(real)
            places, bias = self.attended(tokens)
            states = self.encoders[number](self.embedder, tokens.rows(ids), places, bias)
            biases.append(bias)
            projected += self.decoder.project(number, states, places)
        return (*biases, *projected)


ARCHITECTURES: dict[str, type[Rewriter]] = {"pgkpr": Pgkpr, "transformer": PlainTransformer,
                                            "residual_lstm": ResidualLstm, "latent_bow": LatentBow, "ianet": IaNet}


def rewriter_of(config: RewriterConfig) -> Rewriter:
    """Return a new model of ``config.architecture``, its weights drawn from torch's generator."""
    return ARCHITECTURES[config.architecture](config)


def load_rewriter(folder: str | Path) -> Rewriter:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode."""
    config = RewriterConfig.from_pretrained(folder)
    return ARCHITECTURES[config.architecture].from_pretrained(folder, config=config)


@torch.no_grad()
def init_from(model: Rewriter, other: Rewriter, places: Tensor) -> list[str]:
    """Copy into ``model`` the parameters of ``other`` with the same names; return the names of all others.

    ``places`` are the ids of ``model``'s tokens in ``other`` (V,), -1 for none, by which rows of tokens are copied.
    """
    own, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    shared = {name: name.startswith(_BY_TOKEN) for name in own if name in theirs}
    unlike = [name for name, by_token in shared.items()  # in shape, except for the number of tokens
              if own[name].shape[int(by_token):] != theirs[name].shape[int(by_token):]]
    if unlike or all(shared.values()):
        raise ValueError(f"a model of architecture {other.config.architecture} cannot start one of "
                         f"{model.config.architecture}: "
                         + (f"{unlike[0]} has another shape" if unlike else "no weights have the same name"))
    known = places >= 0
    for name, by_token in shared.items():
        if by_token:
            own[name][known] = theirs[name][places[known]].to(own[name].dtype)
        else:
            own[name].copy_(theirs[name])
    return [name for name in own if name not in shared]
