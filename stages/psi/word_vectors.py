"""Word vectors of a data set's vocabulary: from a file, or trained on its training split.

Reads tables examples and tokens of a data set; writes table word_vectors, whose metadata say where the
vectors come from, and metrics/word_vectors.json with the share of the texts' words that have one.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, WORD_VECTORS
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, read_batches, read_frame, write_json, write_table
from stages.common.text_tables import TOKENS
from stages.common.word_vectors import train_skip_gram, training_description
from stages.psi.importance.vocabulary import Vocabulary, found_form, read_vocabulary, vectors_of_tokens
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.psi.params import WordVectors

STAGE = "word_vectors"


@dataclass(frozen=True)
class Made:
    """What the stage makes: the table ``word_vectors``, where it comes from, and its counts."""

    columns: dict[str, Any]
    description: dict[str, Any]
    metrics: dict[str, Any]


def run(tokens: Iterable[pa.Table], examples: pd.DataFrame, params: "WordVectors", seed: int) -> Made:
    """Return the vectors of the vocabulary of ``tokens``.

    Args:
        tokens: pieces of table ``tokens`` in its order (columns ``text_id`` and ``token`` suffice).
        examples: table ``examples``, which says what the training split is.
        params: block ``word_vectors``.
        seed: the project's.

    Raises:
        InputError: nothing to train on, or a file that cannot be read or has none of the words.
    """
    vocabulary = read_vocabulary(tokens, examples)
    if params.source == "train":
        words, vectors = _trained(vocabulary, params, seed)
        settings = {name: value for name, value in dict(params).items() if name not in ("source", "path")}
        description, duplicates = training_description(**settings), 0
    else:
        path = Path(params.source.removeprefix("path:"))
        read = vectors_of_tokens(path, vocabulary.words)
        words, vectors, duplicates = read.words, read.vectors, read.duplicates
        description = {"origin": f"file {path.name}", "sha256": sha256_of(path), "layout": read.layout,
                       "words_in_file": read.lines, "size": vectors.shape[1]}
    return _made(vocabulary, words, vectors, description, duplicates)


def _trained(vocabulary: Vocabulary, params: "WordVectors", seed: int) -> tuple[list[str], np.ndarray]:
    """Train on the lower-cased training texts, in the order of their ids; white space is no word."""
    lower = [token.lower() for token in vocabulary.words]
    texts = vocabulary.texts
    sentences = [[lower[word] for word in texts.words[texts.offsets[place]:texts.offsets[place + 1]]
                  if not lower[word].isspace()]
                 for place in texts.positions(vocabulary.by_split["train"])]
    try:
        return train_skip_gram(sentences, params.size, params.window, params.min_count, params.epochs,
                               derived_seed(seed, STAGE), params.isotropic)
    except ValueError as error:
        raise InputError(f"table examples: the training split is too small for word vectors: {error}. Lower "
                         f"word_vectors.min_count (now {params.min_count}), or give more data.") from error


def _made(vocabulary: Vocabulary, words: list[str], vectors: np.ndarray, description: dict[str, Any],
          duplicates: int) -> Made:
    row = {word: number for number, word in enumerate(words)}
    of_token = [found_form(token, row) for token in vocabulary.words]
    rows = np.array([-1 if form is None else row[form] for form in of_token], dtype=np.int64)
    counts = {split: vocabulary.counts(split) for split in vocabulary.by_split}
    uses = np.bincount(rows[rows >= 0], counts["train"][rows >= 0], minlength=len(words)).astype(np.int64)
    columns = {"word": words, "count": uses, "vector": list(vectors)}
    shares = {split: _coverage(count, rows >= 0) for split, count in counts.items()}
    metrics = {"words": len(words), "size": int(vectors.shape[1]), "origin": description["origin"],
               "duplicates": duplicates, "coverage": shares}
    return Made(columns, description, metrics)


def _coverage(count: np.ndarray, known: np.ndarray) -> dict[str, float | None]:
    """Return the shares of running words, and of distinct ones as written, that have a vector."""
    def share(part: np.ndarray, whole: np.ndarray) -> float | None:
        return round(float(part.sum() / whole.sum()), 6) if whole.sum() else None

    there = count > 0
    return {"tokens": share(count[known], count), "distinct_tokens": share(there[known], there)}


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    made = run(read_batches(paths.table("tokens"), TOKENS, ["text_id", "token"]),
               read_frame(paths.table("examples"), EXAMPLES), params.word_vectors, params.seed)
    process.log.info("%s: %d words, %s", made.description["origin"], made.metrics["words"],
                     ", ".join(f"{split} {share['tokens']}" for split, share in made.metrics["coverage"].items()))
    write_table(paths.table(STAGE), WORD_VECTORS, made.columns, Provenance(
        process.name, process.params_hash, {"word_vectors": made.description},
        made.metrics))
    write_json(paths.metrics(STAGE), made.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
