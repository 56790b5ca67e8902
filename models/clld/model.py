"""CLLD's classifier: a shared encoder, a linear classifier, and a head whose vectors are contrasted in training."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from models.clld.config import ClldConfig
from models.clld.contrasts import CONTRASTS
from models.clld.encoders import build_encoder, dropout_rate, encode
from models.clld.label_distance import static_tau_all, static_tau_pairs, uniform_distance
from models.clld.textcnn import PAD, TextCnn


@dataclass(frozen=True)
class Views:
    """What a training step computes of M texts.

    Attributes:
        logits: of the classes (M, N): first views; (V M, N) with ``ce_views: both``.
        vectors: to be contrasted (V M, dproj), all first views before all second views; None for CT.
    """

    logits: Tensor
    vectors: Tensor | None


class ClldModel(PreTrainedModel):
    """Classifier of texts, trained with a contrast between classes (CLLD, section III; METHODS D.1).

    Symbols: M texts, N classes, h the vector of a text (d), h' = MLP(h), two layers with ReLU in between. The
    classifier is dropout and a linear layer on h. Only it is used once trained; the head and the label distance
    matrix ``ldm`` (a buffer, N x N) serve the contrast.

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
        self.classifier = nn.Linear(width, config.n_classes)
        self.head: nn.Module | None = None
        if config.contrasts and config.contrast["vectors"] == "head":
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
        return self.classifier(self.dropout(h))

    def train_views(self, input_ids: Tensor, attention_mask: Tensor) -> Views:
        """Return what a training step needs of M texts; without a contrast, one view and nothing more.

        Args:
            input_ids: tokens (M, L), padded at the right.
            attention_mask: True or 1 for real tokens (M, L).
        """
        if not self.config.contrasts:
            return Views(self(input_ids, attention_mask), None)
        h = self._views(input_ids, attention_mask)  # (V M, d)
        classified = h if self.config.ce_views == "both" else h[:len(input_ids)]
        logits = self.classify(classified)
        return Views(logits, h if self.head is None else self.head(h))

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


def first_distance(config: ClldConfig) -> Tensor:
    """Return the label distance matrix that a training begins with (N, N)."""
    kind, tau = config.distance["kind"], config.distance["tau"]
    if kind == "static_tau_pairs":
        return static_tau_pairs(config.n_classes, [(a, b) for a, b in config.distance["pairs"]], tau)
    if kind == "static_tau_all":
        return static_tau_all(config.n_classes, tau)
    return uniform_distance(config.n_classes)
