"""Train the S-Tagger, which predicts the primary words of a source without its target (IANet+S).

It learns the labels of mode xy of table psi on training sources and is selected on validation sources.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from torch import nn
from transformers import PreTrainedTokenizerFast

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder, sha256_of
from keycontrast.text.batches import fixed_chunks
from models.common.losses import products
from models.common.training import Bar, CheckpointStore, Criterion, History, Settings, fit
from models.keywords.s_tagger import LABELS, STagger, STaggerConfig, TaggedText, TagTask, primary_scores
from stages.common.examples import reference_pairs
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, S_TAGS
from stages.common.seeds import derived_seed
from stages.common.tables import (
    Provenance,
    read_batches,
    read_frame,
    read_metadata,
    read_table,
    write_json,
    write_table,
)
from stages.common.text_tables import TOKENS
from stages.common.training import fit_of_data_set
from stages.psi.texts import STALE, Texts, read_words
from stages.run.process import StageProcess, run_stage

STAGE = "s_tagger"
_PAIRS = pa.schema([EXAMPLES.arrow().field(name) for name in ("source_id", "reference_ids")])
SPECIAL = ("[PAD]", "[UNK]")  # by id; words follow, the most frequent first


def run(examples: pd.DataFrame, lower: Texts, psi: pa.Table, values: Mapping[str, Any], seed: int,
        store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None
        ) -> tuple[STagger, list[str], dict[str, Any], dict[str, Any]]:
    """Train a tagger on training sources and tag every source of ``examples``.

    Returns the tagger, its words by id, columns of table ``s_tags``, and metrics.
    """
    train, validation = (labelled_sources(examples, lower, psi, split) for split in ("train", "validation"))
    words = vocabulary(lower, sorted({source for source, _ in train}), values["min_count"])
    ids = word_ids(lower.vocabulary, words)
    tagger = STagger(STaggerConfig(len(words), values["embedding"], values["hidden"], values["layers"]))
    nn.Module.to(tagger, device)
    items = [[TaggedText(ids[lower.of(source)], labels) for source, labels in part] for part in (train, validation)]
    task = TagTask(tagger, items[0], items[1], values["learning_rate"], values["batch_size"])
    settings = Settings(epochs=values["epochs"], batch_size=values["batch_size"], schedule="constant",
                        clip=values["clip"], precision=values["precision"], select=(Criterion("loss"),))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    sources = np.unique(examples["source_id"].to_numpy(dtype=np.int64))
    with products(device, values["precision"]):
        probabilities = tag(tagger, [ids[lower.of(source)] for source in sources], values["batch_size"])
    columns = {"text_id": sources, "probability": probabilities,
               "primary": [probability > 0.5 for probability in probabilities]}
    return tagger, words, columns, tagger_metrics(history, task, len(words))


def labelled_sources(examples: pd.DataFrame, lower: Texts, psi: pa.Table,
                     split: str) -> list[tuple[int, np.ndarray]]:
    """Return (text id, 1 for each primary word and 0 for the others) of the sources of ``split`` that have words.

    A source occurs once per reference, as in the training of the models that read its tags.
    """
    rows = psi.filter(pc.equal(psi["mode"], "xy"))
    place = {pair: row for row, pair in enumerate(zip(rows["text_id"].to_pylist(), rows["pair"].to_pylist(),
                                                      strict=True))}
    if not place:
        raise InputError("table psi: no row is of mode xy, from which the S-Tagger learns. Add xy to psi.modes.")
    labelled = []
    chosen = examples[examples["split"] == split]
    for pair in map(tuple, reference_pairs(pa.Table.from_pandas(chosen, _PAIRS)).tolist()):
        if pair not in place:
            raise InputError(f"table psi: no row for text {pair[0]} with {pair[1]}. {STALE}")
        labels = rows["primary"][place[pair]].values.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(labels) != len(lower.of(pair[0])):
            raise InputError(f"table psi: text {pair[0]} has {len(labels)} words, and {len(lower.of(pair[0]))} in "
                             f"table tokens. {STALE}")
        if len(labels):
            labelled.append((pair[0], labels))
    if not labelled:
        raise InputError(f"table examples: the {split} split has no source with words. Give more data, or change "
                         f"ingest.validation and ingest.test.")
    return labelled


def vocabulary(lower: Texts, sources: list[int], min_count: int) -> list[str]:
    """Return the words by id: the special ones, then those of ``sources`` by falling count, equals by spelling."""
    counts = np.zeros(len(lower.vocabulary), dtype=np.int64)
    for source in sources:
        np.add.at(counts, lower.of(source), 1)
    kept = [(-int(count), word) for word, count in zip(lower.vocabulary, counts, strict=True) if count >= min_count]
    return [*SPECIAL, *(word for _, word in sorted(kept))]


def word_ids(lower_words: list[str], words: list[str]) -> np.ndarray:
    """Return the id of each lower-cased word."""
    number = {word: place for place, word in enumerate(words)}
    return np.array([number.get(word, 1) for word in lower_words], dtype=np.int64)


def tag(tagger: STagger, texts: list[np.ndarray], batch_size: int) -> list[np.ndarray]:
    """Return the float32 probability of being primary of every word of every text, given as ids.

    Chunks have fixed shapes, so that the bytes depend on ``batch_size`` alone.
    """
    probabilities = [np.zeros(0, dtype=np.float32)] * len(texts)
    lengths = [len(text) for text in texts]
    for chunk in fixed_chunks(lengths, batch_size, max(lengths, default=1) or 1):
        ids = torch.zeros(len(chunk.rows), chunk.width, dtype=torch.int64)
        for row, number in enumerate(chunk.rows):
            ids[row, :lengths[number]] = torch.from_numpy(texts[number])
        with torch.inference_mode():
            primary = tagger(ids.to(tagger.device)).float().softmax(-1)[..., 1].cpu().numpy()  # (B, L)
        for row, number in enumerate(chunk.items):
            probabilities[number] = primary[row, :lengths[number]].copy()
    return probabilities


def word_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words, for ``tokenizer(tokens, is_split_into_words=True)``."""
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token=SPECIAL[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[0], unk_token=SPECIAL[1])


def load_tagger(folder: Path) -> tuple[STagger, list[str]]:
    """Return a saved tagger in evaluation mode and its words by id."""
    if not (folder / "model.safetensors").exists():
        raise InputError(f"{folder}: no such artifact. Make it with `keycontrast run s_tagger`.")
    numbers = PreTrainedTokenizerFast.from_pretrained(folder).get_vocab()
    return STagger.from_pretrained(folder), sorted(numbers, key=lambda word: int(numbers[word]))


def tagger_metrics(history: History, task: TagTask, words: int) -> dict[str, Any]:
    """Return the metrics of a training: of the epoch kept, of the majority baseline, and of the data."""
    train, validation = (np.concatenate([text.labels for text in part]) for part in (task.train, task.validation))
    unknown = np.concatenate([text.ids for text in task.validation]) == 1
    return {**history.best, "best_epoch": history.best_epoch, "majority": majority(train, validation),
            "vocabulary": words, "training_texts": len(task.train), "validation_texts": len(task.validation),
            "primary_share": {"train": float(train.mean()), "validation": float(validation.mean())},
            "unknown_share": float(unknown.mean()), "history": history.rows}


def majority(train: np.ndarray, validation: np.ndarray) -> dict[str, Any]:
    """Return the scores on ``validation`` labels of the answer that is most frequent in ``train``.

    Its loss takes the add-one smoothed share of primary words in ``train`` as the probability of every word.
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
    baseline = metrics["majority"]
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
| always {baseline["answer"]} | {baseline["loss"]:.4f} | {baseline["accuracy"]:.4f} | {baseline["f1"]:.4f} |

Settings (Adam, constant learning rate):

{settings}
"""


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = [paths.table(kind) for kind in ("examples", "tokens", "psi")]
    examples = read_frame(tables[0], EXAMPLES)
    lower = read_words(read_batches(tables[1], TOKENS, ["text_id", "token"]), str.lower)
    psi = read_table(tables[2], columns=["text_id", "mode", "pair", "primary"])
    values = params.s_tagger.plain()
    trained, precision, store = fit_of_data_set(process, values, tables, lambda store, device, open_bar: run(
        examples, lower, psi, values, params.seed, store, device, open_bar))
    tagger, words, columns, metrics = trained
    tagger.config.computed_in = precision
    with atomic_folder(paths.s_tagger) as folder:
        nn.Module.to(tagger, "cpu").save_pretrained(folder)
        word_tokenizer(words).save_pretrained(folder)
        (folder / "README.md").write_text(model_card(paths.name, values, metrics), encoding="utf-8")
    model = {"name": paths.s_tagger.as_posix(), "sha256": sha256_of(paths.s_tagger / "model.safetensors")}
    provenance = Provenance(process.name, process.params_hash,
                            {**read_metadata(tables[2]).get("models", {}), "s_tagger": model}, precision=precision)
    tokens = read_table(tables[1], columns=["text_id", "token"])
    written = tokens.filter(pc.is_in(tokens["text_id"], pa.array(columns["text_id"]))).sort_by("text_id")
    write_table(paths.table("s_tags"), S_TAGS, {**columns, "word": written["token"]}, provenance)
    write_json(paths.metrics(STAGE), metrics)
    store.clear()


main = partial(run_stage, STAGE, _work)
