"""Join words, tags and keyword scores of each pair, and count the vocabulary (PGKPR).

Reads examples, texts, tokens and attribution of a data set, and psi, s_tags and textrank where a model reads them;
writes paraphrase_items.parquet with one row per example and reference, vocabulary.parquet, and counts. Texts and scores
are looked up by id, and pairs joined piece by piece.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
from keycontrast.ranking.blocks import pieces
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import ATTRIBUTION, EXAMPLES, PSI, S_TAGS, SPLITS, TEXTS, TableSchema
from stages.common.settings import NOTHING
from stages.common.tables import (
    Provenance,
    check_columns,
    read_batches,
    read_metadata,
    table_writer,
    write_json,
    write_table,
)
from stages.common.text_tables import METHOD_TABLES, TOKENS
from stages.run.process import StageProcess, run_stage
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, PENN_WORD_TAGS, VOCABULARY, Vocabulary
from stages.tracks.pgkpr.words import (
    STALE,
    WORD_ROWS,
    TextWords,
    list_lengths,
    phrase_words,
    positions,
    within,
    words_of,
)

if TYPE_CHECKING:
    from stages.tracks.pgkpr.params import ParaphraseItems

# Gives the pieces of a table, by its key, anew each time it is called.
Batches = Callable[[], Iterable[pa.Table]]
TEXTRANK = METHOD_TABLES["textrank"]
# What is read of each table.
READ = {EXAMPLES: ["example_id", "split", "source_id", "target_id", "reference_ids", "group"],
        TEXTS: ["text_id", "text", "language"], TOKENS: ["text_id", "token", "tag"],
        ATTRIBUTION: ["text_id", "mode", "pair", "score"], PSI: ["text_id", "mode", "pair", "primary"],
        S_TAGS: ["text_id", "primary"], TEXTRANK: ["text_id", "rank", "token_start", "token_end"]}


# Columns of the items with a value for each word of the source: from which table, column of it and mode of its rows
# (None for a table with one row per text).
SCORES = {"score_xx": (ATTRIBUTION, "score", "xx"), "score_xy": (ATTRIBUTION, "score", "xy"),
          "primary_xx": (PSI, "primary", "xx"), "primary_xy": (PSI, "primary", "xy"),
          "primary_s": (S_TAGS, "primary", None)}


@dataclass(frozen=True)
class Inputs:
    """The texts of a data set and what is known of their words; ``english``: a text is.

    ``words`` has rows as ``TextWords.as_rows`` makes them (T rows), ``lengths`` their words (T,). ``scores`` are by
    column of the items the rows of its table and mode, those of mode ``xy`` by text and pair; columns whose table
    nobody reads are missing, and ``textrank`` is None.
    """

    words: Lookup
    lengths: np.ndarray
    texts: Lookup
    scores: dict[str, Lookup]
    textrank: Lookup | None
    english: bool

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return the row of ``words`` of each text; an InputError where there is none."""
        return positions(self.words.ids, text_ids, "table tokens")


def read_inputs(tables: Mapping[str, Batches]) -> Inputs:
    """Return what is needed of the tables of a data set, in memory.

    Raises:
        InputError: no row is of a mode, a word has no tag, or ``textrank`` and ``tokens`` are of different texts.
    """
    untagged = Faults()
    words = Lookup("tokens", _joined(WORD_ROWS, (words_of(piece, untagged).as_rows()
                                                 for piece in pieces(tables["tokens"]()))))
    untagged.check()
    scores = {}
    for name, (table, column, mode) in SCORES.items():
        if table.name in tables:
            second, batches = "pair" if mode == "xy" else None, tables[table.name]()
            rows = batches if mode is None else (batch.filter(pc.equal(batch["mode"], mode)) for batch in batches)
            scores[name] = _lookup(table, ["text_id", *([] if second is None else [second]), column], rows, second)
            if mode is not None and not len(scores[name].ids):
                raise InputError(f"table {table.name}: no row is of mode {mode}, from which column {column} of the "
                                 f"pairs is taken. Add {mode} to {table.name}.modes in params.yaml.")
    textrank = None
    if "textrank" in tables:
        textrank = _lookup(TEXTRANK, READ[TEXTRANK], tables["textrank"](), unique=False)
        positions(np.unique(textrank.ids), words.ids, "table textrank")
        positions(words.ids, np.unique(textrank.ids), "table tokens")
    return Inputs(words, list_lengths(words.table["words"]).astype(np.int32),
                  _lookup(TEXTS, ["text_id", "text"], tables["texts"]()), scores, textrank,
                  any("en" in pc.unique(batch["language"]).to_pylist() for batch in tables["texts"]()))


def _lookup(schema: TableSchema, columns: list[str], batches: Iterable[pa.Table], second: str | None = None,
            unique: bool = True) -> Lookup:
    kept = pa.schema([field.remove_metadata() for field in schema.arrow() if field.name in columns])
    return Lookup(schema.name, _joined(kept, batches), second, unique)


def _joined(schema: pa.Schema, batches: Iterable[pa.Table]) -> pa.Table:
    """Return the columns of ``schema`` of all ``batches``."""
    return pa.concat_tables([schema.empty_table(), *(batch.select(schema.names).cast(schema) for batch in batches)])


# Words of a piece of pairs, and what a pair counts at least: some thousands of short ones, or one that is longer.
PIECE, _LEAST = 1 << 17, 32


def find_pairs(examples: pa.Table, inputs: Inputs) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return each example with each of its references, but for texts without words, and how many are left out.

    Columns of the pairs: ``example`` (number of its row in ``examples``), ``reference`` (0 for the target), ``split``,
    text ids ``source`` and ``target``, and ``words`` of both together.

    Raises:
        InputError: a text has no row in the tokens.
    """
    source, reference = examples["source_id"].to_numpy(), pc.list_flatten(examples["reference_ids"]).to_numpy()
    references = list_lengths(examples["reference_ids"])
    example, number = np.repeat(np.arange(len(source)), references), within(references)
    of_source, of_reference = (inputs.lengths[inputs.positions(ids)].astype(np.int64) for ids in (source, reference))
    wordless = of_source == 0
    wordless[example[(number == 0) & (of_reference == 0)]] = True      # the first reference is the target
    split = np.array(examples["split"].to_pylist(), dtype=object)
    pairs = pd.DataFrame({"example": example, "reference": number, "split": split[example], "source": source[example],
                          "target": reference, "words": of_source[example] + of_reference})
    without = {"examples": int(wordless.sum()), "references": int(((of_reference == 0) & ~wordless[example]).sum())}
    return pairs[~wordless[example] & (of_reference > 0)], without


def pair_pieces(examples: Iterable[pa.Table], inputs: Inputs) -> Iterator[tuple[pa.Table, pd.DataFrame]]:
    """Yield all pairs in pieces of about PIECE words, each with the examples that its rows are numbers of.

    Pieces are cut by what they hold and by nothing else.
    """
    for batch in examples:
        pairs, _ = find_pairs(batch, inputs)
        for _, piece in pairs.groupby(pairs["words"].clip(lower=_LEAST).cumsum() // PIECE):
            yield batch, piece


def count_pairs(examples: Iterable[pa.Table], inputs: Inputs) -> tuple[np.ndarray, dict[str, int]]:
    """Count all pairs, and check that every table has what they need.

    Returns:
        How often each text is the source of a training example, once per example, or a reference of one (T,);
        examples and further references without a pair, because a text has no words.

    Raises:
        InputError: a text has no row, the first reference of an example is not its target, no training pair has words,
            or the scores of a pair are missing.
    """
    weights, left_out = np.zeros(len(inputs.words.ids), dtype=np.int64), Counter(examples=0, references=0)
    others, missing = Faults(), {name: Faults() for name in inputs.scores}
    for batch in examples:
        _note_other_targets(batch, others)
        pairs, without = find_pairs(batch, inputs)
        left_out.update(without)
        train = pairs[pairs["split"] == "train"]
        for text_ids in (train.loc[train["reference"] == 0, "source"], train["target"]):
            np.add.at(weights, inputs.positions(text_ids.to_numpy()), 1)
        for side in ("source", "target"):
            positions(inputs.texts.ids, pairs[side].to_numpy(), "table texts")
        for name, faults in missing.items():
            _note_unscored(name, pairs, inputs, faults)
    others.check()
    if not weights.any():
        raise InputError("table examples: the train split has no pair with words on both sides. Read more data, or "
                         "give ingest.validation and ingest.test smaller shares.")
    for faults in missing.values():
        faults.check()
    return weights, dict(left_out)


def _note_other_targets(examples: pa.Table, faults: Faults) -> None:
    """Note the examples whose first reference is not their target, or which have none."""
    lengths = list_lengths(examples["reference_ids"])
    some = np.flatnonzero(lengths)
    first = pc.list_element(examples["reference_ids"].take(pa.array(some)), 0).to_numpy()
    wrong = np.append(np.flatnonzero(lengths == 0), some[first != examples["target_id"].to_numpy()[some]])
    faults.add(len(wrong), lambda more: (
        f"table examples: the first of reference_ids is not the target of example "
        f"{examples['example_id'][int(wrong[0])]} (and of {more} more). Run the stage ingest again."))


def _note_unscored(name: str, pairs: pd.DataFrame, inputs: Inputs, faults: Faults) -> None:
    """Note the pairs that have no row for column ``name`` of the items."""
    table, _, mode = SCORES[name]
    first, second = _scored_texts(pairs, mode)
    missing = np.flatnonzero(inputs.scores[name].places(first, second) < 0)
    faults.add(len(missing), lambda more: (
        f"table {table.name}: no row" + (f" of mode {mode}" if mode is not None else "") + " for text "
        f"{first[missing[0]]}" + (f" with {second[missing[0]]}" if mode is not None else "") +
        f", and {more} more are missing. {STALE}"))


def _scored_texts(pairs: pd.DataFrame, mode: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the source of each pair, and the text beside which it is scored in ``mode``."""
    return pairs["source"].to_numpy(), pairs["target" if mode == "xy" else "source"].to_numpy()


# Texts whose words are counted together.
_ROWS = 8192


def count_vocabulary(words: Lookup, weights: np.ndarray, size: int, penn: bool) -> Vocabulary:
    """Return the vocabulary: every tag of ``words``, and the ``size`` most frequent words of training pairs.

    Text t counts ``weights[t]`` times (T,). ``penn``: all word tags of the Penn Treebank are in it, seen or not.
    """
    counted: Counter[str] = Counter()
    tags: Counter[str] = Counter(dict.fromkeys(PENN_WORD_TAGS, 0) if penn else {})
    for row in range(0, len(words.ids), _ROWS):
        texts = TextWords.of_rows(words.table.slice(row, _ROWS))
        weight = np.repeat(weights[row:row + _ROWS], texts.lengths)
        counted.update({word: count for word, count in _counts(texts.words.flatten(), weight).items() if count})
        tags.update(_counts(texts.tags.flatten(), weight))
    return Vocabulary.counted(counted, tags, size)


def _counts(values: pa.Array, weight: np.ndarray) -> dict[str, int]:
    """Return the sum of weights of each distinct value."""
    coded = values.dictionary_encode()
    totals = np.bincount(coded.indices.to_numpy(), weights=weight, minlength=len(coded.dictionary)).astype(np.int64)
    return dict(zip(coded.dictionary.to_pylist(), totals.tolist(), strict=True))


def counted(pairs: pd.DataFrame, words: TextWords, columns: Mapping[str, Any], known: pa.Array,
            max_length: int) -> pd.DataFrame:
    """Return what is counted of some pairs, a row each: of the words that models read, but for words in all."""
    sums = {name: sums_of(lists, max_length) for name, lists in columns.items() if not lists.null_count}
    read = np.minimum(words.lengths, max_length)
    in_vocabulary = pc.is_in(words.words.values, known).cast(pa.int8())
    unknown = read - sums_of(pa.ListArray.from_arrays(words.words.offsets, in_vocabulary), max_length)
    sides: dict[str, np.ndarray] = {}
    for side in ("source", "target"):
        place = words.positions(pairs[side].to_numpy())
        sides |= {f"{side}_words": words.lengths[place], f"{side}_read": read[place],
                  f"{side}_unknown": unknown[place].astype(np.int64)}
    return pd.DataFrame({"split": pairs["split"].to_numpy(), "first": pairs["reference"].to_numpy() == 0, **sides,
                         **sums})


def metrics_of(rows: pd.DataFrame, vocabulary: Vocabulary, max_length: int,
               left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return means and shares by split of what :func:`counted` gives of all pairs, and counts of what has no pair."""
    metrics: dict[str, Any] = {"max_length": max_length, "left_out": dict(left_out), "vocabulary": {
        "words": vocabulary.kinds.count("word"), "tags": vocabulary.kinds.count("tag"), "size": vocabulary.size}}
    for split in SPLITS:
        mine = rows[rows["split"] == split]
        pairs, total = len(mine), mine.select_dtypes("number").sum()
        metrics[split] = {"pairs": pairs, "examples": int(mine["first"].sum()), "expected_keywords": {
            mode: round(float(mine[f"score_{mode}"].to_numpy().mean()), 6) if pairs else None
            for mode in ("xx", "xy")}}
        if primary := [name for name in rows if name.startswith("primary_")]:
            metrics[split]["primary_words"] = {name.removeprefix("primary_"): _ratio(total[name], pairs)
                                               for name in primary}
        for side in ("source", "target"):
            whole, read = total[f"{side}_words"], total[f"{side}_read"]
            metrics[split][side] = {"words": _ratio(read, pairs),
                                    "outside_vocabulary": _ratio(total[f"{side}_unknown"], read),
                                    "cut": _ratio(whole - read, whole)}
    return metrics


def _ratio(part: float, whole: float) -> float | None:
    """Return a mean or a share, None where there is nothing."""
    return round(float(part / whole), 6) if whole else None


def sums_of(lists: pa.ListArray, max_length: float = np.inf) -> np.ndarray:
    """Return the sum of the first ``max_length`` values of each list."""
    lengths = list_lengths(lists)
    values = pc.list_flatten(lists).cast(pa.float64()).to_numpy()
    row = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(row, weights=np.where(within(lengths) < max_length, values, 0.0), minlength=len(lengths))


STAGE = "paraphrase_items"
# Rows read at a time.
_BATCH = 4096
_TOKENS_BATCH = 1024     # few, since a text may be a whole document


@dataclass(frozen=True)
class Joined:
    """What is known once all pairs are joined: vocabulary, counts, a sentence per fall-back; of :func:`run`, items."""

    vocabulary: Vocabulary
    metrics: dict[str, Any]
    fallbacks: list[str]
    items: pa.Table | None = None


def run(tables: Mapping[str, pa.Table], params: "ParaphraseItems") -> Joined:
    """Return the pairs of a data set as words with tags and keyword scores, and their vocabulary.

    An example whose source or target has no words is left out, and so is a further reference without words; both are
    counted. Every other example has a row for its target, with ``reference`` 0, and one for each further reference.

    Raises:
        InputError: as :func:`join_all`.
    """
    ordered = {schema.name: tables[schema.name].select(columns).sort_by([(key, "ascending") for key in schema.key])
               for schema, columns in READ.items() if schema.name in tables}
    items: list[pa.Table] = [PARAPHRASE_ITEMS.arrow().empty_table()]
    made = join_all({name: partial(_whole, table) for name, table in ordered.items()}, params, items.append)
    return replace(made, items=pa.concat_tables(items))


def _whole(table: pa.Table) -> list[pa.Table]:
    return [table]


def join_all(tables: Mapping[str, Batches], params: "ParaphraseItems",
             write: Callable[[pa.Table], Any]) -> Joined:
    """Join all pairs piece by piece, and hand each piece of table ``paraphrase_items`` to ``write``; see :func:`run`.

    Raises:
        InputError: scores of a mode or of a pair are missing, tables are of different texts, a score is not in
            [0, 1], or no training pair has words.
    """
    inputs = read_inputs(tables)
    weights, left_out = count_pairs(tables["examples"](), inputs)
    vocabulary = count_vocabulary(inputs.words, weights, params.vocabulary, inputs.english)
    known, counts = pa.array(list(vocabulary.word_numbers), pa.string()), []
    for examples, pairs in pair_pieces(tables["examples"](), inputs):
        words = TextWords.of_rows(inputs.words.of(np.unique(pairs[["source", "target"]])))
        scores = _scores(pairs, words, inputs)
        counts.append(counted(pairs, words, scores, known, params.max_length))
        write(pa.table({**_texts(examples, pairs, words, inputs), **scores}, schema=PARAPHRASE_ITEMS.arrow()))
    fallbacks = [f"{count} {kind if count > 1 else kind.removesuffix('s')} left out, because a text has no words"
                 for kind, count in left_out.items() if count]
    return Joined(vocabulary, metrics_of(pd.concat(counts, ignore_index=True), vocabulary, params.max_length, left_out),
                  fallbacks)


def _texts(examples: pa.Table, pairs: pd.DataFrame, words: TextWords, inputs: Inputs) -> dict[str, Any]:
    """Return the columns of some pairs that say what they are, and their texts, words and tags."""
    columns: dict[str, Any] = {name: examples[name].take(pa.array(pairs["example"])) for name in (
        "example_id", "split", "group")}
    columns["reference"] = pa.array(pairs["reference"], pa.int32())
    written = inputs.texts.of(words.ids)["text"]
    for side in ("source", "target"):
        place = pa.array(words.positions(pairs[side].to_numpy()))
        columns |= {side: written.take(place), f"{side}_words": words.words.take(place),
                    f"{side}_tags": words.tags.take(place)}
    return {name: columns[name] for name in PARAPHRASE_ITEMS.arrow().names if name in columns}


def _scores(pairs: pd.DataFrame, words: TextWords, inputs: Inputs) -> dict[str, pa.Array]:
    """Return the scores and marks of the words of the source of each pair; null in columns that nobody reads."""
    nothing = pa.nulls(len(pairs), pa.list_(pa.bool_()))
    columns = dict.fromkeys([*SCORES, "primary_textrank"], nothing)
    for name, rows in inputs.scores.items():
        _, column, mode = SCORES[name]
        used, row = np.unique(rows.places(*_scored_texts(pairs, mode)), return_inverse=True)
        lists = words.beside(f"table {rows.name}", rows.ids[used], rows.table[column].take(pa.array(used)))
        if pa.types.is_floating(lists.values.type):
            _check_probabilities(lists, rows.ids[used], rows.name, column)
        columns[name] = lists.take(pa.array(row))
    if inputs.textrank is not None:
        source, expected = words.positions(pairs["source"].to_numpy()), np.zeros(len(words.ids))
        expected[source] = sums_of(columns["score_xx"])     # the same in every pair of a source
        marks = phrase_words(inputs.textrank.all_of(words.ids), words, expected)
        columns["primary_textrank"] = words.beside("table textrank", words.ids, marks).take(pa.array(source))
    return columns


def _check_probabilities(lists: pa.ListArray, text_ids: np.ndarray, table: str, column: str) -> None:
    values = lists.values.to_numpy()
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row = int(np.searchsorted(lists.offsets.to_numpy(), wrong[0], side="right")) - 1
        raise InputError(f"table {table}: column {column} of text {text_ids[row]} holds {values[wrong[0]]}, which is "
                         f"no probability. Run the stage {table} again.")


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    joined = params.paraphrase_items.datasets[process.instance]
    tables = {schema.name: partial(read_batches, paths.table(schema.name), schema, columns,
                                   _TOKENS_BATCH if schema.name == "tokens" else _BATCH)
              for schema, columns in READ.items()
              if schema.name not in joined or joined[schema.name] != NOTHING}
    for schema in READ:
        if schema.name in tables:
            check_columns(paths.table(schema.name), schema)
    provenance = Provenance(process.name, process.params_hash)
    with table_writer(paths.table(STAGE), PARAPHRASE_ITEMS, provenance) as writer:
        made = join_all(tables, params.paraphrase_items, writer.write)
        for kind in ("attribution", *(kind for kind in joined if kind in tables)):
            provenance.models.update(read_metadata(paths.table(kind)).get("models", {}))
        provenance.counts.update(made.metrics)
        provenance.fallbacks.extend(made.fallbacks)
    for sentence in made.fallbacks:
        process.log.info(sentence)
    write_table(paths.table("vocabulary"), VOCABULARY, made.vocabulary.to_frame(), provenance)
    write_json(paths.metrics(STAGE), made.metrics)


main = partial(run_stage, STAGE, _work)


if __name__ == "__main__":
    sys.exit(main())
