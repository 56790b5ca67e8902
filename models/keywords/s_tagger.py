"""The S-Tagger: predicts from a source alone which of its words are primary (IANet)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig, PreTrainedModel
from transformers import initialization as init

from models.common.recurrent import recurrent
from models.common.task import Step, Task

LABELS = {0: "secondary", 1: "primary"}
PAD, UNKNOWN = 0, 1
_IGNORED = -100  # label of padding
# Words by [label, answer].
_CELLS = {"right secondary": (0, 0), "wrong primary": (0, 1), "wrong secondary": (1, 0), "right primary": (1, 1)}


class STaggerConfig(PretrainedConfig):
    """Configuration of :class:`STagger`."""

    model_type = "keycontrast-s-tagger"

    def __init__(self, vocab_size: int = 2, embedding_size: int = 300, hidden_size: int = 512,
                 num_hidden_layers: int = 2, **kwargs: Any) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        kwargs.update(pad_token_id=PAD, id2label=LABELS, label2id={name: label for label, name in LABELS.items()})
        super().__init__(**kwargs)


class STagger(PreTrainedModel):
    """Stacked LSTM over word embeddings, left to right and without dropout, with two logits per word."""

    config: STaggerConfig
    config_class = STaggerConfig
    base_model_prefix = "s_tagger"
    main_input_name = "input_ids"

    def __init__(self, config: STaggerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=PAD)
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size, config.num_hidden_layers, batch_first=True)
        self.classifier = nn.Linear(config.hidden_size, len(LABELS))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Draw the initial weights as torch draws them."""
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight)
            init.zeros_(module.weight[PAD])
        elif isinstance(module, (nn.LSTM, nn.Linear)):
            width = module.hidden_size if isinstance(module, nn.LSTM) else module.in_features
            for parameter in module.parameters():
                init.uniform_(parameter, -width**-0.5, width**-0.5)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the logits (B, L, 2) of secondary and primary for word ids (B, L), padded at the right."""
        states, _ = recurrent(self.lstm, self.embedding(input_ids))  # (B, L, hidden)
        return self.classifier(states)


@dataclass(frozen=True)
class TaggedText:
    """The words of a text as ids, and the label of each, 1 if it is primary; int64 arrays of one length."""

    ids: np.ndarray
    labels: np.ndarray


@dataclass
class TagTask(Task):
    """Training of an S-Tagger, for :func:`models.common.training.fit`."""

    module: STagger
    train: Sequence[TaggedText]
    validation: Sequence[TaggedText]
    learning_rate: float
    batch_size: int

    def tensors(self, rows: Sequence[TaggedText]) -> dict[str, Tensor]:
        """Return ``ids`` and ``labels`` (B, L) of the words of texts; losses ignore the labels of padding."""
        ids, labels = ([torch.from_numpy(getattr(text, name)) for text in rows] for name in ("ids", "labels"))
        return {"ids": pad_sequence(ids, True, PAD), "labels": pad_sequence(labels, True, _IGNORED)}

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the cross-entropy per word, and in the accuracy, of the batch."""
        words = sum(len(self.train[item].ids) for item in step.batch)
        loss, counts = self._loss_and_counts(batch)
        return loss / words, {"accuracy": (counts[0, 0] + counts[1, 1]) / words}

    def validate(self) -> dict[str, float]:
        """Return cross-entropy per word (nats), accuracy, and precision, recall and F1 of primary words."""
        def sums(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
            loss, counts = self._loss_and_counts(batch)
            return {"loss": loss, **{name: counts[cell] for name, cell in _CELLS.items()}}

        total = self.validation_sums(sums)
        counts = torch.tensor([total[name] for name in _CELLS]).long().view(2, 2)
        return {"loss": total["loss"] / int(counts.sum()), **primary_scores(counts)}

    def _loss_and_counts(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the sum of the cross-entropies of all words, and the number of words by label and answer (2, 2)."""
        labels = batch["labels"].flatten()
        logits = self.module(batch["ids"]).flatten(0, 1)  # (B L, 2)
        pairs = 2 * labels + logits.detach().argmax(-1)  # (B L,), below 0 at padding
        counts = (pairs.unsqueeze(-1) == torch.arange(4, device=pairs.device)).sum(0).view(2, 2)
        return cross_entropy(logits.float(), labels, reduction="sum", ignore_index=_IGNORED), counts


def primary_scores(counts: Tensor) -> dict[str, float]:
    """Return accuracy, and precision, recall and F1 of primary, from counts [label, answer] (2, 2); 0 / 0 is 0."""
    right, missed, wrong = int(counts[1, 1]), int(counts[1, 0]), int(counts[0, 1])
    return {"accuracy": (right + int(counts[0, 0])) / max(1, int(counts.sum())),
            "precision": right / max(1, right + wrong), "recall": right / max(1, right + missed),
            "f1": 2 * right / max(1, 2 * right + wrong + missed)}
