"""CLLD, Contrastive Learning with Label Distance for Text Classification, in the order of the paper.

Lines that compute an equation have its number; docs/clld.md states our readings of open points. Symbols: M texts in N
classes, h the vector of a view (d), LDM (N, N) the label distance matrix, d_ab >= 1 its entries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import initialization as init

from models.clld.settings import ModelSettings
from models.clld.textcnn import PAD, TextCnn
from models.common import filled
from models.common.encoders import load_encoder, portable
from models.common.losses import at_least_float32, masked_mean, pair_contrast
from models.common.task import Step, Task, batches_in_order
from models.common.transformer import embed

DROPOUT = 0.5  # before the classifier
TAU = 5.0  # distance of the pairs of a static matrix, and the largest of an adaptive one
_LAMBDA = 0.5  # weight of the cross-entropy; the contrast has the rest
_PROJECTION = 128  # width of the head's output
# Default temperature of each contrast, from its paper; CLLD states none, so it is 1.
_TEMPERATURES = {"label_distance": 1.0, "supervised": 0.05, "twin": 0.05}
# Of the encoder in the further views of SupCL-Seq (Sedghamiz et al. 2021); other contrasts have one such view, under
# the encoder's own dropout.
_SUPCL_SEQ_DROPOUTS = (0.0, 0.05, 0.2)


class ClldConfig(transformers.PretrainedConfig):
    """Configuration of :class:`ClldModel`; ``encoder`` is that of an encoder as a dict with ``model_type``."""

    model_type = "keycontrast-clld"

    def __init__(self, architecture: str = "encoder", classes: Sequence[str] | None = None,
                 encoder: Mapping[str, Any] | None = None, **settings: Any) -> None:
        own = {name: value for name in asdict(ModelSettings()) if (value := settings.pop(name, None)) is not None}
        model: ModelSettings = filled(ModelSettings(), {"architecture": architecture, **own})
        self.architecture, self.pool, self.ce_views = model.architecture, model.pool, model.ce_views
        self.contrast, self.distance, self.textcnn = model.contrast, model.distance, model.textcnn
        self.encoder = portable(encoder or {})
        if classes is not None:
            settings["id2label"] = dict(enumerate(classes))
            settings["label2id"] = {name: number for number, name in enumerate(classes)}
        super().__init__(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the groups nested."""
        groups = {name: asdict(getattr(self, name)) for name in ("contrast", "distance", "textcnn")}
        return {**super().to_dict(), **groups}

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        names: dict = dict(self.id2label or {})
        return [str(names[number]) for number in range(len(names))]

    @property
    def contrasts(self) -> bool:
        """Whether there is a contrast in the loss (CT has none)."""
        return self.contrast.kind != "none"

    @property
    def views(self) -> int:
        """How often a training step encodes a text."""
        if self.contrast.kind == "supervised":
            return 1 + len(_SUPCL_SEQ_DROPOUTS)
        return 2 if self.contrasts or self.ce_views == "both" else 1


# Section III-A: encoder, classifier and head


class ClldModel(transformers.PreTrainedModel):
    """Classifier of texts, dropout and a linear layer on h, trained with a contrast between classes.

    The contrast reads the head h' = MLP(h), for SupCL-Seq h itself, and the label distances ``ldm`` (a buffer).
    """

    config: ClldConfig
    config_class = ClldConfig
    base_model_prefix = "clld"
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: ClldConfig) -> None:
        super().__init__(config)
        if config.architecture == "textcnn":
            self.encoder: nn.Module = TextCnn(**asdict(config.textcnn))
            width = self.encoder.features
        else:
            if "model_type" not in config.encoder:
                raise ValueError("ClldConfig: encoder lacks model_type; give the to_dict() of the encoder's "
                                 "configuration")
            of_encoder = transformers.AutoConfig.for_model(**config.encoder)
            self.encoder = transformers.AutoModel.from_config(of_encoder, attn_implementation="sdpa",
                                                              add_pooling_layer=False, dtype=torch.float32)
            width = of_encoder.hidden_size
        classes = len(config.classes)
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(width, classes)
        self.head: nn.Module | None = None
        if config.contrast.kind not in ("none", "supervised"):
            # After the classifier and from a forked generator, so that all rows of a table start from equal weights.
            with torch.random.fork_rng(devices=[]):
                self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _PROJECTION))
        if config.contrast.kind == "label_distance":
            self.register_buffer("ldm", static_tau_pairs(classes, config.distance.pairs))
        self.post_init()

    @classmethod
    def over(cls, encoder: transformers.PreTrainedModel, classes: Sequence[str], **settings: Any) -> Self:
        """Return a model to train: the weights of ``encoder`` without its pooler, the rest random."""
        model = cls(ClldConfig("encoder", classes, encoder.config.to_dict(), **settings))
        model.encoder.load_state_dict({name: value for name, value in encoder.state_dict().items()
                                       if not name.startswith("pooler.")})
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """Draw word embeddings as in TextCNN's paper, and the other weights of this class as torch draws them."""
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -0.25, 0.25)
            init.zeros_(module.weight[PAD])
        elif isinstance(module, (nn.Linear, nn.Conv1d)):
            bound = module.weight[0].numel() ** -0.5
            for parameter in module.parameters():
                init.uniform_(parameter, -bound, bound)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the logits (B, N) of tokens (B, L), padded at the right; the mask is True or 1 for real ones."""
        return self.classify(self.encode(input_ids, attention_mask))

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the vectors h of texts (B, d)."""
        if isinstance(self.encoder, TextCnn):
            return self.encoder(input_ids, attention_mask)
        return embed(self.encoder, input_ids, attention_mask, self.config.pool)  # eq. 1, 2

    def classify(self, h: Tensor) -> Tensor:
        """Return the logits (B, N) of vectors h (B, d)."""
        return self.classifier(self.dropout(h))

    def train_views(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return logits (M, N), or of all V views (V M, N), and the contrasted vectors (V M, d'), None for CT."""
        if self.config.views == 1:
            return self(input_ids, attention_mask), None
        if self.config.contrast.kind == "supervised":
            views = [self.encode(input_ids, attention_mask)]
            for rate in _SUPCL_SEQ_DROPOUTS:
                with dropout_rate(self.encoder, rate):
                    views.append(self.encode(input_ids, attention_mask))
            h = torch.cat(views)  # (V M, d)
        else:  # both in one pass, each with a dropout mask of its own
            h = self.encode(input_ids.repeat(2, 1), attention_mask.repeat(2, 1))  # (2M, d)
        vectors = None if not self.config.contrasts else h if self.head is None else self.head(h)  # eq. 3
        return self.classify(h if self.config.ce_views == "both" else h[:len(input_ids)]), vectors


def load_text_encoder(source: str | Path, pretrained: bool = True
                      ) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load an encoder of the BERT family and its tokenizer; see :func:`models.common.encoders.load_encoder`."""
    config = transformers.AutoConfig.from_pretrained(source)
    # Two views of a text differ by dropout alone, and the published ALBERT has none. The papers' encoders have 0.1.
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1
    return load_encoder(source, config, pretrained)


@contextmanager
def dropout_rate(module: nn.Module, rate: float) -> Iterator[None]:
    """Set every dropout of ``module`` to this rate within the block."""
    own = [(part, part.p) for part in module.modules() if isinstance(part, nn.Dropout)]
    try:
        for part, _ in own:
            part.p = rate
        yield
    finally:
        for part, before in own:
            part.p = before


# Section III-B: the contrast


def label_distance_contrast(h: Tensor, labels: Tensor, ldm: Tensor, temperature: float = 1.0) -> Tensor:
    """Return L_s, a scalar >= 0: the mean KL(z, q), z equal shares for a vector's positives and q its softmax.

    Positives of a vector are the other vectors of its class. ``h`` (2M, d') are first views before second ones,
    ``labels`` (2M,) their classes, ``ldm`` (N, N). A vector without a positive is left out of the mean; if all are, the
    loss is 0, and so is its gradient.

    >>> h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> label_distance_contrast(h, torch.tensor([0, 1, 0, 1]), torch.ones(2, 2))
    tensor(0.7944)
    """
    (h,) = at_least_float32(h)
    if len(h) < 2:
        return 0.0 * h.sum()
    with torch.autocast(h.device.type, enabled=False):
        products = h @ h.t()
    norms = torch.linalg.vector_norm(h, dim=-1)  # (2M,)
    cosines = products / (norms.unsqueeze(1) * norms).clamp(min=1e-8)  # (2M, 2M); 0 for a vector of zeros
    distance = ldm.detach().to(h.dtype)[labels][:, labels] / temperature  # LDMM = Y LDM Y^T (eq. 7)
    scores = torch.addcmul(distance / 2, distance / 2, cosines)  # eq. 4, sim = (cosine + 1) / 2; eq. 8, sim LDMM
    mean_log_q, counts = log_share_of_positives(scores, labels)  # eq. 12
    # z (eq. 13) is 1 / |P| on |P| places, so the sum of z log z is -log |P|; z = 0 adds nothing
    divergence = counts.clamp(min=1).to(h.dtype).log() + mean_log_q  # -KL(z_i || q_i) (2M,)
    return -masked_mean(divergence, counts > 0)  # eq. 11


def log_share_of_positives(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of log q over the positives of each vector (K,), 0 without any, and their number (K,).

    q is the softmax of the scores (K, K) of a vector with all others.
    """
    positives = (labels.unsqueeze(1) == labels).fill_diagonal_(False)  # eq. 6
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    # after all products with the scores: a factor of 0 or below would turn -inf into another value
    log_q = scores.masked_fill(own, -torch.inf).log_softmax(-1)  # eq. 5 (K, K)
    counts = positives.sum(-1)
    # not a product: 0 * -inf is NaN, and so is its gradient
    sums = log_q.masked_fill(~positives, 0.0).sum(-1)
    return sums / counts.clamp(min=1), counts


def supervised_contrast(h: Tensor, labels: Tensor, temperature: float = 0.05) -> Tensor:
    """Return minus the mean log share of a vector's positives in the softmax over all others, the mean over vectors.

    SupCL-Seq (Sedghamiz et al. 2021), after Khosla et al. 2020, eq. 2 (L_out), of the vectors of all views (V M, d).
    """
    (h,) = at_least_float32(h)
    if len(h) < 2:
        return 0.0 * h.sum()
    unit = F.normalize(h, dim=-1)
    with torch.autocast(h.device.type, enabled=False):
        scores = unit @ unit.t() / temperature  # (V M, V M)
    mean_log_q, counts = log_share_of_positives(scores, labels)
    return masked_mean(-mean_log_q, counts > 0)


def twin_contrast(h: Tensor, temperature: float = 0.05) -> Tensor:
    """Return InfoNCE of the two views of a batch (2M, d), mean over texts: SimCSE (Gao et al. 2021), eq. 4."""
    first, second = h.chunk(2)
    return pair_contrast(first, second, temperature, "cosine").mean()


# Static label distances, and those that follow a model's confusions (Algorithm 1)


def static_tau_pairs(n_classes: int, pairs: Iterable[tuple[int, int]]) -> Tensor:
    """Return tau for ``pairs`` of classes, in both orders, and 1 elsewhere (N, N)."""
    ldm = torch.ones(n_classes, n_classes)
    for a, b in pairs:
        ldm[a, b] = ldm[b, a] = TAU
    return ldm


def counted_distance(confusion: Tensor) -> Tensor:
    """Return NEW = COUNT(CM) (N, N) float64, symmetric and in [1, tau], of counts [true, predicted].

    NEW_ij = 1 + (tau - 1) S_ij / max S with S = (P + P^T) / 2, P_ij the share of class i that is classified as j, and
    P_ii = 0 (Algorithm 1, lines 6-8). Without confusions NEW is 1 everywhere.
    """
    counts = confusion.double()
    # P; a class without a text has none
    shares = counts.clone().fill_diagonal_(0.0) / counts.sum(1, keepdim=True).clamp(min=1.0)
    symmetric = (shares + shares.t()) / 2
    largest = symmetric.max()
    return 1.0 + (TAU - 1.0) * symmetric / torch.where(largest > 0, largest, torch.ones_like(largest))


def update_label_distance(ldm: Tensor, confusion: Tensor, strength: float) -> Tensor:
    """Return LDM + e (NEW - LDM), without a gradient (Algorithm 1, line 10, which changes nothing as printed).

    >>> update_label_distance(torch.ones(2, 2), torch.tensor([[8, 2], [0, 10]]), strength=0.5)
    tensor([[1., 3.],
            [3., 1.]])
    """
    new = counted_distance(confusion).to(ldm.device)
    return torch.lerp(ldm.detach().double(), new, strength).to(ldm.dtype)  # exact at both ends


@dataclass(frozen=True)
class AdaptiveSchedule:
    """Schedule of an adaptive matrix (Algorithm 1): ten evaluations an epoch, every tenth an update (ours)."""

    epochs: int  # n, early stopping aside
    steps_per_epoch: int  # optimiser steps

    @property
    def interval(self) -> int:
        """Optimiser steps between evaluations, k."""
        return max(1, self.steps_per_epoch // 10)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all epochs."""
        return self.epochs * self.steps_per_epoch

    def updates(self, steps: int) -> bool:
        """Return whether the matrix is updated after so many optimiser steps: not in the first fifth of the epochs."""
        return steps % (10 * self.interval) == 0 and 5 * steps > self.total_steps

    def strength(self, steps: int) -> float:
        """Return e = 1 - steps / total steps."""
        return 1.0 - steps / self.total_steps


# Section III-C: training


@dataclass(frozen=True)
class LabelledTexts:
    """The texts of a split with their classes: tokenised once, padded in batches."""

    ids: Sequence[np.ndarray]  # tokens of each text, special ones included
    labels: np.ndarray  # class of each (n,) int64
    pad: int = 0

    @classmethod
    def of(cls, tokenizer: transformers.PreTrainedTokenizerBase, texts: Sequence[str], labels: Sequence[int],
           max_length: int) -> "LabelledTexts":
        """Tokenise ``texts``, if there are any, and cut them to ``max_length`` tokens, special ones included."""
        encoded = tokenizer(list(texts), truncation=True, max_length=max_length, return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"] if len(texts) else []
        ids = [np.asarray(row, dtype=np.int64) for row in encoded]
        return cls(ids, np.asarray(labels, dtype=np.int64), cast(int, tokenizer.pad_token_id))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text (n,)."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask`` (B, L), padded to the longest, and ``labels`` (B,)."""
        rows = [torch.from_numpy(self.ids[item]) for item in items]
        lengths = torch.tensor([len(row) for row in rows])
        ids = pad_sequence(rows, batch_first=True, padding_value=self.pad)
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.from_numpy(self.labels[list(items)])}


class ClldTask(Task):
    """Trains a CLLD classifier; the contrast L_s is computed over the step's whole batch."""

    module: ClldModel
    train: LabelledTexts
    validation: LabelledTexts  # never of the test split
    # Of the label distance matrix: evaluation (1-based), step, epoch, strength; the loss, accuracy, macro_f1 and
    # confusion of the validation; and ldm, the matrix after the update (both nested lists).
    updates: list[dict[str, Any]]

    def __init__(self, model: ClldModel, train: LabelledTexts, validation: LabelledTexts, learning_rate: float,
                 batch_size: int, schedule: AdaptiveSchedule | None = None) -> None:
        self.module, self.train, self.validation = model, train, validation
        self.learning_rate, self.batch_size, self.schedule = learning_rate, batch_size, schedule
        self.evaluate_every = None if schedule is None else schedule.interval
        self._by_length = np.argsort(validation.lengths, kind="stable")  # little padding in validation
        self.updates = []

    def lengths(self) -> list[int]:
        """Return the tokens of each training text."""
        return self.train.lengths.tolist()

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded tensors of ``items``; see :meth:`LabelledTexts.batch`."""
        return self.train.batch(items)

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation texts, which are numbered in the order of their lengths."""
        return self.validation.batch(self._by_length[list(items)].tolist())

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share in the loss of the step's batch, and its parts; with a contrast, only of whole batches."""
        entropy, parts, vectors = self._entropy(batch, step)
        if vectors is None:
            return entropy, parts
        parts["contrast"] = self._contrast(vectors, batch["labels"])
        return _LAMBDA * entropy + (1 - _LAMBDA) * parts["contrast"], parts  # eq. 9

    @property
    def contrasts(self) -> bool:
        """Whether the row has a contrast."""
        return self.module.config.contrasts

    def without_contrast(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the cross-entropy, its parts, and the vectors of each text's views, joined (M, V d')."""
        entropy, parts, vectors = self._entropy(batch, step)
        assert vectors is not None  # the row has a contrast
        by_view = vectors.unflatten(0, (self.module.config.views, -1))  # (V, M, d')
        return _LAMBDA * entropy, parts, by_view.transpose(0, 1).flatten(1)

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of the texts of a batch, of which ``vectors`` (B, V d') are the views."""
        labels = torch.from_numpy(self.train.labels[list(step.batch)])
        views = vectors.unflatten(1, (self.module.config.views, -1)).transpose(0, 1).flatten(0, 1)  # (V B, d')
        contrast = self._contrast(views, labels.to(vectors.device))
        return (1 - _LAMBDA) * contrast, {"contrast": contrast}

    def validate(self) -> dict[str, float]:
        """Return mean cross-entropy, accuracy and macro F1 over the validation texts."""
        return self.judge()[0]

    def judge(self) -> tuple[dict[str, float], Tensor]:
        """Return ``loss``, ``accuracy`` and ``macro_f1`` of the validation texts, and confusions [true, predicted]."""
        classes = len(self.module.config.classes)
        loss, cells = 0.0, torch.zeros(classes**2, dtype=torch.int64)
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            logits, labels = self.module(batch["input_ids"], batch["attention_mask"]), batch["labels"]
            loss += float(F.cross_entropy(logits.float(), labels, reduction="sum").double())
            cells += torch.bincount((classes * labels + logits.argmax(-1)).cpu(), minlength=classes**2)
        confusion = cells.view(classes, classes)
        right, counted = confusion.diagonal().double(), (confusion.sum(0) + confusion.sum(1)).double()
        return {"loss": loss / len(self.validation), "accuracy": int(right.sum()) / int(confusion.sum()),
                "macro_f1": float((2 * right / counted)[counted > 0].mean())}, confusion

    def evaluate(self, steps: int) -> dict[str, Any] | None:
        """Return the values and confusions after so many steps, if the matrix is then updated."""
        if self.schedule is None or not self.schedule.updates(steps):
            return None
        values, confusion = self.judge()
        return {**values, "confusion": confusion.tolist()}

    def on_evaluation(self, steps: int, values: dict[str, Any] | None) -> None:
        """Update the label distance matrix if it is due (Algorithm 1)."""
        if values is None or self.schedule is None:
            return
        schedule, ldm = self.schedule, cast(Tensor, self.module.ldm)
        strength = schedule.strength(steps)
        ldm.copy_(update_label_distance(ldm, torch.tensor(values["confusion"]), strength))
        self.updates.append({"evaluation": steps // schedule.interval, "step": steps,
                             "epoch": ceil(steps / schedule.steps_per_epoch), "strength": strength, **values,
                             "ldm": ldm.tolist()})

    def extra_state(self) -> dict[str, Any]:
        """Return the updates so far, for the checkpoint."""
        return {"updates": self.updates}

    def load_extra(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`extra_state`, which is empty before the first evaluation."""
        self.updates = list(state.get("updates", []))

    def _entropy(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """Return the share of a micro-batch in L_c of the batch, parts of the loss, and contrasted vectors."""
        labels, count = batch["labels"], len(step.batch)
        logits, vectors = self.module.train_views(batch["input_ids"], batch["attention_mask"])
        views = len(logits) // len(labels)
        entropy = F.cross_entropy(logits.float(), labels.repeat(views), reduction="sum") / views / count  # eq. 10
        right = (logits[:len(labels)].detach().argmax(-1) == labels).sum()
        return entropy, {"ce": entropy, "accuracy": right / count}, vectors

    def _contrast(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the contrast, a scalar, of the ``vectors`` (V M, d') of M texts, view after view."""
        contrast = self.module.config.contrast
        temperature = _TEMPERATURES[contrast.kind] if contrast.temperature is None else contrast.temperature
        if contrast.kind == "twin":
            return twin_contrast(vectors, temperature)
        classes = labels.repeat(len(vectors) // len(labels))  # in the order of the views (V M,)
        if contrast.kind == "supervised":
            return supervised_contrast(vectors, classes, temperature)
        return label_distance_contrast(vectors, classes, cast(Tensor, self.module.ldm), temperature)
