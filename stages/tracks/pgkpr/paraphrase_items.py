"""Join words, tags and keyword scores of each pair, and count the vocabulary (PGKPR; METHODS C.1-C.2).

Reads examples, texts, tokens and attribution of a data set, and psi, s_tags and textrank where a model reads them;
writes paraphrase_items.parquet with one row per example and reference, vocabulary.parquet, and counts.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SPLITS
from stages.artifacts.tables import Provenance, read_metadata, read_table, write_json, write_table
from stages.data.schemas.items import EXAMPLES
from stages.data.schemas.texts import TEXTS
from stages.data.schemas.tokens import TOKENS
from stages.keywords.schemas.methods import METHOD_TABLES
from stages.keywords.schemas.words import ATTRIBUTION, PSI, S_TAGS
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage
from stages.tracks.pgkpr.phrases import phrase_words
from stages.tracks.pgkpr.schemas import PARAPHRASE_ITEMS, VOCABULARY
from stages.tracks.pgkpr.vocabulary import PENN_WORD_TAGS, Vocabulary
from stages.tracks.pgkpr.words import STALE, TextWords, list_lengths, positions, read_words, within

if TYPE_CHECKING:
    from stages.params.pgkpr import ParaphraseItems

STAGE = "paraphrase_items"
# What is read of each table.
_READ = {EXAMPLES: ["example_id", "split", "source_id", "target_id", "reference_ids", "group"],
         TEXTS: ["text_id", "text", "language"], TOKENS: ["text_id", "token", "tag"],
         ATTRIBUTION: ["text_id", "mode", "pair", "score"], PSI: ["text_id", "mode", "pair", "primary"],
         S_TAGS: ["text_id", "primary"], METHOD_TABLES["textrank"]: ["text_id", "rank", "start", "end"]}
# Column of the items: table and column that it is from, and mode of the row (s_tags has but one per text).
_SCORES = {"score_xx": ("attribution", "score", "xx"), "score_xy": ("attribution", "score", "xy"),
           "primary_xx": ("psi", "primary", "xx"), "primary_xy": ("psi", "primary", "xy"),
           "primary_s": ("s_tags", "primary", None)}


@dataclass(frozen=True)
class Paraphrases:
    """What :func:`run` makes: table ``paraphrase_items``, the vocabulary, counts, and a sentence per fall-back."""

    items: pa.Table
    vocabulary: Vocabulary
    metrics: dict[str, Any]
    fallbacks: list[str]


@dataclass(frozen=True)
class Pairs:
    """Examples with each of their references, one row per pair (R,).

    Attributes:
        example: number of the example's row in table ``examples``.
        reference: 0 for the target, 1.. for further references.
        split: name of the split.
        source: text id.
        target: text id of the reference.
        left_out: examples and further references without a pair, because a text has no words.
    """

    example: np.ndarray
    reference: np.ndarray
    split: np.ndarray
    source: np.ndarray
    target: np.ndarray
    left_out: dict[str, int]


def run(tables: Mapping[str, pa.Table], params: "ParaphraseItems") -> Paraphrases:
    """Return the pairs of a data set as words with tags and keyword scores, and their vocabulary.

    An example whose source or target has no words is left out, and so is a further reference without words; both are
    counted. Every other example has a row for its target, with ``reference`` 0, and one for each further reference.

    Args:
        tables: ``examples``, ``texts``, ``tokens`` and ``attribution``; ``psi``, ``s_tags`` and ``textrank`` may be
            missing, and their columns are null then.
        params: how many words the vocabulary has, and how many of a text models read.

    Raises:
        InputError: scores of a mode or of a pair are missing, tables are of different texts, a score is not in
            [0, 1], or no training pair has words.
    """
    words = read_words(tables["tokens"])
    pairs = find_pairs(tables["examples"], words)
    if not (pairs.split == "train").any():
        raise InputError("examples.parquet: the train split has no pair with words on both sides. Read more data, or "
                         "give ingest.validation and ingest.test smaller shares.")
    examples, texts = tables["examples"], tables["texts"].sort_by("text_id")
    example, ids = pa.array(pairs.example), texts["text_id"].to_numpy()
    columns: dict[str, Any] = {name: examples[name].take(example) for name in ("example_id", "split", "group")}
    columns["reference"] = pairs.reference.astype(np.int32)
    for side, text_ids in (("source", pairs.source), ("target", pairs.target)):
        place = pa.array(words.positions(text_ids))
        columns |= {side: texts["text"].take(pa.array(positions(ids, text_ids, "texts.parquet"))),
                    f"{side}_words": words.words.take(place), f"{side}_tags": words.tags.take(place)}
    for name, (table, column, mode) in _SCORES.items():
        columns[name] = (scores_of(tables[table], table, column, mode, words, pairs) if table in tables
                         else pa.nulls(len(pairs.example), pa.list_(pa.bool_())))
    columns["primary_textrank"] = _of_phrases(tables.get("textrank"), words, pairs, columns["score_xx"])
    vocabulary = count_vocabulary(words, pairs, params.vocabulary, "en" in pc.unique(texts["language"]).to_pylist())
    return Paraphrases(pa.table(columns), vocabulary, _metrics(words, pairs, vocabulary, columns, params.max_length),
                       _fallbacks(pairs.left_out))


def find_pairs(examples: pa.Table, words: TextWords) -> Pairs:
    """Return each example with each of its references, but for texts without words.

    Raises:
        InputError: a text has no row in the tokens, or the first reference of an example is not its target.
    """
    source, target = (examples[name].to_numpy() for name in ("source_id", "target_id"))
    lengths = list_lengths(examples["reference_ids"])
    example, number = np.repeat(np.arange(len(source)), lengths), within(lengths)
    reference = pc.list_flatten(examples["reference_ids"]).to_numpy()
    first = number == 0
    wrong = np.append(np.flatnonzero(lengths == 0), example[first][reference[first] != target[example[first]]])
    if len(wrong):
        raise InputError(f"examples.parquet: the first of reference_ids is not the target of example "
                         f"{examples['example_id'][int(wrong[0])]} (and of {len(wrong) - 1} more). Run the stage "
                         f"ingest again.")
    wordless, empty = (words.lengths[words.positions(ids)] == 0 for ids in (source, reference))
    wordless = wordless | (words.lengths[words.positions(target)] == 0)
    taken = ~(wordless[example] | empty)
    left_out = {"examples": int(wordless.sum()), "references": int((empty & ~wordless[example]).sum())}
    split = np.array(examples["split"].to_pylist(), dtype=object)[example[taken]]
    return Pairs(example[taken], number[taken], split, source[example[taken]], reference[taken], left_out)


def scores_of(rows: pa.Table, table: str, column: str, mode: str | None, words: TextWords,
              pairs: Pairs) -> pa.ListArray:
    """Return, for each pair, the values of ``column`` for the words of its source.

    Args:
        rows: table ``attribution``, ``psi`` or ``s_tags``.
        table: its name.
        column: scores or marks, aligned with tokens.
        mode: ``xx``, ``xy``, or None for a table with one row per text.
        words: the texts.
        pairs: the pairs.

    Raises:
        InputError: no row is of the mode, a pair has no row, a list is not as long as its text, or a score is no
            probability.
    """
    file = f"{table}.parquet"
    if mode is not None:
        rows = rows.filter(pc.equal(rows["mode"], mode))
        if not rows.num_rows:
            raise InputError(f"{file}: no row is of mode {mode}, from which column {column} of the pairs is taken. Add "
                             f"{mode} to {table}.modes in params.yaml.")
    scored = rows["text_id"].to_numpy()
    seconds = rows["pair"].to_numpy() if mode is not None else scored
    wanted = pairs.target if mode == "xy" else pairs.source
    found = pd.MultiIndex.from_arrays([scored, seconds]).get_indexer(pd.MultiIndex.from_arrays([pairs.source, wanted]))
    missing = np.flatnonzero(found < 0)
    if len(missing):
        pair = f"text {pairs.source[missing[0]]}" + (f" with {wanted[missing[0]]}" if mode is not None else "")
        kind = f" of mode {mode}" if mode is not None else ""
        raise InputError(f"{file}: no row{kind} for {pair}, and {len(missing) - 1} more are missing. {STALE}")
    used, row = np.unique(found, return_inverse=True)
    lists = words.beside(file, scored[used], rows[column].take(pa.array(used)))
    if pa.types.is_floating(lists.values.type):
        _check_probabilities(lists, scored[used], file, column)
    return lists.take(pa.array(row))


def _of_phrases(ranking: pa.Table | None, words: TextWords, pairs: Pairs, scores: pa.ListArray) -> pa.Array:
    """Return which words of the source of each pair are keywords by TextRank, null without its table.

    Args:
        ranking: the table.
        words: the texts.
        pairs: the pairs (R,).
        scores: of the words of each source, from itself alone (R,).
    """
    if ranking is None:
        return pa.nulls(len(pairs.source), pa.list_(pa.bool_()))
    source, expected = words.positions(pairs.source), np.zeros(len(words.ids))
    expected[source] = _sums(scores)     # the same in every pair of a source
    return words.beside("textrank.parquet", words.ids, phrase_words(ranking, words, expected)).take(pa.array(source))


def _check_probabilities(lists: pa.ListArray, text_ids: np.ndarray, file: str, column: str) -> None:
    values = lists.values.to_numpy()
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row = int(np.searchsorted(lists.offsets.to_numpy(), wrong[0], side="right")) - 1
        raise InputError(f"{file}: column {column} of text {text_ids[row]} holds {values[wrong[0]]}, which is no "
                         f"probability. Run the stage {file.removesuffix('.parquet')} again.")


def count_vocabulary(words: TextWords, pairs: Pairs, size: int, penn: bool) -> Vocabulary:
    """Return the vocabulary: every tag of ``words``, and the ``size`` most frequent words of training pairs.

    Words and tags are counted in the source of each training example, once, and in each of its references.

    Args:
        words: all texts of the data set.
        pairs: the pairs.
        size: words at most.
        penn: texts are English: all word tags of the Penn Treebank are in the vocabulary, seen or not.
    """
    train = pairs.split == "train"
    sources, targets = pairs.source[train & (pairs.reference == 0)], pairs.target[train]
    weight = np.bincount(words.positions(np.concatenate([sources, targets])), minlength=len(words.ids))
    weight = np.repeat(weight, words.lengths)
    tags = dict.fromkeys(PENN_WORD_TAGS, 0) if penn else {}
    return Vocabulary.counted(_counts(words.words.values, weight), {**tags, **_counts(words.tags.values, weight)}, size)


def _counts(values: pa.Array, weight: np.ndarray) -> dict[str, int]:
    """Return the sum of weights of each distinct value."""
    coded = values.dictionary_encode()
    totals = np.bincount(coded.indices.to_numpy(), weights=weight, minlength=len(coded.dictionary)).astype(np.int64)
    return dict(zip(coded.dictionary.to_pylist(), totals.tolist(), strict=True))


def _metrics(words: TextWords, pairs: Pairs, vocabulary: Vocabulary, columns: Mapping[str, Any],
             max_length: int) -> dict[str, Any]:
    """Return counts, and means and shares by split; all but ``cut`` are of the words that models read."""
    read = np.minimum(words.lengths, max_length)
    unknown = _sums(pa.ListArray.from_arrays(words.words.offsets, _unknown(words.words.values, vocabulary)), max_length)
    at = {"source": words.positions(pairs.source), "target": words.positions(pairs.target)}
    sums = {name: _sums(columns[name], max_length) for name in (*_SCORES, "primary_textrank")
            if columns[name].null_count == 0}
    splits: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        rows = pairs.split == split
        splits[split] = {"pairs": int(rows.sum()), "examples": int((rows & (pairs.reference == 0)).sum()),
                         "expected_keywords": {mode: _mean(sums[f"score_{mode}"][rows]) for mode in ("xx", "xy")}}
        primary = {kind: _mean(sums[f"primary_{kind}"][rows]) for kind in ("xx", "xy", "s", "textrank")
                   if f"primary_{kind}" in sums}
        splits[split] |= {"primary_words": primary} if primary else {}
        for side, place in at.items():
            used = place[rows]
            splits[split][side] = {"words": _mean(read[used]), "outside_vocabulary": _share(unknown[used], read[used]),
                                   "cut": _share((words.lengths - read)[used], words.lengths[used])}
    kinds = {"words": vocabulary.kinds.count("word"), "tags": vocabulary.kinds.count("tag"), "size": vocabulary.size}
    return {"max_length": max_length, "left_out": pairs.left_out, "vocabulary": kinds, **splits}


def _unknown(words: pa.Array, vocabulary: Vocabulary) -> pa.Array:
    """Return 1 for each word outside the vocabulary, 0 for the others."""
    coded = words.dictionary_encode()
    known = vocabulary.word_numbers
    return pa.array([word not in known for word in coded.dictionary.to_pylist()], pa.bool_()).take(
        coded.indices).cast(pa.int8())


def _sums(lists: pa.ListArray, max_length: float = np.inf) -> np.ndarray:
    """Return the sum of the first ``max_length`` values of each list."""
    lengths = list_lengths(lists)
    values = pc.list_flatten(lists).cast(pa.float64()).to_numpy()
    row = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(row, weights=np.where(within(lengths) < max_length, values, 0.0), minlength=len(lengths))


def _mean(values: np.ndarray) -> float | None:
    """Return the mean, None where there is nothing."""
    return round(float(values.mean()), 6) if len(values) else None


def _share(part: np.ndarray, whole: np.ndarray) -> float | None:
    """Return the sum of ``part`` over that of ``whole``, None where there is nothing."""
    return round(float(part.sum()) / int(whole.sum()), 6) if len(whole) else None


def _fallbacks(left_out: Mapping[str, int]) -> list[str]:
    return [f"{count} {kind if count > 1 else kind.removesuffix('s')} left out, because a text has no words"
            for kind, count in left_out.items() if count]


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    joined = params.paraphrase_datasets[process.instance]
    tables = {schema.name: read_table(paths.table(schema.name), schema).select(columns)
              for schema, columns in _READ.items()
              if schema.name not in joined or Path(joined[schema.name]) == paths.table(schema.name)}
    made = run(tables, params.paraphrase_items)
    models: dict[str, Any] = {}
    for kind in ("attribution", *(kind for kind in joined if kind in tables)):
        models |= read_metadata(paths.table(kind)).get("models", {})
    provenance = Provenance(process.name, process.params_hash, models, made.metrics,
                            made.fallbacks)
    for sentence in made.fallbacks:
        process.log.info(sentence)
    write_table(paths.table(STAGE), PARAPHRASE_ITEMS, made.items, provenance)
    write_table(paths.table("vocabulary"), VOCABULARY, made.vocabulary.to_frame(), provenance)
    write_json(paths.metrics(STAGE), made.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
