"""Word vectors of a data set's vocabulary: from a file, or trained on its training split."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, SPLITS, WORD_VECTORS
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, read_batches, read_frame, write_json, write_table
from stages.common.text_tables import TOKENS
from stages.common.word_vectors import read_vectors, train_skip_gram, training_description
from stages.psi.texts import Texts, found_form, read_words
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.psi.params import WordVectors

STAGE = "word_vectors"


def run(tokens: Iterable[pa.Table], examples: pd.DataFrame, params: "WordVectors",
        seed: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return table ``word_vectors`` of the vocabulary of ``tokens``, where it comes from, and its metrics."""
    written, by_split = read_words(tokens), split_texts(examples)
    if params.source == "train":
        words, vectors = _trained(written, by_split["train"], params, seed)
        settings = {name: value for name, value in dict(params).items() if name not in ("source", "path")}
        description, duplicates = training_description(**settings), 0
    else:
        path = Path(params.source.removeprefix("path:"))
        read = read_vectors(path, {form for token in written.vocabulary for form in (token.lower(), token)})
        if not read.words:
            raise InputError(f"word_vectors.source: {path} has a vector for none of the data set's "
                             f"{len(written.vocabulary)} words. Is it of another language?")
        known = set(read.words)
        used = {found_form(token, known) for token in written.vocabulary}
        kept = [place for place, word in enumerate(read.words) if word in used]
        words, vectors, duplicates = [read.words[place] for place in kept], read.vectors[kept], read.duplicates
        description = {"origin": f"file {path.name}", "sha256": sha256_of(path), "layout": read.layout,
                       "words_in_file": read.lines, "size": vectors.shape[1]}
    row = {word: number for number, word in enumerate(words)}
    forms = [found_form(token, row) for token in written.vocabulary]
    rows = np.array([-1 if form is None else row[form] for form in forms], dtype=np.int64)
    counts = {split: _counts(written, text_ids) for split, text_ids in by_split.items()}
    uses = np.bincount(rows[rows >= 0], counts["train"][rows >= 0], minlength=len(words)).astype(np.int64)
    return {"word": words, "count": uses, "vector": list(vectors)}, description, {
        "words": len(words), "size": int(vectors.shape[1]), "origin": description["origin"],
        "duplicates": duplicates, "coverage": {split: {
            "tokens": _share(count[rows >= 0], count), "distinct_tokens": _share(count[rows >= 0] > 0, count > 0)}
            for split, count in counts.items()}}


def split_texts(examples: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return, for each split, the sorted ids of the texts of its examples: source, targets, negative."""
    ids = {}
    for split in SPLITS:
        rows = examples[examples["split"] == split]
        named = [rows["source_id"], rows["target_id"], rows["negative_id"].dropna(),
                 rows["reference_ids"].explode().dropna()]
        ids[split] = np.unique(np.concatenate([column.to_numpy(dtype=np.int64) for column in named]))
    return ids


def _counts(written: Texts, text_ids: np.ndarray) -> np.ndarray:
    """Return how often each word occurs in some texts."""
    member = np.zeros(len(written.ids), dtype=bool)
    member[written.positions(text_ids)] = True
    return np.bincount(written.words[np.repeat(member, written.lengths)], minlength=len(written.vocabulary))


def _share(part: np.ndarray, total: np.ndarray) -> float | None:
    return round(float(part.sum() / total.sum()), 6) if total.sum() else None


def _trained(written: Texts, text_ids: np.ndarray, params: "WordVectors",
             seed: int) -> tuple[list[str], np.ndarray]:
    """Train on the lower-cased training texts, in the order of their ids; white space is no word."""
    lower = [token.lower() for token in written.vocabulary]
    sentences = [[lower[word] for word in written.of(text) if not lower[word].isspace()] for text in text_ids]
    try:
        return train_skip_gram(sentences, params.size, params.window, params.min_count, params.epochs,
                               derived_seed(seed, STAGE), params.isotropic)
    except ValueError as error:
        raise InputError(f"table examples: the training split is too small for word vectors: {error}. Lower "
                         f"word_vectors.min_count (now {params.min_count}), or give more data.") from error


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    columns, description, metrics = run(read_batches(paths.table("tokens"), TOKENS, ["text_id", "token"]),
                                        read_frame(paths.table("examples"), EXAMPLES), params.word_vectors,
                                        params.seed)
    process.log.info("%s: %d words, %s", description["origin"], metrics["words"],
                     ", ".join(f"{split} {share['tokens']}" for split, share in metrics["coverage"].items()))
    write_table(paths.table(STAGE), WORD_VECTORS, columns, Provenance(
        process.name, process.params_hash, {"word_vectors": description}, metrics))
    write_json(paths.metrics(STAGE), metrics)


main = partial(run_stage, STAGE, _work)
