"""Seq2Seq-DU (Feng et al. 2021), adapted from tracking dialogue states to writing text.

The paper points at slots of a schema. Here the schema is the keyword of the source and other keywords of the data set
that it holds, and words come from a pointer-generator; HCL, which lists the row, does not say what it did instead.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from models.common.encoders import encode, mean_pool
from models.hcl.baselines.base import Batch, PieceConfig
from models.hcl.baselines.recurrent import AdditiveAttention, Given, PointerGenerator, State
from models.hcl.baselines.seq2seq import Pointing

_PHRASES = 5  # keywords of a source at most


class Seq2SeqDu(Pointing):
    """Symbols: D = BERT(x), a vector per token (B, m, d); S, the mean of BERT's states of each phrase (B, k, d).

    D'_i = sum_j softmax_j(v tanh(W1 d_i + W2 s_j)) s_j, and S'_j likewise of D. [D; D'] and [S; S'] are projected to d;
    an LSTM of width d attends to both, additively, and predicts a word of the vocabulary or of the source.
    Our choice: it starts from the mean of the fused D by tanh and a linear layer; one BERT reads tokens and phrases.
    ``config.encoder`` is BERT's own configuration, ``config.keywords`` the keyword of each source of the data set, and
    ``config.lexicon`` those of training texts, of which a text may hold more.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.Seq2SeqDu`.
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
        """Return the phrases of texts, ``s_ids`` (B, k, L) with [CLS] and [SEP], ``s_mask`` (B, k, L).

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
