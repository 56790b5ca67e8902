"""A trained tagger: its tags, what it is worth, its card, and its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from keycontrast.errors import InputError
from keycontrast.text.batches import fixed_chunks
from models.common.task import History
from models.keywords.s_tagger import LABELS, STagger, TagTask, primary_scores
from stages.psi.tagging.sources import SPECIAL


@dataclass(frozen=True)
class TrainedTagger:
    """What :func:`run` makes: the tagger, its words by id, P(primary) of the words of every source, and metrics."""

    tagger: STagger
    words: list[str]
    sources: np.ndarray
    probabilities: list[np.ndarray]
    metrics: dict[str, Any]


def tag(tagger: STagger, texts: list[np.ndarray], batch_size: int) -> list[np.ndarray]:
    """Return the probability of being primary of every word of every text, given as ids; float32.

    Texts are cut into chunks of fixed shape, so that the bytes depend on ``batch_size`` alone.
    """
    found = [np.zeros(0, dtype=np.float32)] * len(texts)
    lengths = [len(text) for text in texts]
    for chunk in fixed_chunks(lengths, batch_size, max(lengths, default=1) or 1):
        ids = torch.zeros(len(chunk.rows), chunk.width, dtype=torch.int64)
        for row, number in enumerate(chunk.rows):
            ids[row, :lengths[number]] = torch.from_numpy(texts[number])
        with torch.inference_mode():
            primary = tagger(ids.to(tagger.device)).float().softmax(-1)[..., 1].cpu().numpy()  # (B, L)
        for row, number in enumerate(chunk.items):
            found[number] = primary[row, :lengths[number]].copy()
    return found


def tag_columns(trained: TrainedTagger, tokens: pa.Table) -> dict[str, Any]:
    """Return the columns of table ``s_tags``; ``tokens`` has the rows of every source (``text_id``, ``token``)."""
    chosen = tokens.filter(pc.is_in(tokens["text_id"], pa.array(trained.sources))).sort_by("text_id")
    return {"text_id": trained.sources, "word": chosen["token"], "probability": trained.probabilities,
            "primary": [probability > 0.5 for probability in trained.probabilities]}


def word_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words, for ``tokenizer(tokens, is_split_into_words=True)``."""
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token=SPECIAL[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[0], unk_token=SPECIAL[1])


def load_tagger(folder: Path) -> tuple[STagger, list[str]]:
    """Return a saved tagger in evaluation mode and its words by id.

    Raises:
        InputError: there is none in ``folder``.
    """
    if not (folder / "model.safetensors").exists():
        raise InputError(f"{folder}: no such artifact. Make it with `keycontrast stage s_tagger`.")
    numbers = PreTrainedTokenizerFast.from_pretrained(folder).get_vocab()
    return STagger.from_pretrained(folder), sorted(numbers, key=lambda word: int(numbers[word]))


def tagger_metrics(history: History, task: TagTask, words: int) -> dict[str, Any]:
    """Return the metrics of a training: those of the epoch kept, the majority's, and what was learned from."""
    train, validation = (np.concatenate([text.labels for text in part]) for part in (task.train, task.validation))
    unknown = np.concatenate([text.ids for text in task.validation]) == 1
    return {**history.best, "best_epoch": history.best_epoch, "majority": majority(train, validation),
            "vocabulary": words, "training_texts": len(task.train), "validation_texts": len(task.validation),
            "primary_share": {"train": float(train.mean()), "validation": float(validation.mean())},
            "unknown_share": float(unknown.mean()), "history": history.rows}


def majority(train: np.ndarray, validation: np.ndarray) -> dict[str, Any]:
    """Return the scores on ``validation`` labels of the answer that is most frequent in ``train``.

    Its loss is that of the share of primary words in ``train`` as everyone's probability (add-one smoothed).
    """
    share = (int(train.sum()) + 1) / (len(train) + 2)
    answer = int(share > 0.5)
    counts = torch.zeros(2, 2, dtype=torch.int64)
    counts[:, answer] = torch.from_numpy(np.bincount(validation, minlength=2))
    loss = -float(np.where(validation == 1, log(share), log(1 - share)).mean())
    return {"answer": LABELS[answer], "loss": loss, **primary_scores(counts)}


def model_card(dataset: str, values: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved tagger."""
    settings = "\n".join(f"- {name}: {value}" for name, value in sorted(values.items()))
    floor = metrics["majority"]
    return f"""---
library_name: transformers
pipeline_tag: token-classification
---
# S-Tagger of data set {dataset}

Says for every word of a sentence whether it is primary (class 1) or secondary (class 0), without the sentence's
paraphrase (IANet+S). It was trained on the words that paired semantic importance calls primary in view of the
paraphrase, {metrics["training_texts"]} training sources. Stacked LSTM, left to right, over lower-cased words; its
vocabulary of {metrics["vocabulary"]} is of those sources, and rarer words are read as [UNK].

On {metrics["validation_texts"]} validation sources, {metrics["primary_share"]["validation"]:.1%} of whose words are \
primary (epoch {metrics["best_epoch"]} of {values["epochs"]}):

|  | loss (nats per word) | accuracy | F1 of primary |
| --- | --- | --- | --- |
| tagger | {metrics["loss"]:.4f} | {metrics["accuracy"]:.4f} | {metrics["f1"]:.4f} |
| always {floor["answer"]} | {floor["loss"]:.4f} | {floor["accuracy"]:.4f} | {floor["f1"]:.4f} |

Settings (Adam; the learning rate falls linearly to 0):

{settings}
"""
