"""Recurrent baselines of word pieces: Seq2Seq with a pointer, Seq2Seq-DU and the CVAE of GRUs."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase
from transformers import initialization as init

from models.common.decoding import Decodable, project_in_full
from models.common.encoders import encode, mean_pool
from models.common.losses import at_least_float32, bow_loss, gaussian_kl
from models.common.precision import recurrent
from models.common.rows import HostTensor, RealTokens
from models.common.task import Step
from models.hcl.baselines.pieces import Batch, OwnPieceModel, PieceConfig, item_sums, piece_nll
from models.hcl.hcl import kl_weight

State = tuple[Tensor, ...]  # of W hypotheses per item, (B, W, ...) each
Given = tuple[Tensor, ...]  # what is decoded from, (B, ...) each
Advance = Callable[[Tensor, State, Given], tuple[Tensor, State]]
_LEAST = 1e-12  # added to probabilities before their logarithm
_PHRASES = 5  # keywords of a source at most
_BOUND = 0.08  # of the CVAE's weights at the start
_ANNEALING = 10_000  # steps
_LOGVAR = (-8.0, 8.0)  # our choice, as in HCL


def by_length(batch: Batch, names: Sequence[str]) -> dict[str, Tensor]:
    """Return what :func:`read` needs of texts called ``names``, computed where batches are loaded.

    Of each the order by length, the way back, and the ordered lengths, which stay in the host's memory.
    """
    found: dict[str, Tensor] = {}
    for name in names:
        lengths, order = batch[f"{name}_mask"].sum(-1).cpu().sort(descending=True, stable=True)
        places = {"order": order, "back": order.argsort()}
        found |= {f"{name}_{key}": value.to(batch[f"{name}_mask"].device) for key, value in places.items()}
        found[f"{name}_host"] = HostTensor.of(lengths)
    return found


def read(layer: nn.RNNBase, embedded: Tensor, batch: Batch, name: str) -> tuple[Tensor, State]:
    """Read the texts ``name`` of a batch, embedded (B, L, d), whose real tokens stand at the left.

    Returns:
        Outputs (B, L, d'), zero at padding, and the last states of all directions side by side (B, d'), of an LSTM
        hidden ones and cells.
    """
    given = batch if f"{name}_host" in batch else by_length(batch, [name])
    order, back, lengths = (given[f"{name}_{key}"] for key in ("order", "back", "host"))
    packed = pack_padded_sequence(embedded.index_select(0, order), lengths.as_subclass(Tensor), batch_first=True)
    outputs, state = recurrent(layer, packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
    last = state if isinstance(state, tuple) else (state,)
    return padded.index_select(0, back), tuple(part.transpose(0, 1).flatten(1).index_select(0, back) for part in last)


class AdditiveAttention(nn.Module):
    """e_ti = v . tanh(Wh h_i + Ws s_t + b), a softmax over real slots, c_t = sum of a_ti h_i (Bahdanau et al. 2015)."""

    def __init__(self, memory: int, query: int, width: int) -> None:
        super().__init__()
        self.keys, self.queries = nn.Linear(memory, width), nn.Linear(query, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, memory: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts (B, Q, d) and weights (B, Q, S) of queries s (B, Q, d') over ``memory`` h (B, S, d).

        ``keys`` are Wh h + b, from ``self.keys``, once for all steps of decoding; ``mask`` is True for real slots (B,
        S).
        """
        sums = torch.tanh(keys.unsqueeze(1) + self.queries(queries).unsqueeze(2))  # (B, Q, S, width)
        scores = self.score(sums).squeeze(-1).float().masked_fill(~mask.unsqueeze(1), -torch.inf)
        weights = scores.softmax(-1)
        return weights.to(memory.dtype) @ memory, weights


def mixed(logits: Tensor, generate: Tensor, weights: Tensor, x_ids: Tensor) -> Tensor:
    """Return P(w) = p_gen P_vocab(w) + (1 - p_gen) sum over x_i = w of a_ti (See et al. 2017, eq. 9), (B, Q, V).

    The attention of tokens that are not copied is left out, and P divided by its sum.

    Args:
        logits: of P_vocab (B, Q, V).
        generate: p_gen (B, Q, 1).
        weights: a (B, Q, S), 0 at tokens that are not copied.
        x_ids: source tokens (B, S).
    """
    total = generate + (1 - generate) * weights.sum(-1, keepdim=True)
    places = x_ids.unsqueeze(1).expand_as(weights)  # equal source tokens add up
    copied = torch.zeros_like(logits, dtype=weights.dtype).scatter_add_(-1, places, weights)
    return (generate * logits.softmax(-1) + (1 - generate) * copied) / total


class PointerGenerator(nn.Module):
    """Words from the vocabulary, or copied from the source.

    P_vocab = softmax(E (V [s_t; c_t] + b) + b'), where E are the word embeddings (our choice);
    p_gen = sigmoid(w [c_t; s_t; x_t] + b). Features of a word are s_t, c_t and x_t, one behind the other; the first two
    are ``features`` wide.
    """

    def __init__(self, features: int, embedding: int, vocabulary: int) -> None:
        super().__init__()
        self.width = features
        self.reduce = nn.Linear(features, embedding)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.gate = nn.Linear(features + embedding, 1)

    def nll(self, features: Tensor, matching: Tensor, mass: Tensor, targets: Tensor, words: Tensor) -> Tensor:
        """Return -log(P(y) + 1e-12) (M,); see :func:`mixed`.

        Args:
            features: of the words (M, d).
            matching: attention that source tokens draw which equal the target (M,).
            mass: attention that all tokens draw which may be copied (M,).
            targets: y (M,).
            words: E (V, e).
        """
        logits = nn.functional.linear(self.reduce(features[:, :self.width]), words, self.bias)
        (logits,) = at_least_float32(logits)
        cost = nn.functional.cross_entropy(logits, targets, reduction="none")
        generate = torch.sigmoid(self.gate(features).float()).squeeze(-1)
        found = generate * torch.exp(-cost) + (1 - generate) * matching
        return -torch.log(found / (generate + (1 - generate) * mass) + _LEAST)

    def scores(self, features: Tensor, weights: Tensor, x_ids: Tensor, words: Tensor) -> Tensor:
        """Return log(P(w) + 1e-12) (B, W, V) of features (B, W, d); arguments as of :meth:`nll` and :func:`mixed`."""
        logits = project_in_full(self.reduce(features[..., :self.width]), words, self.bias)
        generate = torch.sigmoid(self.gate(features).float())
        return torch.log(mixed(logits, generate, weights, x_ids) + _LEAST)


class RecurrentSteps:
    """Decoding with recurrent layers: each of the W hypotheses of an item has states of its own.

    ``advance`` returns the features (B, W, d) of the next tokens, and the states, given tokens (B, W), the states
    (B, W, ...) before them and what is decoded from; ``score`` the scores (B, W, V) of features.
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


class Pointing(OwnPieceModel):
    """An LSTM that writes words of the vocabulary or of the source; subclasses say what it attends to.

    ``decoder``, ``words`` and ``dropout`` are set by subclasses, which end with ``post_init()``. Symbols: s decoder
    outputs (B, T, d), x embeddings of the words that it reads (B, T, e). Contexts are not fed back into it.
    """

    decoder: nn.LSTM
    words: PointerGenerator
    dropout: nn.Dropout

    @property
    @abstractmethod
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[State, Given]:
        """Return the first hidden state and cell (B, 1, d), and what is decoded from, the source's tokens last."""

    @abstractmethod
    def features(self, embedded: Tensor, states: Tensor, given: Given) -> tuple[Tensor, Tensor]:
        """Return [s; contexts; x] (B, T, ...) of states s behind words x, and the attention to the source (B, T, S)."""

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        batch = self.planned(batch)
        tokens, (state, given) = RealTokens.given(batch, "y"), self.encode(batch)
        embedded = self.dropout(self.table(batch["y_in"]))
        states, _ = recurrent(self.decoder, embedded, tuple(part.transpose(0, 1).contiguous() for part in state))
        features, weights = self.features(embedded, states, given)
        weights = weights * self.copyable(batch["x_ids"])
        same = batch["x_ids"].unsqueeze(1) == batch["y_out"].unsqueeze(-1)  # (B, T, S)
        matching, mass = tokens.rows(torch.stack([(weights * same).sum(-1), weights.sum(-1)], dim=-1)).unbind(-1)
        return item_sums(self.words.nll(tokens.rows(features), matching, mass, tokens.rows(batch["y_out"]),
                                        self.table.weight), tokens)

    def copyable(self, x_ids: Tensor) -> Tensor:
        """Return which source tokens (B, 1, S) may be copied: words, and neither [CLS], [SEP] nor padding."""
        config = self.config
        special = [x_ids == each for each in (config.bos_token_id, config.eos_token_id, config.pad_token_id)]
        return ~(special[0] | special[1] | special[2]).unsqueeze(1)

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`PieceModel.begin`."""
        return RecurrentSteps(self._advanced, self._scored, *self.encode(batch)), self.first(batch)

    def _advanced(self, tokens: Tensor, state: State, given: Given) -> tuple[Tensor, State]:
        embedded = self.table(tokens)  # (B, W, e)
        rows = embedded.flatten(0, 1).unsqueeze(1)
        states, last = recurrent(self.decoder, rows, tuple(part.flatten(0, 1).unsqueeze(0) for part in state))
        found, weights = self.features(embedded, states.view(*tokens.shape, -1), given)
        return torch.cat([found, weights.to(found.dtype)], dim=-1), tuple(
            part.view(*tokens.shape, -1) for part in last)

    def _scored(self, states: Tensor, given: Given) -> Tensor:
        x_ids = given[-1]
        features, weights = states[..., :-x_ids.shape[1]], states[..., -x_ids.shape[1]:]
        return self.words.scores(features, weights.float() * self.copyable(x_ids), x_ids, self.table.weight)


class PointerSeq2Seq(Pointing):
    """A bidirectional LSTM reads the source; an LSTM writes, attends to its outputs (B, S, 2 d), and copies.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.Seq2Seq`. The decoder starts from tanh(W [last forward; last
    backward state]) (our choice).
    """

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        width, embedding = sizes["width"], sizes["embedding"]
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(sizes["dropout"])
        self.encoder = nn.LSTM(embedding, width, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))  # to hidden and cell
        self.decoder = nn.LSTM(embedding, width, batch_first=True)
        self.attention = AdditiveAttention(2 * width, width, width)
        self.words = PointerGenerator(3 * width, embedding, config.vocab_size)
        self.post_init()

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of real tokens, and sources by their length."""
        return batch if "x_host" in batch else {**super().planned(batch), **by_length(batch, ["x"])}

    @property
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""
        return self.embedding

    def encode(self, batch: Batch) -> tuple[State, Given]:
        """Return the decoder's first states, and what is decoded from."""
        embedded = self.dropout(self.embedding(batch["x_ids"]))
        memory, last = read(self.encoder, embedded, batch, "x")
        state = tuple(torch.tanh(layer(part)).unsqueeze(1) for layer, part in zip(self.bridge, last, strict=True))
        return state, (memory, self.attention.keys(memory), batch["x_mask"].bool(), batch["x_ids"])

    def features(self, embedded: Tensor, states: Tensor, given: Given) -> tuple[Tensor, Tensor]:
        """Return [s; c; x], and the attention."""
        contexts, weights = self.attention(states, *given[:3])
        return torch.cat([states, contexts, embedded], dim=-1), weights


class Seq2SeqDu(Pointing):
    """Symbols: D = BERT(x), a vector per token (B, m, d); S, the mean of BERT's states of each phrase (B, k, d).

    D'_i = sum_j softmax_j(v tanh(W1 d_i + W2 s_j)) s_j, and S'_j likewise of D. [D; D'] and [S; S'] are projected to d;
    an LSTM of width d attends to both, additively, and predicts a word of the vocabulary or of the source.
    Our choice: it starts from the mean of the fused D by tanh and a linear layer; one BERT reads tokens and phrases.
    ``config.encoder`` is BERT's own configuration, ``config.keywords`` the keyword of each source of the data set, and
    ``config.lexicon`` those of training texts, of which a text may hold more.
    """

    encoder_prefix = "encoder."

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        self.encoder = BertModel(BertConfig(**config.encoder), add_pooling_layer=False)
        width = self.encoder.config.hidden_size
        self.to_schema, self.to_source = (AdditiveAttention(width, width, width) for _ in range(2))
        self.fuse_source, self.fuse_schema = (nn.Linear(2 * width, width) for _ in range(2))
        self.dropout = nn.Dropout(config.sizes["dropout"])
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(2))  # to hidden and cell
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.read_source, self.read_schema = (AdditiveAttention(width, width, width) for _ in range(2))
        self.words = PointerGenerator(3 * width, width, config.vocab_size)
        self._found: dict[str, list[str]] = {}
        self.post_init()

    @property
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written: BERT's."""
        found: nn.Embedding = self.encoder.embeddings.word_embeddings
        return found

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw BERT's part as BERT's own is, the rest as every baseline's."""
        if any(module is part for part in self.encoder.modules()):
            self.encoder._init_weights(module)
        else:
            super()._init_weights(module)

    def inputs(self, sources: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Return the phrases of texts, ``s_ids``, ``s_mask`` (B, k, L) with [CLS] and [SEP].

        ``s_real`` (B, k) is True for phrases; a text without any has one of [CLS] [SEP] alone.
        """
        rows = [self.phrases(source) or [""] for source in sources]
        count = max(map(len, rows))
        made = tokenizer([phrase for row in rows for phrase in row + [""] * (count - len(row))], padding=True,
                         return_tensors="pt")
        real = torch.arange(count) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        return {"s_ids": made["input_ids"].unflatten(0, (-1, count)), "s_real": real,
                "s_mask": made["attention_mask"].bool().unflatten(0, (-1, count))}

    def phrases(self, source: str) -> list[str]:
        """Return the keyword of a text, if the data set has it, and known ones that it holds, the longest first."""
        if source not in self._found:
            own = self.config.keywords.get(source)
            words = " " + re.sub(r"[\W_]+", " ", source.lower()) + " "
            held = [one for one in self.config.lexicon if one != own and (
                f" {one} " in words or (not one.isascii() and one in words))]
            held = [*([own] if own else []), *sorted(held, key=lambda one: (-len(one), one))]
            self._found[source] = held[:_PHRASES]
        return self._found[source]

    def encode(self, batch: Batch) -> tuple[State, Given]:
        """Return the decoder's first states, and what is decoded from: both memories, and the source."""
        mask, real = batch["x_mask"].bool(), batch["s_real"]
        tokens = encode(self.encoder, batch["x_ids"], mask)
        flat = batch["s_mask"].flatten(0, 1)
        schema = mean_pool(encode(self.encoder, batch["s_ids"].flatten(0, 1), flat), flat).unflatten(0, real.shape)
        of_schema, _ = self.to_schema(tokens, schema, self.to_schema.keys(schema), real)
        of_source, _ = self.to_source(schema, tokens, self.to_source.keys(tokens), mask)
        source = self.dropout(self.fuse_source(torch.cat([tokens, of_schema], dim=-1)))
        fused = self.dropout(self.fuse_schema(torch.cat([schema, of_source], dim=-1)))
        start = mean_pool(source, mask)
        state = tuple(torch.tanh(layer(start)).unsqueeze(1) for layer in self.bridge)
        return state, (source, self.read_source.keys(source), mask, fused, self.read_schema.keys(fused), real,
                       batch["x_ids"])

    def features(self, embedded: Tensor, states: Tensor, given: Given) -> tuple[Tensor, Tensor]:
        """Return [s; contexts of both; x], and the attention to the source."""
        contexts, weights = self.read_source(states, *given[:3])
        schema, _ = self.read_schema(states, *given[3:6])
        return torch.cat([states, contexts, schema, embedded], dim=-1), weights


class Cvae(OwnPieceModel):
    """A conditional variational autoencoder of GRUs, without attention, whose sizes are those of the released code.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.Cvae`. One GRU, both ways, makes a vector of a text, its
    two last states; another reads that of the source as a context of one utterance, whose state is c (B, dc). The prior
    p(z | x) is a tanh layer of width max(2 dz, 100) and a linear one on c; the posterior q(z | x, y) one linear layer
    on [c; vector of y]. The decoder starts from a linear layer on [c; z], and the bag of words is predicted by tanh and
    a linear layer from the same. Texts are written from the prior's mean (our choice), as HCL's are.
    """

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes, words = config.sizes, config.vocab_size
        embedding, context, latent = sizes["embedding"], sizes["context"], sizes["latent"]
        vector, width, hidden = 2 * sizes["encoder"], sizes["width"], max(2 * latent, 100)
        self.noise_size = latent
        self.embedding = nn.Embedding(words, embedding)
        self.encoder = nn.GRU(embedding, sizes["encoder"], batch_first=True, bidirectional=True)
        self.context = nn.GRU(vector, context, batch_first=True)
        self.prior = nn.Sequential(nn.Linear(context, hidden), nn.Tanh(), nn.Linear(hidden, 2 * latent))
        self.posterior = nn.Linear(context + vector, 2 * latent)
        self.bridge = nn.Linear(context + latent, width)
        self.decoder = nn.GRU(embedding, width, batch_first=True)
        self.words = nn.Linear(width, words)
        self.bag = nn.Sequential(nn.Linear(context + latent, sizes["bag"]), nn.Tanh(), nn.Linear(sizes["bag"], words))
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw everything uniformly, as the released code does."""
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -_BOUND, _BOUND)

    def settled(self, total: int) -> int:
        """Return the step from which the KL counts in full."""
        return annealing_steps(self.config.sizes, total)

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of real tokens, and its texts by their length."""
        texts = [name for name in ("x", "y") if f"{name}_mask" in batch and f"{name}_host" not in batch]
        return {**super().planned(batch), **by_length(batch, texts)}

    def vector(self, batch: Batch, name: str) -> Tensor:
        """Return the last states of texts ``name``, both ways (B, d)."""
        return read(self.encoder, self.embedding(batch[f"{name}_ids"]), batch, name)[1][0]

    def condition(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return c (B, dc), and mean and log variance of p(z | x) (B, dz)."""
        c = recurrent(self.context, self.vector(batch, "x").unsqueeze(1))[0][:, 0]
        return c, *_gaussian(self.prior(c))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``reconstruction`` with z from the posterior, ``kl`` of it from the prior, and ``bow``, (B,) each."""
        batch = self.planned(batch)
        c, mu_p, logvar_p = self.condition(batch)
        mu, logvar = _gaussian(self.posterior(torch.cat([c, self.vector(batch, "y")], dim=-1)))
        noise = batch["eps"] if "eps" in batch else torch.randn_like(mu)
        given = torch.cat([c, mu + torch.exp(0.5 * logvar) * noise], dim=-1)
        states, _ = recurrent(self.decoder, self.embedding(batch["y_in"]), self.bridge(given).unsqueeze(0))
        tokens = RealTokens.given(batch, "y")
        cost = piece_nll(self.words(tokens.rows(states)), tokens.rows(batch["y_out"]))
        return {"reconstruction": item_sums(cost, tokens), "kl": gaussian_kl(mu, logvar, mu_p, logvar_p),
                "bow": bow_loss(self.bag(given), batch["y_out"], batch["y_in_mask"].bool())}

    def nll(self, batch: Batch) -> Tensor:
        """Return a bound above -log p(y | x) of each item (B,): reconstruction plus the whole KL."""
        return self.validation(batch)["loss"]

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return the bound, and its parts."""
        found = self.parts(batch)
        return {"loss": found["reconstruction"] + found["kl"], **found}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return reconstruction + w KL + bag of words, w rising from 0 to 1 with the steps, and the parts."""
        found = self.parts(batch)
        weight = kl_weight(step.number, annealing_steps(self.config.sizes, step.total))
        return {"loss": found["reconstruction"] + weight * found["kl"] + found["bow"], **found}

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources, z at the prior's mean; see :meth:`PieceModel.begin`."""
        c, mu, _ = self.condition(batch)
        state = self.bridge(torch.cat([c, mu], dim=-1)).unsqueeze(1)
        return RecurrentSteps(self._advanced, self._scored, [state], []), self.first(batch)

    def _advanced(self, tokens: Tensor, state: State, given: Given) -> tuple[Tensor, State]:
        rows = self.embedding(tokens).flatten(0, 1).unsqueeze(1)
        states, _ = recurrent(self.decoder, rows, state[0].flatten(0, 1).unsqueeze(0))
        states = states.view(*tokens.shape, -1)
        return states, (states,)

    def _scored(self, states: Tensor, given: Given) -> Tensor:
        return project_in_full(states, self.words.weight, self.words.bias)


def _gaussian(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and log variance (B, dz) of values (B, 2 dz), in float32 at least."""
    mu, logvar = at_least_float32(*values.chunk(2, dim=-1))
    return mu, logvar.clamp(*_LOGVAR)


def annealing_steps(sizes: Mapping[str, Any], total: int) -> int:
    """Return within how many of ``total`` steps w rises: a share of all, but no more than in the released code."""
    return min(_ANNEALING, round(sizes["annealing_share"] * total))
