"""Train the S-Tagger, which tells the primary words of a source without its target (IANet+S).

Reads tables examples, tokens and psi of a data set; learns the labels of mode xy on training sources
and is selected on validation sources. Writes artifacts/DATASET/s_tagger/ (Hugging Face layout), table s_tags with
the tags of every source text, and its metrics.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from torch import nn

from keycontrast.files import atomic_folder, sha256_of
from models.common.precision import products
from models.common.task import Bar, CheckpointStore, Criterion, Settings
from models.common.training import fit
from models.keywords.s_tagger import STagger, STaggerConfig, TaggedText, TagTask
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
from stages.psi.importance.texts import WordTexts, read_words
from stages.psi.tagging.sources import labelled_sources, vocabulary, word_ids
from stages.psi.tagging.tagger import TrainedTagger, model_card, tag, tag_columns, tagger_metrics, word_tokenizer
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory

STAGE = "s_tagger"


def run(examples: pd.DataFrame, lower: WordTexts, psi: pa.Table, values: Mapping[str, Any], seed: int,
        store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedTagger:
    """Train a tagger on training sources and tag every source of ``examples``.

    Args:
        examples: table ``examples``.
        lower: the words of the texts.
        psi: table ``psi`` (columns ``text_id``, ``mode``, ``pair`` and ``primary`` suffice).
        values: plain values of the params block ``s_tagger``.
        seed: fans out by name into the order of training.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: no labelled words in a split, or tables of different texts.
    """
    train, validation = (labelled_sources(examples, lower, psi, split) for split in ("train", "validation"))
    words = vocabulary(lower, sorted({source for source, _ in train}), values["min_count"])
    ids = word_ids(lower.words, words)
    tagger = STagger(STaggerConfig(len(words), values["embedding"], values["hidden"], values["layers"]))
    nn.Module.to(tagger, device)
    items = [[TaggedText(ids[lower.of(source)], labels) for source, labels in part] for part in (train, validation)]
    task = TagTask(tagger, items[0], items[1], values["learning_rate"], values["batch_size"])
    settings = Settings(epochs=values["epochs"], batch_size=values["batch_size"], optimiser="adam",
                        clip=values["clip"], precision=values["precision"], select=(Criterion("loss"),))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    sources = np.unique(examples["source_id"].to_numpy(dtype=np.int64))
    with products(device, values["precision"]):
        probabilities = tag(tagger, [ids[lower.of(source)] for source in sources], values["batch_size"])
    return TrainedTagger(tagger, words, sources, probabilities, tagger_metrics(history, task, len(words)))


def _write(paths: DatasetPaths, trained: TrainedTagger, values: Mapping[str, Any], provenance: Provenance) -> None:
    with atomic_folder(paths.s_tagger) as folder:
        nn.Module.to(trained.tagger, "cpu").save_pretrained(folder)
        word_tokenizer(trained.words).save_pretrained(folder)
        (folder / "README.md").write_text(model_card(paths.name, values, trained.metrics), encoding="utf-8")
    provenance.models["s_tagger"] = {"name": paths.s_tagger.as_posix(),
                                     "sha256": sha256_of(paths.s_tagger / "model.safetensors")}
    columns = tag_columns(trained, read_table(paths.table("tokens"), columns=["text_id", "token"]))
    write_table(paths.table("s_tags"), S_TAGS, columns, provenance)
    write_json(paths.metrics(STAGE), trained.metrics)


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = [paths.table(kind) for kind in ("examples", "tokens", "psi")]
    examples = read_frame(tables[0], EXAMPLES)
    lower = read_words(read_batches(tables[1], TOKENS, ["text_id", "token"]), str.lower)
    psi = read_table(tables[2], columns=["text_id", "mode", "pair", "primary"])
    values = params.s_tagger.plain()
    trained, precision, store = fit_of_data_set(process, values, tables, lambda store, device, open_bar: run(
        examples, lower, psi, values, params.seed, store, device, open_bar))
    trained.tagger.config.computed_in = precision
    provenance = Provenance(process.name, process.params_hash, read_metadata(tables[2]).get("models", {}),
                            precision=precision)
    _write(paths, trained, values, provenance)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
