"""Latent bag of words (Fu, Feng and Cunningham 2019, Paraphrase Generation with Latent Bag of Words)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import initialization as init

from models.common.losses import at_least_float32, bag_of_words
from models.common.special import PAD
from models.pgkpr.base import Batch, RewriterConfig
from models.pgkpr.recurrent import LstmStack, RecurrentRewriter, Sources, State, attend

_BAGS = 3  # softmaxes over the vocabulary at each position
_TEMPERATURE, _DECODING_TEMPERATURE = 0.5, 1e-5  # of Gumbel's softmaxes
_SPREAD = 0.05


@dataclass(frozen=True)
class Bags:
    """Bags of words that are predicted of a source, (B, V) each, not normalised.

    Attributes:
        plain: b, the sum of all softmaxes of all real words; the loss is taken of it.
        memory: the bag that the memory's words are weighted by: b itself, or that of sharpened softmaxes.
        choice: what the K words of the memory are the largest of; without a graph.
    """

    plain: Tensor
    memory: Tensor
    choice: Tensor


class LatentBow(RecurrentRewriter):
    """Predicts the words of the paraphrase first, each source word some of them, then decodes from the likeliest.

    Symbols: h_t is the encoder's output at source word t; every word has a few softmaxes over the vocabulary,
    softmax(W_k2 W_k1 h_t); b is their sum over words and k. The memory M holds the K words v with the largest b_v as
    embedding(v) b_v: gradients reach b through these factors, not through the choice.

    Every layer of the decoder starts from the cell of the encoder's first layer, and from its hidden state plus the
    mean of M. At each step the query q, the hidden state of the decoder's top layer, attends to M and to the h_t; the
    two contexts are joined and projected, and the cell reads word + q + context. As in the released code: M is looked
    up by W q and the h_t by W W q; each layer's input is added to its output, dropout between; weights begin as
    N(0, 0.05), biases at 0, those of forget gates at 1.

    ``gumbel``: the memory is weighted by softmaxes of (logits + Gumbel noise) / temperature in training. In
    evaluation mode, decoding included, the temperature is 1e-5 and we draw no noise, where the released code does, so
    that an output depends on its source alone: each softmax then names its likeliest word, and the bag counts the
    names. Words that are named equally often are taken in the order of the plain b.
    """

    def __init__(self, config: RewriterConfig) -> None:
        values = config.latent_bow
        width = values.width
        super().__init__(config, width)
        self.encoder, self.decoder = (LstmStack(width, 2, 1, values.dropout) for _ in range(2))
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
        """Return ``generation``, summed over tokens of ``y_out``, and ``bow``, summed over items.

        Args:
            batch: with ``bow_ids`` (B, K), distinct words to predict, padded with 0.
            mask: not read.
        """
        batch = self.planned(batch)
        outputs, first, bags, real = self._read(batch)
        state, sources = self._prepared(outputs, first, bags, real)
        words = batch["bow_ids"]
        return {"generation": self.generation(self._taught(batch["y_in"], state, sources), batch),
                "bow": bag_of_words(bags.plain, words, words != PAD).sum()}

    def encode(self, batch: Batch) -> tuple[State, Sources]:
        """Return the decoder's first states; memory (B, K, d), encoder's outputs (B, L, d), which are real (B, L)."""
        return self._prepared(*self._read(batch))

    def advance(self, tokens: Tensor, state: State, sources: Sources) -> tuple[Tensor, State]:
        """Append a token to every hypothesis (B, W); return what predicts the next ones (B, W, d), and the states."""
        return self._advance(self.embedding(tokens), state, sources)

    def bags(self, outputs: Tensor, real: Tensor) -> Bags:
        """Predict the bags of sources from the encoder's outputs (B, L, d), of which ``real`` (B, L) count."""
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
        # counts, so equal ones are common; less than 1 is added
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

    def _read(self, batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor], Bags, Tensor]:
        """Return what the encoder makes of sources.

        These are its outputs (B, L, d), last hidden and cell (1, B, d) of its first layer, the bags, and which places
        hold words (B, L).
        """
        texts = self.texts(batch)
        outputs, states = self.encoder.read(self.embedding(texts.words(batch["x_ids"])), texts)
        return outputs, states[0], self.bags(outputs, texts.real), texts.real

    def _prepared(
        self, outputs: Tensor, first: tuple[Tensor, Tensor], bags: Bags, real: Tensor
    ) -> tuple[State, Sources]:
        _, memory = self.remember(bags)
        hidden, cell = first
        start = (hidden + memory.mean(1), cell)
        return tuple(start for _ in self.decoder.layers), (memory, outputs, real)

    def _taught(self, tokens: Tensor, state: State, sources: Sources) -> Tensor:
        """Return what predicts the token after each of tokens (B, T): (B, T, d).

        One word after the other: what is attended to, and so the cell's input, depends on the states before it.
        """
        found = []
        for word in self.embedding(tokens).split(1, dim=1):  # (B, 1, d)
            top, state = self._advance(word, state, sources)
            found.append(top)
        return torch.cat(found, dim=1)

    def _advance(self, embedded: Tensor, state: State, sources: Sources) -> tuple[Tensor, State]:
        """Append embedded words (B, W, d), one to each hypothesis."""
        memory, outputs, real = sources
        query = state[-1][0].view(embedded.shape)  # (B, W, d)
        remembering = self.query(query)
        contexts = attend(remembering, memory), attend(self.query(remembering), outputs, real)
        inputs = embedded + query + self.context(torch.cat(contexts, dim=-1))
        found, state = self.decoder(inputs.flatten(0, 1).unsqueeze(1), state)  # (B W, 1, d)
        return found.view(embedded.shape), state
