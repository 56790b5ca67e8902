"""CLLD's classifier: a shared encoder, a linear classifier, and a head whose vectors are contrasted in training."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from models.clld.config import DROPOUT, SUPCL_SEQ_DROPOUTS, ClldConfig
from models.clld.encoders import build_encoder, dropout_rate, encode
from models.clld.label_distance import static_tau_pairs
from models.clld.textcnn import PAD, TextCnn

_PROJECTION = 128  # width of what leaves the head


@dataclass(frozen=True)
class Views:
    """What a training step computes of M texts.

    Attributes:
        logits: of the classes (M, N): first views; (V M, N) with ``ce_views: both``, all first views before the others.
        vectors: to be contrasted (V M, dproj), in that order too; None for CT.
    """

    logits: Tensor
    vectors: Tensor | None


class ClldModel(PreTrainedModel):
    """Classifier of texts, trained with a contrast between classes (CLLD section III).

    Symbols: M texts, N classes, h the vector of a text (d), h' = MLP(h), two layers with ReLU in between. The
    classifier is dropout and a linear layer on h. The label distance matrix ``ldm`` (a buffer, N x N) and the head
    serve the contrast alone; SupCL-Seq contrasts h, and has no head.

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
            self.encoder = build_encoder(config.encoder)
            width = self.encoder.config.hidden_size
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(width, config.n_classes)
        self.head: nn.Module | None = None
        if config.contrast["kind"] not in ("none", "supervised"):
            # Behind the classifier, and without moving the generator that draws it: all rows of a table begin alike.
            with torch.random.fork_rng(devices=[]):
                self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _PROJECTION))
        if config.contrast["kind"] == "label_distance":
            pairs = [(a, b) for a, b in config.distance["pairs"]]
            self.register_buffer("ldm", static_tau_pairs(config.n_classes, pairs))  # of ones without pairs
        self.post_init()

    @classmethod
    def over(cls, config: ClldConfig, encoder: PreTrainedModel) -> Self:
        """Build a model to train: the weights of ``encoder``, the rest random.

        Args:
            config: with ``encoder=plain_config(encoder.config)``.
            encoder: any encoder of the library; its pooler is left out.

        Raises:
            RuntimeError: the weights are not those of the configuration.
        """
        model = cls(config)
        weights = {name: value for name, value in encoder.state_dict().items() if not name.startswith("pooler.")}
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
        """Return what a training step needs of M texts.

        Without a contrast that is one view and nothing more; with ``ce_views: both`` it is two, and logits of both:
        what a contrast costs, spent on the cross-entropy.

        Args:
            input_ids: tokens (M, L), padded at the right.
            attention_mask: True or 1 for real tokens (M, L).
        """
        if self.config.views == 1:
            return Views(self(input_ids, attention_mask), None)
        h = self._views(input_ids, attention_mask)  # (V M, d)
        vectors = None if not self.config.contrasts else h if self.head is None else self.head(h)
        return Views(self.classify(h if self.config.ce_views == "both" else h[:len(input_ids)]), vectors)

    def _views(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Vectors of all views (V M, d), each with a dropout mask of its own."""
        if self.config.contrast["kind"] != "supervised":  # two views in one pass
            return self.encode(input_ids.repeat(2, 1), attention_mask.repeat(2, 1))
        views = [self.encode(input_ids, attention_mask)]
        for rate in SUPCL_SEQ_DROPOUTS:
            with dropout_rate(self.encoder, rate):
                views.append(self.encode(input_ids, attention_mask))
        return torch.cat(views)
