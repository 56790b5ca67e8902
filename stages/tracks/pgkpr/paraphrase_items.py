"""Join words, tags and keyword scores of each pair, piece by piece, and count the vocabulary (PGKPR)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
from keycontrast.text.tokens import pieces
from stages.common import tables as files
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import ATTRIBUTION, EXAMPLES, PSI, S_TAGS, SPLITS, TEXTS, TableSchema
from stages.common.settings import NOTHING
from stages.common.text_tables import METHOD_TABLES, TOKENS
from stages.run.process import StageProcess, run_stage
from stages.tracks.pgkpr import items
from stages.tracks.pgkpr.items import TextWords, Vocabulary, list_lengths

STAGE = "paraphrase_items"
# Returns a new iterator over the pieces of a table.
Batches = Callable[[], Iterable[pa.Table]]
READ = {EXAMPLES: ["example_id", "split", "source_id", "target_id", "reference_ids", "group"],
        TEXTS: ["text_id", "text", "language"], TOKENS: ["text_id", "token", "tag"],
        ATTRIBUTION: ["text_id", "mode", "pair", "score"], PSI: ["text_id", "mode", "pair", "primary"],
        S_TAGS: ["text_id", "primary"], METHOD_TABLES["textrank"]: ["text_id", "rank", "token_start", "token_end"]}
# Table, column and mode of the values for each word of the source, by column of the items.
SCORES = {"score_xx": (ATTRIBUTION, "score", "xx"), "score_xy": (ATTRIBUTION, "score", "xy"),
          "primary_xx": (PSI, "primary", "xx"), "primary_xy": (PSI, "primary", "xy"),
          "primary_s": (S_TAGS, "primary", None)}
# Words of a piece of pairs, and the least count of a pair.
PIECE, _LEAST = 1 << 17, 32
_TEXTS = 8192   # whose words are counted together
_BATCH, _TOKENS_BATCH = 4096, 1024   # rows read at a time; few of tokens, since a text may be a whole document


@dataclass(frozen=True)
class Inputs:
    """The texts of a data set and the scores of their words."""

    words: Lookup               # rows of items.WORD_ROWS (T,)
    lengths: np.ndarray         # words of each text (T,)
    texts: Lookup
    scores: dict[str, Lookup]   # by column of the items that is read: by text, those of mode xy by text and pair
    textrank: Lookup | None
    english: bool               # a text is


def read_inputs(tables: Mapping[str, Batches]) -> Inputs:
    """Return the tables of a data set, in memory."""
    untagged = Faults()
    words = Lookup("tokens", pa.concat_tables([items.WORD_ROWS.empty_table(), *(
        items.word_rows(piece, untagged) for piece in pieces(tables["tokens"]()))]))
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
        schema = METHOD_TABLES["textrank"]
        textrank = _lookup(schema, READ[schema], tables["textrank"](), unique=False)
        words.rows_of(textrank.ids)
        textrank.rows_of(words.ids)
    return Inputs(words, list_lengths(words.table["words"]).astype(np.int32),
                  _lookup(TEXTS, ["text_id", "text"], tables["texts"]()), scores, textrank,
                  any("en" in pc.unique(batch["language"]).to_pylist() for batch in tables["texts"]()))


def _lookup(schema: TableSchema, columns: list[str], batches: Iterable[pa.Table], second: str | None = None,
            unique: bool = True) -> Lookup:
    kept = pa.schema([field.remove_metadata() for field in schema.arrow() if field.name in columns])
    rows = [batch.select(kept.names).cast(kept) for batch in batches]
    return Lookup(schema.name, pa.concat_tables([kept.empty_table(), *rows]), second, unique)


def find_pairs(examples: pd.DataFrame, inputs: Inputs) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return each example with each of its references, except texts without words, and counts of those left out.

    Pairs have text ids ``source`` and ``target``, ``reference`` (0 for the target), and ``words`` of both together.
    """
    def lengths(text_ids: pd.Series) -> np.ndarray:
        return inputs.lengths[inputs.words.rows_of(text_ids.to_numpy(np.int64))].astype(np.int64)

    wordless = (lengths(examples["source_id"]) == 0) | (lengths(examples["target_id"]) == 0)
    pairs = examples.rename(columns={"source_id": "source", "reference_ids": "target"})[~wordless]
    pairs = pairs.explode("target", ignore_index=True).dropna(subset="target").astype({"target": "int64"})
    of_target = lengths(pairs["target"])
    pairs = pairs.assign(reference=pairs.groupby("example_id").cumcount(), words=lengths(pairs["source"]) + of_target)
    return pairs[of_target > 0], {"examples": int(wordless.sum()), "references": int((of_target == 0).sum())}


def count_pairs(batches: Iterable[pa.Table], inputs: Inputs) -> tuple[np.ndarray, dict[str, int]]:
    """Return how often each text (T,) is a source or a reference in training, and counts of those left out."""
    weights, left_out = np.zeros(len(inputs.words.ids), dtype=np.int64), Counter(examples=0, references=0)
    for batch in batches:
        pairs, without = find_pairs(batch.to_pandas(), inputs)
        left_out.update(without)
        train = pairs[pairs["split"] == "train"]
        for text_ids in (train.loc[train["reference"] == 0, "source"], train["target"]):
            np.add.at(weights, inputs.words.rows_of(text_ids.to_numpy()), 1)
    if not weights.any():
        raise InputError("table examples: the train split has no pair with words on both sides. Read more data, or "
                         "give ingest.validation and ingest.test smaller shares.")
    return weights, dict(left_out)


def count_vocabulary(words: Lookup, weights: np.ndarray, size: int, penn: bool) -> Vocabulary:
    """Return the vocabulary: every tag of ``words``, and the ``size`` most frequent words of training pairs.

    Text t counts ``weights[t]`` times. With ``penn``, it has all word tags of the Penn Treebank.
    """
    counts: dict[str, Counter[str]] = {"words": Counter(), "tags": Counter()}
    for row in range(0, len(words.ids), _TEXTS):
        texts = words.table.slice(row, _TEXTS)
        weight = np.repeat(weights[row:row + _TEXTS], list_lengths(texts["words"]))
        for name, counter in counts.items():
            tallies = pa.table({"value": pc.list_flatten(texts[name]), "count": weight})
            if name == "words":
                tallies = tallies.filter(pc.greater(tallies["count"], 0))
            tallies = tallies.group_by("value").aggregate([("count", "sum")])
            counter.update(dict(zip(tallies["value"].to_pylist(), tallies["count_sum"].to_pylist(), strict=True)))
    if penn:
        counts["tags"].update(dict.fromkeys(items.PENN_WORD_TAGS, 0))
    return Vocabulary.counted(counts["words"], counts["tags"], size)


def _counted(pairs: pd.DataFrame, words: TextWords, scores: Mapping[str, Any], known: pa.Array,
             max_length: int) -> pd.DataFrame:
    """Return counts of some pairs, a row each, of the words that models read."""
    sums = {name: _sums(lists, max_length) for name, lists in scores.items() if not lists.null_count}
    read = np.minimum(words.lengths, max_length)
    in_vocabulary = pc.is_in(words.words.values, known).cast(pa.int8())
    unknown = read - _sums(pa.ListArray.from_arrays(words.words.offsets, in_vocabulary), max_length)
    for side in ("source", "target"):
        place = words.positions(pairs[side].to_numpy())
        sums |= {f"{side}_words": words.lengths[place], f"{side}_read": read[place], f"{side}_unknown": unknown[place]}
    return pairs[["split"]].assign(first=pairs["reference"] == 0, **sums)


def _metrics(rows: pd.DataFrame, vocabulary: Vocabulary, max_length: int,
             left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return means and shares by split of all :func:`_counted` rows."""
    metrics: dict[str, Any] = {"max_length": max_length, "left_out": dict(left_out), "vocabulary": {
        "words": vocabulary.kinds.count("word"), "tags": vocabulary.kinds.count("tag"), "size": vocabulary.size}}
    for split in SPLITS:
        part = rows[rows["split"] == split]
        pairs, total = len(part), {name: part[name].to_numpy().sum() for name in part if name != "split"}
        metrics[split] = {"pairs": pairs, "examples": int(total["first"]), "expected_keywords": {
            mode: _ratio(total[f"score_{mode}"], pairs) for mode in ("xx", "xy")}}
        if primary := [name for name in rows if name.startswith("primary_")]:
            metrics[split]["primary_words"] = {name.removeprefix("primary_"): _ratio(total[name], pairs)
                                               for name in primary}
        for side in ("source", "target"):
            all_words, read = total[f"{side}_words"], total[f"{side}_read"]
            metrics[split][side] = {"words": _ratio(read, pairs),
                                    "outside_vocabulary": _ratio(total[f"{side}_unknown"], read),
                                    "cut": _ratio(all_words - read, all_words)}
    return metrics


def _ratio(part: float, total: float) -> float | None:
    return round(float(part / total), 6) if total else None


def _sums(lists: pa.ListArray, max_length: int | None = None) -> np.ndarray:
    """Return the sum of the first ``max_length`` values of each list."""
    read = pc.list_slice(lists, 0, max_length)
    return np.bincount(pc.list_parent_indices(read), pc.list_flatten(read).cast(pa.float64()), len(read))


def run(tables: Mapping[str, Batches], size: int, max_length: int,
        write: Callable[[pa.Table], Any]) -> tuple[Vocabulary, dict[str, Any], list[str]]:
    """Write the pairs of a data set piece by piece, and return vocabulary, metrics and a sentence per kind left out.

    An example has a row for its target, with ``reference`` 0, and one for each further reference; texts without words
    are left out. The pieces depend on their content alone; ``write`` takes each.
    """
    inputs = read_inputs(tables)
    weights, left_out = count_pairs(tables["examples"](), inputs)
    vocabulary = count_vocabulary(inputs.words, weights, size, inputs.english)
    known, counts = pa.array(list(vocabulary.word_numbers), pa.string()), []
    for batch in tables["examples"]():
        batch_pairs, _ = find_pairs(batch.to_pandas(), inputs)
        for _, pairs in batch_pairs.groupby(batch_pairs["words"].clip(lower=_LEAST).cumsum() // PIECE):
            words = TextWords(inputs.words.of(np.unique(pairs[["source", "target"]])))
            scores = _scores(pairs, words, inputs, max_length)
            counts.append(_counted(pairs, words, scores, known, max_length))
            write(_rows(pairs, words, scores, inputs))
    fallbacks = [f"{count} {kind if count > 1 else kind.removesuffix('s')} left out, because a text has no words"
                 for kind, count in left_out.items() if count]
    return vocabulary, _metrics(pd.concat(counts, ignore_index=True), vocabulary, max_length, left_out), fallbacks


def _rows(pairs: pd.DataFrame, words: TextWords, scores: Mapping[str, pa.Array], inputs: Inputs) -> pa.Table:
    schema, written = items.PARAPHRASE_ITEMS.arrow(), inputs.texts.of(words.ids)["text"]
    columns: dict[str, Any] = {name: pa.array(pairs[name], schema.field(name).type)
                               for name in ("example_id", "reference", "split", "group")} | dict(scores)
    for side in ("source", "target"):
        place = pa.array(words.positions(pairs[side].to_numpy()))
        columns |= {side: written.take(place), f"{side}_words": words.words.take(place),
                    f"{side}_tags": words.tags.take(place)}
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _scores(pairs: pd.DataFrame, words: TextWords, inputs: Inputs, max_length: int) -> dict[str, pa.Array]:
    """Return the scores and marks of the words of the source of each pair; null in unread columns."""
    columns = dict.fromkeys([*SCORES, "primary_textrank"], pa.nulls(len(pairs), pa.list_(pa.bool_())))
    for name, rows in inputs.scores.items():
        _, column, mode = SCORES[name]
        text, beside = pairs["source"].to_numpy(), pairs["target" if mode == "xy" else "source"].to_numpy()
        used, row = np.unique(rows.places(text, beside), return_inverse=True)
        if used[0] < 0:
            pair = row.argmin()
            raise InputError(f"table {rows.name}: no row" + (f" of mode {mode}" if mode else "") + f" for text "
                             f"{text[pair]} with {beside[pair]}. {items.STALE}")
        lists = words.aligned(f"table {rows.name}", rows.ids[used], rows.table[column].take(pa.array(used)))
        if pa.types.is_floating(lists.values.type):
            _check_probabilities(lists, rows.ids[used], rows.name, column)
        columns[name] = lists.take(pa.array(row))
    if inputs.textrank is not None:
        source, expected = words.positions(pairs["source"].to_numpy()), np.zeros(len(words.ids))
        expected[source] = _sums(columns["score_xx"], max_length)     # the same in every pair of a source
        marks = items.phrase_words(inputs.textrank.all_of(words.ids), words, expected, max_length)
        columns["primary_textrank"] = words.aligned("table textrank", words.ids, marks).take(pa.array(source))
    return columns


def _check_probabilities(lists: pa.ListArray, text_ids: np.ndarray, table: str, column: str) -> None:
    values = lists.values.to_numpy()
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row = int(np.searchsorted(lists.offsets.to_numpy(), wrong[0], side="right")) - 1
        raise InputError(f"table {table}: column {column} of text {text_ids[row]} holds {values[wrong[0]]}, which is "
                         f"no probability. Run the stage {table} again.")


def _work(process: StageProcess) -> None:
    params, paths = process.params.paraphrase_items, DatasetPaths(process.instance)
    joined, tables = params.datasets[process.instance], {}
    for schema, columns in READ.items():
        if schema.name not in joined or joined[schema.name] != NOTHING:
            files.check_columns(paths.table(schema.name), schema)
            tables[schema.name] = partial(files.read_batches, paths.table(schema.name), schema, columns,
                                          _TOKENS_BATCH if schema is TOKENS else _BATCH)
    provenance = files.Provenance(process.name, process.params_hash)
    with files.table_writer(paths.table(STAGE), items.PARAPHRASE_ITEMS, provenance) as writer:
        vocabulary, metrics, fallbacks = run(tables, params.vocabulary, params.max_length, writer.write)
        for kind in ("attribution", *(kind for kind in joined if kind in tables)):
            provenance.models.update(files.read_metadata(paths.table(kind)).get("models", {}))
        provenance.counts.update(metrics)
        provenance.fallbacks.extend(fallbacks)
    for sentence in fallbacks:
        process.log.info(sentence)
    files.write_table(paths.table("vocabulary"), items.VOCABULARY, vocabulary.to_frame(), provenance)
    files.write_json(paths.metrics(STAGE), metrics)


main = partial(run_stage, STAGE, _work)
