"""Baselines of HCL's table with networks of our own, recurrent and Transformers; and all baselines by name."""

import copy
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers import initialization as init

from keycontrast.text.normal_form import HAN
from models.common import recurrent as rnn
from models.common import transformer
from models.common.decoding import CachedSteps, Decodable, project_in_full
from models.common.losses import at_least_float32, bow_loss, gaussian_kl
from models.common.task import Step
from models.hcl.hcl import LOGVAR_RANGE, kl_weight
from models.hcl.pretrained import T5, Batch, DialoGpt, PieceModel, SimCtg, T5Claps

_HAN = re.compile(f"[{HAN}]")
_PHRASES = 5  # phrases of a source at most
_BOUND = 0.08  # of the CVAE's initial weights
_ANNEALING = 10_000  # steps
_PRETRAINING = 5_000  # steps by likelihood alone, at most
_RISING = 7_000  # steps at speed 1 until the contrast has 0.999 of the loss


class PieceConfig(PretrainedConfig):
    """Configuration of a baseline with a network of our own; ``sizes`` is its block of ``train_hcl``, plain."""

    model_type = "keycontrast-pieces"

    def __init__(self, architecture: str = "transformer", vocab_size: int = 30522,
                 sizes: Mapping[str, Any] | None = None, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.architecture, self.vocab_size = architecture, vocab_size
        self.sizes, self.mean_target_length = dict(sizes or {}), mean_target_length
        super().__init__(**{**kwargs, "tie_word_embeddings": False})


class OwnPieceModel(PieceModel, PreTrainedModel):
    """A baseline with a network of our own; its weights are drawn from torch's generator."""

    config: PieceConfig
    config_class = PieceConfig
    base_model_prefix = "pieces"
    main_input_name = "x_ids"

    def first(self, batch: Batch) -> Tensor:
        """Return the first token of each output (B,)."""
        return torch.full((len(batch["x_ids"]),), int(self.config.bos_token_id), device=batch["x_ids"].device)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices by Xavier's rule, and embeddings so that they are as long as positions; biases are 0."""
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim ** -0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)


def item_sums(values: Tensor, tokens: transformer.RealTokens) -> Tensor:
    """Return the sums (B,) of values (M,), rows of ``tokens``, over the tokens of each item."""
    return tokens.padded(values).masked_fill(~tokens.real, 0.0).sum(-1)


def piece_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of tokens (M,) under unnormalised scores (M, V), in float32 at least."""
    (logits,) = at_least_float32(logits)
    return F.cross_entropy(logits, targets, reduction="none")


class PieceTransformer(OwnPieceModel):
    """Transformer (Vaswani et al. 2017); encoder, decoder and word scores share one table of embeddings."""

    title = "Transformer"
    _supports_sdpa = True

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        self.embedder = transformer.Embedder(config.vocab_size, sizes["width"], sizes["dropout"])
        self.encoder, self.decoder = transformer.Encoder(sizes), transformer.Decoder(sizes, transformer.DecoderLayer)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.post_init()

    def memory(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the tensors that outputs are decoded from, a row per item; see :meth:`Decoder.forward`."""
        tokens = transformer.RealTokens(batch["x_mask"])
        places = transformer.Heads(self.config.sizes["heads"], tokens)
        bias = transformer.masking(tokens.real, self.bias)[:, None, None]
        states = self.encoder(self.embedder, tokens.rows(batch["x_ids"]), places, bias)
        return (bias, *self.decoder.project(0, states, places))

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        tokens = transformer.RealTokens(batch["y_in_mask"])
        states = self.decoder(self.embedder, tokens.rows(batch["y_in"]), self.memory(batch), None, tokens)
        logits = F.linear(states, self.embedder.words.weight, self.bias)
        return item_sums(piece_nll(logits, tokens.rows(batch["y_out"])), tokens)

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`PieceModel.begin`."""
        score = partial(project_in_full, weight=self.embedder.words.weight, bias=self.bias)
        return CachedSteps(partial(self.decoder, self.embedder), score, self.memory(batch), slots), self.first(batch)


# Group-wise contrastive learning (Cai et al. 2020, Group-wise Contrastive Learning for Neural Dialogue Generation): a
# target model p_m is trained on pairs by cross-entropy first; then a copy p_n of it is frozen, and p_m is trained to
# raise, against p_n, the probability of pairs that match, and to lower that of other pairs.


def pair_loss(advantage: Tensor, match: Tensor) -> Tensor:
    """Return -log(1/2 + s (sigmoid(G) - 1/2)) of pairs, with ``match`` s in [-1, 1].

    ``advantage`` is G = log p_m(r | c) - log p_n(r | c), of sums over all tokens; with s = 0 there is no gradient.
    """
    # 1/2 + s (h - 1/2) = (1 + s) / 2 h + (1 - s) / 2 (1 - h), whose terms have stable logarithms
    towards = torch.log((1 + match) / 2) + F.logsigmoid(advantage)
    away = torch.log((1 - match) / 2) + F.logsigmoid(-advantage)
    return -torch.logaddexp(towards, away)


def contrast_share(step: float, speed: float) -> float:
    """Return a, the share of the contrast in the loss, ``step`` steps after the reference was frozen."""
    return min(1.0, max(0.0, (math.tanh((step * speed - 3500) / 1000) + 1) / 2))


class GroupWise(PieceTransformer):
    """The target model, a Transformer, which is trained within :class:`GroupWiseTraining`.

    Training batches also have C other contexts of each item's response and C other responses to its context:
    ``cand_x_*`` (B, 2, C, Lx), ``cand_y_*`` (B, 2, C, T) and ``cand_score`` (B, 2, C).
    """

    title = "Group-wise (Cai et al. 2020)"

    def final_from_step(self, total: int) -> int:
        """Return the step from which a > 0.999."""
        begin = self.pretraining(total)
        return begin + math.ceil(_RISING / self.speed(total)) if self.config.sizes["speed"] else total

    def pretraining(self, total: int) -> int:
        """Return the step at which the reference is frozen: after a share of all steps, 5,000 at most."""
        return min(_PRETRAINING, round(self.config.sizes["pretrain_share"] * total))

    def speed(self, total: int) -> float:
        """Return the speed at which a rises; by default the rise ends with the training."""
        speed: float | None = self.config.sizes["speed"]
        return speed or _RISING / (total - self.pretraining(total))

    def trainee(self) -> nn.Module:
        """Return the model with its reference."""
        return GroupWiseTraining(self)


class GroupWiseTraining(nn.Module):
    """The target model and its frozen reference, whose weights are also buffers, so that checkpoints include them."""

    def __init__(self, model: GroupWise) -> None:
        super().__init__()
        self.model, self.frozen = model, copy.deepcopy(model).requires_grad_(False)
        for name, parameter in self.frozen.named_parameters():
            self.register_buffer(f"reference_{name.replace('.', '/')}", parameter.data)  # shares its memory

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.model.device

    def begin_step(self, step: Step) -> None:
        """Freeze the reference, if it is time."""
        if step.number == self.model.pretraining(step.total):
            self.frozen.load_state_dict(self.model.state_dict())

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return (1 - a) NLL + a |y| contrast, with |y| the mean target length, and both parts; at first NLL alone."""
        since = step.number - self.model.pretraining(step.total)
        if since < 0:
            return {"loss": self.model.nll(batch)}
        nll, contrast = self.contrast(batch)
        share = contrast_share(since, self.model.speed(step.total))
        # losses are divided by tokens later, and the contrast is a value per pair
        loss = (1 - share) * nll + share * self.model.config.mean_target_length * contrast
        return {"loss": loss, "reconstruction": nll, "group_contrast": contrast}

    def contrast(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return -log p_m(y | x) of observed pairs (B,), and the mean of the pair losses of each and its draws (B,)."""
        pairs, score = drawn(batch, self.model.config.sizes["sample_k"])
        own, reference = -self.model.nll(pairs), self.reference(pairs)
        count = len(batch["x_ids"])  # the observed pairs first, then one draw for every item
        match = torch.cat([torch.ones_like(own[:count]), 2 * score - 1])
        return -own[:count], pair_loss(own - reference, match).view(-1, count).mean(0)

    @torch.no_grad()
    def reference(self, batch: Batch) -> Tensor:
        """Return log p_n(y | x) (B,), without dropout."""
        return -self.frozen.eval().nll(batch)


def drawn(batch: Batch, count: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return the observed pairs and ``count`` draws for each item, (B + count B) rows, and the scores of the draws."""
    scores = batch["cand_score"]
    items, _, candidates = scores.shape
    rows = torch.arange(items, device=scores.device).repeat(count)  # (count B,)
    side = torch.randint(2, (count * items,), device=scores.device)
    which = torch.randint(candidates, (count * items,), device=scores.device)
    pairs = {}
    for name in ("x_ids", "x_mask", "y_in", "y_out", "y_in_mask"):
        own, candidate = batch[name], batch[f"cand_{name}"][rows, side, which]
        length = max(own.shape[1], candidate.shape[1])
        pairs[name] = torch.cat([F.pad(part, (0, length - part.shape[1])) for part in (own, candidate)])
    return pairs, scores[rows, side, which]


class Pointing(OwnPieceModel):
    """An LSTM that predicts words of the vocabulary or the source; states s (B, T, d), embedded words x (B, T, e)."""

    decoder: nn.LSTM
    words: rnn.PointerGenerator
    dropout: nn.Dropout

    @property
    @abstractmethod
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[rnn.State, rnn.Given]:
        """Return the first hidden state and cell (B, 1, d), and tensors of the source, its tokens last."""

    @abstractmethod
    def features(self, embedded: Tensor, states: Tensor, given: rnn.Given) -> tuple[Tensor, Tensor]:
        """Return [s; contexts; x] (B, T, ...) of states s after words x, and the attention to the source (B, T, S)."""

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        tokens, (state, given) = transformer.RealTokens(batch["y_in_mask"]), self.encode(batch)
        embedded = self.dropout(self.table(batch["y_in"]))
        states, _ = rnn.recurrent(self.decoder, embedded, tuple(part.transpose(0, 1).contiguous() for part in state))
        features, weights = self.features(embedded, states, given)
        weights = weights * self.copyable(batch["x_ids"])
        same = batch["x_ids"].unsqueeze(1) == batch["y_out"].unsqueeze(-1)  # (B, T, S)
        matching, mass = tokens.rows(torch.stack([(weights * same).sum(-1), weights.sum(-1)], dim=-1)).unbind(-1)
        return item_sums(self.words.nll(tokens.rows(features), matching, mass, tokens.rows(batch["y_out"]),
                                        self.table.weight), tokens)

    def copyable(self, x_ids: Tensor) -> Tensor:
        """Return which source tokens (B, 1, S) may be copied: all but [CLS], [SEP] and padding."""
        config = self.config
        special = [x_ids == token for token in (config.bos_token_id, config.eos_token_id, config.pad_token_id)]
        return ~(special[0] | special[1] | special[2]).unsqueeze(1)

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`PieceModel.begin`."""
        return rnn.RecurrentSteps(self._advanced, self._scored, *self.encode(batch)), self.first(batch)

    def _advanced(self, tokens: Tensor, state: rnn.State, given: rnn.Given) -> tuple[Tensor, rnn.State]:
        embedded = self.table(tokens)  # (B, W, e)
        rows = embedded.flatten(0, 1).unsqueeze(1)
        states, last = rnn.recurrent(self.decoder, rows, tuple(part.flatten(0, 1).unsqueeze(0) for part in state))
        features, weights = self.features(embedded, states.view(*tokens.shape, -1), given)
        state = tuple(part.view(*tokens.shape, -1) for part in last)
        return torch.cat([features, weights.to(features.dtype)], dim=-1), state

    def _scored(self, states: Tensor, given: rnn.Given) -> Tensor:
        x_ids = given[-1]
        features, weights = states[..., :-x_ids.shape[1]], states[..., -x_ids.shape[1]:]
        return self.words.scores(features, weights.float() * self.copyable(x_ids), x_ids, self.table.weight)


class PointerSeq2Seq(Pointing):
    """An LSTM decoder with attention and copying over a bidirectional LSTM; it starts from tanh(W [last states])."""

    title = "Seq2Seq with attention and pointer"

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        width, embedding = sizes["width"], sizes["embedding"]
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(sizes["dropout"])
        self.encoder = nn.LSTM(embedding, width, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))  # to hidden and cell
        self.decoder = nn.LSTM(embedding, width, batch_first=True)
        self.attention = rnn.AdditiveAttention(2 * width, width, width)
        self.words = rnn.PointerGenerator(3 * width, embedding, config.vocab_size)
        self.post_init()

    @property
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""
        return self.embedding

    def encode(self, batch: Batch) -> tuple[rnn.State, rnn.Given]:
        """Return the decoder's first states, and tensors of the source."""
        embedded = self.dropout(self.embedding(batch["x_ids"]))
        memory, last = rnn.read(self.encoder, embedded, batch["x_mask"])
        state = tuple(torch.tanh(layer(part)).unsqueeze(1) for layer, part in zip(self.bridge, last, strict=True))
        return state, (memory, self.attention.keys(memory), batch["x_mask"].bool(), batch["x_ids"])

    def features(self, embedded: Tensor, states: Tensor, given: rnn.Given) -> tuple[Tensor, Tensor]:
        """Return [s; c; x], and the attention."""
        contexts, weights = self.attention(states, *given[:3])
        return torch.cat([states, contexts, embedded], dim=-1), weights


class Seq2SeqDu(Pointing):
    """Symbols: D = BERT(x), a vector per token (B, m, d); S, the mean of BERT's states of each phrase (B, k, d).

    D'_i = sum_j softmax_j(v tanh(W1 d_i + W2 s_j)) s_j, and S'_j likewise of D. [D; D'] and [S; S'] are projected to d;
    an LSTM of width d attends to both, additively, and predicts a word of the vocabulary or the source. Our choice: it
    starts from the mean of the fused D; one BERT reads tokens and phrases. ``config.keywords`` are those of each
    source, ``config.lexicon`` those of training texts.
    """

    title = "Seq2Seq-DU, adapted"
    encoder_prefix = "encoder."

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        self.encoder = BertModel(BertConfig(**config.encoder), add_pooling_layer=False)
        width = self.encoder.config.hidden_size
        self.to_schema, self.to_source = (rnn.AdditiveAttention(width, width, width) for _ in range(2))
        self.fuse_source, self.fuse_schema = (nn.Linear(2 * width, width) for _ in range(2))
        self.dropout = nn.Dropout(config.sizes["dropout"])
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(2))  # to hidden and cell
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.read_source, self.read_schema = (rnn.AdditiveAttention(width, width, width) for _ in range(2))
        self.words = rnn.PointerGenerator(3 * width, width, config.vocab_size)
        self._phrases: dict[str, list[str]] = {}
        self.post_init()

    @property
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written: BERT's."""
        embeddings: nn.Embedding = self.encoder.embeddings.word_embeddings
        return embeddings

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw BERT's weights as BERT does, and the others as in every baseline."""
        if any(module is part for part in self.encoder.modules()):
            self.encoder._init_weights(module)
        else:
            super()._init_weights(module)

    def inputs(self, sources: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Return the phrases of texts, ``s_ids``, ``s_mask`` (B, k, L) with [CLS] and [SEP]; ``s_real`` (B, k)."""
        rows = [self.phrases(source) or [""] for source in sources]
        count = max(map(len, rows))
        encoded = tokenizer([phrase for row in rows for phrase in row + [""] * (count - len(row))], padding=True,
                            return_tensors="pt")
        real = torch.arange(count) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        return {"s_ids": encoded["input_ids"].unflatten(0, (-1, count)), "s_real": real,
                "s_mask": encoded["attention_mask"].bool().unflatten(0, (-1, count))}

    def phrases(self, source: str) -> list[str]:
        """Return the keyword of a text, if it has one, and the keywords of the lexicon in it, the longest first."""
        if source not in self._phrases:
            own, text = self.config.keywords.get(source), source.lower()
            others = [phrase for phrase in self.config.lexicon if phrase != own and _contains(text, phrase)]
            phrases = [*([own] if own else []), *sorted(others, key=lambda phrase: (-len(phrase), phrase))]
            self._phrases[source] = phrases[:_PHRASES]
        return self._phrases[source]

    def encode(self, batch: Batch) -> tuple[rnn.State, rnn.Given]:
        """Return the decoder's first states, both memories, and the source."""
        mask, real = batch["x_mask"].bool(), batch["s_real"]
        tokens = transformer.encode(self.encoder, batch["x_ids"], mask)
        flat = batch["s_mask"].flatten(0, 1)
        phrases = transformer.embed(self.encoder, batch["s_ids"].flatten(0, 1), flat)
        schema = phrases.unflatten(0, real.shape)
        of_schema, _ = self.to_schema(tokens, schema, self.to_schema.keys(schema), real)
        of_source, _ = self.to_source(schema, tokens, self.to_source.keys(tokens), mask)
        source = self.dropout(self.fuse_source(torch.cat([tokens, of_schema], dim=-1)))
        fused = self.dropout(self.fuse_schema(torch.cat([schema, of_source], dim=-1)))
        start = transformer.mean_pool(source, mask)
        state = tuple(torch.tanh(layer(start)).unsqueeze(1) for layer in self.bridge)
        return state, (source, self.read_source.keys(source), mask, fused, self.read_schema.keys(fused), real,
                       batch["x_ids"])

    def features(self, embedded: Tensor, states: Tensor, given: rnn.Given) -> tuple[Tensor, Tensor]:
        """Return [s; contexts of both; x], and the attention to the source."""
        contexts, weights = self.read_source(states, *given[:3])
        schema, _ = self.read_schema(states, *given[3:6])
        return torch.cat([states, contexts, schema, embedded], dim=-1), weights


def _contains(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase as whole words (C++ does not contain C); Chinese may match anywhere."""
    return phrase in text and (_HAN.search(phrase) is not None
                               or re.search(rf"(?<!\w){re.escape(phrase)}(?![\w+#])", text) is not None)


class Cvae(OwnPieceModel):
    """A conditional variational autoencoder of GRUs, without attention.

    A bidirectional GRU computes a vector of a text; another GRU reads that of the source, and its state is c (B, dc).
    p(z | x) is a tanh layer of width max(2 dz, 100) and a linear one on c, q(z | x, y) one linear layer on [c; vector
    of y]; the decoder starts from a linear layer on [c; z]. Generation uses the prior's mean (our choice).
    """

    title = "CVAE (Zhao et al. 2017)"

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
        """Draw all weights uniformly, as in the released code."""
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -_BOUND, _BOUND)

    def final_from_step(self, total: int) -> int:
        """Return the step from which w is 1: after a share of all steps, 10,000 at most, as in the released code."""
        return min(_ANNEALING, round(self.config.sizes["annealing_share"] * total))

    def vector(self, batch: Batch, name: str) -> Tensor:
        """Return the last states of texts ``name`` in both directions (B, d)."""
        return rnn.read(self.encoder, self.embedding(batch[f"{name}_ids"]), batch[f"{name}_mask"])[1][0]

    def condition(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return c (B, dc), and mean and log variance of p(z | x) (B, dz)."""
        c = rnn.recurrent(self.context, self.vector(batch, "x").unsqueeze(1))[0][:, 0]
        return c, *_gaussian(self.prior(c))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``reconstruction`` with z from the posterior, ``kl`` of it from the prior, and ``bow``, (B,) each."""
        c, mu_p, logvar_p = self.condition(batch)
        mu, logvar = _gaussian(self.posterior(torch.cat([c, self.vector(batch, "y")], dim=-1)))
        noise = batch["eps"] if "eps" in batch else torch.randn_like(mu)
        given = torch.cat([c, mu + torch.exp(0.5 * logvar) * noise], dim=-1)
        return {"reconstruction": self.reconstruction(given, batch), "kl": gaussian_kl(mu, logvar, mu_p, logvar_p),
                "bow": bow_loss(self.bag(given), batch["y_out"], batch["y_in_mask"].bool())}

    def reconstruction(self, given: Tensor, batch: Batch) -> Tensor:
        """Return -log p(y | x, z) of each item (B,) from [c; z] (B, dc + dz)."""
        states, _ = rnn.recurrent(self.decoder, self.embedding(batch["y_in"]), self.bridge(given).unsqueeze(0))
        tokens = transformer.RealTokens(batch["y_in_mask"])
        return item_sums(piece_nll(self.words(tokens.rows(states)), tokens.rows(batch["y_out"])), tokens)

    def likelihood(self, batch: Batch) -> Tensor:
        """Return -log p(y | x, z) of each item (B,) at the mean of p(z | x)."""
        c, mu, _ = self.condition(batch)
        return self.reconstruction(torch.cat([c, mu], dim=-1), batch)

    def nll(self, batch: Batch) -> Tensor:
        """Return a bound above -log p(y | x) of each item (B,)."""
        return self.validation(batch)["loss"]

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return the bound, reconstruction plus the whole KL, and its parts."""
        parts = self.parts(batch)
        return {"loss": parts["reconstruction"] + parts["kl"], **parts}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return reconstruction + w KL + bag of words, w rising from 0 to 1 with the steps, and the parts."""
        parts = self.parts(batch)
        weight = kl_weight(step.number, self.final_from_step(step.total))
        return {"loss": parts["reconstruction"] + weight * parts["kl"] + parts["bow"], **parts}

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources, with z at the prior's mean; see :meth:`PieceModel.begin`."""
        c, mu, _ = self.condition(batch)
        state = self.bridge(torch.cat([c, mu], dim=-1)).unsqueeze(1)
        return rnn.RecurrentSteps(self._advanced, self._scored, [state], []), self.first(batch)

    def _advanced(self, tokens: Tensor, state: rnn.State, given: rnn.Given) -> tuple[Tensor, rnn.State]:
        rows = self.embedding(tokens).flatten(0, 1).unsqueeze(1)
        states, _ = rnn.recurrent(self.decoder, rows, state[0].flatten(0, 1).unsqueeze(0))
        states = states.view(*tokens.shape, -1)
        return states, (states,)

    def _scored(self, states: Tensor, given: rnn.Given) -> Tensor:
        return project_in_full(states, self.words.weight, self.words.bias)


def _gaussian(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and log variance (B, dz) of values (B, 2 dz), in float32 at least."""
    mu, logvar = at_least_float32(*values.chunk(2, dim=-1))
    return mu, logvar.clamp(*LOGVAR_RANGE)


# Each is a ``PieceModel`` and a ``PreTrainedModel``.
MODELS: dict[str, Any] = {
    "cvae": Cvae, "seq2seq": PointerSeq2Seq, "transformer": PieceTransformer, "seq2seq_du": Seq2SeqDu,
    "group_wise": GroupWise, "dialogpt": DialoGpt, "simctg": SimCtg, "t5": T5, "t5_claps": T5Claps}


def load_pieces(folder: str | Path, architecture: str) -> Any:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode."""
    model = MODELS[architecture].from_pretrained(folder).eval()
    # Weights that are mapped from a file can have any address, and some products round differently at unaligned ones. A
    # copy makes a saved model compute the same bits as before.
    for weight in (*model.parameters(), *model.buffers()):
        weight.data = weight.data.clone()
    return model
