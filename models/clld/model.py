"""CLLD's classifier: a shared encoder, a linear classifier, and a head whose vectors are contrasted in training."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init

from models.clld.config import ClldConfig
from models.clld.contrasts import CONTRASTS
from models.clld.encoders import build_encoder, dropout_rate, encode, encode_with_tokens
from models.clld.label_distance import given_distance, static_tau_all, static_tau_pairs, uniform_distance
from models.clld.textcnn import PAD, TextCnn


@dataclass(frozen=True)
class Views:
    """What a training step computes of M texts.

    Attributes:
        logits: of the classes (M, N): first views; (V M, N) with ``ce_views: both``, all first views before the others.
        vectors: to be contrasted (V M, dproj), in that order too; of a contrast of T tokens (V M, T dproj), with
            zeros for those that a text lacks; None for CT.
    """

    logits: Tensor
    vectors: Tensor | None


class ClldModel(PreTrainedModel):
    """Classifier of texts, trained with a contrast between classes (CLLD, section III; METHODS D.1).

    Symbols: M texts, N classes, h the vector of a text (d), h' = MLP(h), two layers with ReLU in between. The
    classifier is dropout and a linear layer on h, or on h' with ``classifier_input: head``. Only what it reads is used
    once trained; the label distance matrix ``ldm`` (a buffer, N x N) serves the contrast, and so does the head.

    >>> model = ClldModel.from_pretrained(folder)  # doctest: +SKIP
    >>> model(input_ids, attention_mask).softmax(-1)  # doctest: +SKIP
    """

    config: ClldConfig
    config_class = ClldConfig
    base_model_prefix = "clld"
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: ClldConfig) -> None:
        super().__init__(config)
        if config.architecture == "textcnn":
            self.encoder: nn.Module = TextCnn(**config.textcnn)
            width = self.encoder.features
        else:
            self.encoder = build_encoder(config.encoder, config.pool)
            width = self.encoder.config.hidden_size
        self.dropout = nn.Dropout(config.dropout)
        self.reads_head = config.classifier_input == "head"
        self.classifier = nn.Linear(config.contrast["projection"] if self.reads_head else width, config.n_classes)
        self.head: nn.Module | None = None
        if self.reads_head or (config.contrasts and config.contrast["vectors"] == "head"):
            # Behind the classifier, and without moving the generator that draws it: all rows of a table begin alike.
            with torch.random.fork_rng(devices=[]):
                self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(),
                                          nn.Linear(width, config.contrast["projection"]))
        if config.contrasts and CONTRASTS[config.contrast["kind"]].reads_distance:
            self.register_buffer("ldm", first_distance(config))
        self.post_init()

    @classmethod
    def over(cls, config: ClldConfig, encoder: PreTrainedModel) -> Self:
        """Build a model to train: the weights of ``encoder``, the rest random.

        Args:
            config: with ``encoder=plain_config(encoder.config)``.
            encoder: any encoder of the library; with a pooler for ``pool: pooler``.

        Raises:
            RuntimeError: the weights are not those of the configuration.
        """
        model = cls(config)
        weights = encoder.state_dict()
        if config.pool != "pooler":
            weights = {name: value for name, value in weights.items() if not name.startswith("pooler.")}
        model.encoder.load_state_dict(weights)
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """Draw what the encoder does not draw itself: word embeddings as TextCNN's paper has it, the rest as torch."""
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -0.25, 0.25)
            init.zeros_(module.weight[PAD])
        elif isinstance(module, (nn.Linear, nn.Conv1d)):
            bound = module.weight[0].numel() ** -0.5
            for parameter in module.parameters():
                init.uniform_(parameter, -bound, bound)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the logits of the classes (B, N).

        Args:
            input_ids: tokens (B, L), padded at the right.
            attention_mask: True or 1 for real tokens (B, L).
        """
        return self.classify(self.encode(input_ids, attention_mask))

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the vectors h of texts (B, d)."""
        return encode(self.encoder, input_ids, attention_mask, self.config.pool)

    def classify(self, h: Tensor) -> Tensor:
        """Return the logits (B, N) of vectors h (B, d)."""
        return self._logits(h, self._projected(h) if self.reads_head else None)

    def _projected(self, h: Tensor) -> Tensor | None:
        """Return h' (B, dproj); None for a model without a head."""
        return None if self.head is None else self.head(h)

    def _logits(self, h: Tensor, projected: Tensor | None) -> Tensor:
        return self.classifier(self.dropout(projected if self.reads_head else h))

    def train_views(self, input_ids: Tensor, attention_mask: Tensor) -> Views:
        """Return what a training step needs of M texts.

        Without a contrast that is one view and nothing more; with ``ce_views: both`` it is two, and logits of both:
        what a contrast costs, spent on the cross-entropy.

        Args:
            input_ids: tokens (M, L), padded at the right.
            attention_mask: True or 1 for real tokens (M, L).
        """
        config, count = self.config, len(input_ids)
        if config.views == 1:
            return Views(self(input_ids, attention_mask), None)
        if config.contrasts and CONTRASTS[config.contrast["kind"]].reads_tokens:
            h, vectors = self._token_views(input_ids, attention_mask)
            return Views(self.classify(h if config.ce_views == "both" else h[:count]), vectors)
        h = self._views(input_ids, attention_mask)  # (V M, d)
        if not config.contrasts:
            return Views(self.classify(h), None)
        projected = self._projected(h)  # (V M, dproj)
        read = slice(None) if config.ce_views == "both" else slice(count)
        logits = self._logits(h[read], None if projected is None else projected[read])
        return Views(logits, h if config.contrast["vectors"] == "pooled" else projected)

    def _views(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Vectors of all views (V M, d), each with a dropout mask of its own."""
        rates = self.config.contrast["dropouts"]
        if not rates:  # two views in one pass
            return self.encode(input_ids.repeat(2, 1), attention_mask.repeat(2, 1))
        views = [self.encode(input_ids, attention_mask)]
        for rate in rates:
            with dropout_rate(self.encoder, rate):
                views.append(self.encode(input_ids, attention_mask))
        return torch.cat(views)

    def _token_views(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of two views (2 M, d), and those of their first T tokens behind the head, joined (2 M, T dproj)."""
        count, mask = self.config.contrast["tokens"], attention_mask.repeat(2, 1) != 0
        h, states = encode_with_tokens(self.encoder, input_ids.repeat(2, 1), mask, self.config.pool)
        assert self.head is not None  # from __init__
        tokens = self.head(states[:, :count]).masked_fill(~mask[:, :count].unsqueeze(-1), 0.0)
        return h, F.pad(tokens, (0, 0, 0, count - tokens.shape[1])).flatten(1)


def first_distance(config: ClldConfig) -> Tensor:
    """Return the label distance matrix that a training begins with (N, N)."""
    kind, tau = config.distance["kind"], config.distance["tau"]
    if kind == "given":
        return given_distance(config.distance["given"], config.n_classes)
    if kind == "static_tau_pairs":
        return static_tau_pairs(config.n_classes, [(a, b) for a, b in config.distance["pairs"]], tau)
    if kind == "static_tau_all":
        return static_tau_all(config.n_classes, tau)
    return uniform_distance(config.n_classes)
