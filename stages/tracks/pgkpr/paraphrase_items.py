"""Join words, tags and keyword scores of each pair, and count the vocabulary (PGKPR).

Reads examples, texts, tokens and attribution of a data set, and psi, s_tags and textrank where a model reads them;
writes paraphrase_items.parquet with one row per example and reference, vocabulary.parquet, and counts. Texts and scores
are looked up by id, and pairs joined piece by piece.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.settings import NOTHING
from stages.common.tables import Provenance, check_columns, read_batches, read_metadata, write_json, write_table
from stages.common.writing import table_writer
from stages.run.process import StageProcess, run_stage
from stages.tracks.pgkpr.inputs import READ, SCORES, Batches, Inputs, read_inputs
from stages.tracks.pgkpr.item_counts import ItemCounts, count_vocabulary, sums_of
from stages.tracks.pgkpr.pairs import Pairs, count_pairs, pair_pieces
from stages.tracks.pgkpr.phrases import phrase_words
from stages.tracks.pgkpr.schemas import PARAPHRASE_ITEMS, VOCABULARY
from stages.tracks.pgkpr.vocabulary import Vocabulary
from stages.tracks.pgkpr.words import TextWords

if TYPE_CHECKING:
    from stages.tracks.pgkpr.params import ParaphraseItems

STAGE = "paraphrase_items"
# Rows read at a time.
_BATCH = 4096
_TOKENS_BATCH = 1024     # few, since a text may be a whole document


@dataclass(frozen=True)
class Joined:
    """What is known once all pairs are joined: the vocabulary, counts, and a sentence per fall-back."""

    vocabulary: Vocabulary
    metrics: dict[str, Any]
    fallbacks: list[str]


@dataclass(frozen=True)
class Paraphrases(Joined):
    """What :func:`run` makes: table ``paraphrase_items`` besides."""

    items: pa.Table


def run(tables: Mapping[str, pa.Table], params: "ParaphraseItems") -> Paraphrases:
    """Return the pairs of a data set as words with tags and keyword scores, and their vocabulary.

    An example whose source or target has no words is left out, and so is a further reference without words; both are
    counted. Every other example has a row for its target, with ``reference`` 0, and one for each further reference.

    Args:
        tables: ``examples``, ``texts``, ``tokens`` and ``attribution``; ``psi``, ``s_tags`` and ``textrank`` may be
            missing, and their columns are null then.
        params: how many words the vocabulary has, and how many of a text models read.

    Raises:
        InputError: as :func:`join_all`.
    """
    ordered = {schema.name: tables[schema.name].select(columns).sort_by([(key, "ascending") for key in schema.key])
               for schema, columns in READ.items() if schema.name in tables}
    items: list[pa.Table] = [PARAPHRASE_ITEMS.arrow().empty_table()]
    made = join_all({name: partial(_whole, table) for name, table in ordered.items()}, params, items.append)
    return Paraphrases(made.vocabulary, made.metrics, made.fallbacks, pa.concat_tables(items))


def _whole(table: pa.Table) -> list[pa.Table]:
    return [table]


def join_all(tables: Mapping[str, Batches], params: "ParaphraseItems",
             write: Callable[[pa.Table], Any]) -> Joined:
    """Join all pairs piece by piece, and hand each piece of table ``paraphrase_items`` to ``write``.

    Args:
        tables: as in :func:`run`, in pieces.
        params: likewise.
        write: takes pieces of the table.

    Raises:
        InputError: scores of a mode or of a pair are missing, tables are of different texts, a score is not in
            [0, 1], or no training pair has words.
    """
    inputs = read_inputs(tables)
    found = count_pairs(tables["examples"](), inputs)
    vocabulary = count_vocabulary(inputs.words, found.weights, params.vocabulary, inputs.english)
    counts = ItemCounts(found.pairs, vocabulary, params.max_length)
    for examples, pairs in pair_pieces(tables["examples"](), inputs):
        words = TextWords.of_rows(inputs.words.of(np.unique(np.concatenate([pairs.source, pairs.target]))))
        scores = scores_of_pairs(pairs, words, inputs)
        counts.add(pairs, words, scores)
        write(pa.table({**texts_of_pairs(examples, pairs, words, inputs), **scores}, schema=PARAPHRASE_ITEMS.arrow()))
    return Joined(vocabulary, counts.metrics(found.left_out), _fallbacks(found.left_out))


def texts_of_pairs(examples: pa.Table, pairs: Pairs, words: TextWords, inputs: Inputs) -> dict[str, Any]:
    """Return the columns of some pairs that say what they are, and their texts, words and tags.

    Args:
        examples: the piece of table ``examples`` that they are from.
        pairs: the pairs (R,).
        words: their texts.
        inputs: all texts.
    """
    columns: dict[str, Any] = {name: examples[name].take(pa.array(pairs.example)) for name in (
        "example_id", "split", "group")}
    columns["reference"] = pa.array(pairs.reference, pa.int32())
    written = inputs.texts.of(words.ids)["text"]
    for side, text_ids in (("source", pairs.source), ("target", pairs.target)):
        place = pa.array(words.positions(text_ids))
        columns |= {side: written.take(place), f"{side}_words": words.words.take(place),
                    f"{side}_tags": words.tags.take(place)}
    return {name: columns[name] for name in PARAPHRASE_ITEMS.arrow().names if name in columns}


def scores_of_pairs(pairs: Pairs, words: TextWords, inputs: Inputs) -> dict[str, pa.Array]:
    """Return, for each pair, the scores and marks of the words of its source; null in columns that nobody reads.

    Args:
        pairs: the pairs (R,).
        words: their texts.
        inputs: where scores are looked up.

    Raises:
        InputError: a list is not as long as its text, or a score is no probability.
    """
    nothing = pa.nulls(len(pairs), pa.list_(pa.bool_()))
    columns = {name: scores_of(inputs.scores[name], name, words, pairs) if name in inputs.scores else nothing
               for name in SCORES}
    columns["primary_textrank"] = (nothing if inputs.textrank is None else
                                   _of_phrases(inputs.textrank.all_of(words.ids), words, pairs, columns["score_xx"]))
    return columns


def scores_of(rows: Lookup, name: str, words: TextWords, pairs: Pairs) -> pa.ListArray:
    """Return, for each pair, the values of one column for the words of its source.

    Args:
        rows: the table that has them, with a row for each pair.
        name: of the column of the items.
        words: the texts.
        pairs: the pairs.

    Raises:
        InputError: a list is not as long as its text, or a score is no probability.
    """
    file, column = f"table {rows.name}", SCORES[name].column
    used, row = np.unique(rows.places(pairs.source, pairs.second(SCORES[name].mode)), return_inverse=True)
    lists = words.beside(file, rows.ids[used], rows.table[column].take(pa.array(used)))
    if pa.types.is_floating(lists.values.type):
        _check_probabilities(lists, rows.ids[used], file, column)
    return lists.take(pa.array(row))


def _of_phrases(ranking: pa.Table, words: TextWords, pairs: Pairs, scores: pa.ListArray) -> pa.Array:
    """Return which words of the source of each pair are keywords by TextRank.

    Args:
        ranking: rows of the table for all of ``words``.
        words: the texts.
        pairs: the pairs (R,).
        scores: of the words of each source, from itself alone (R,).
    """
    source, expected = words.positions(pairs.source), np.zeros(len(words.ids))
    expected[source] = sums_of(scores)     # the same in every pair of a source
    return words.beside("table textrank", words.ids, phrase_words(ranking, words, expected)).take(pa.array(source))


def _check_probabilities(lists: pa.ListArray, text_ids: np.ndarray, file: str, column: str) -> None:
    values = lists.values.to_numpy()
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row = int(np.searchsorted(lists.offsets.to_numpy(), wrong[0], side="right")) - 1
        raise InputError(f"{file}: column {column} of text {text_ids[row]} holds {values[wrong[0]]}, which is no "
                         f"probability. Run the stage {file.removeprefix('table ')} again.")


def _fallbacks(left_out: Mapping[str, int]) -> list[str]:
    return [f"{count} {kind if count > 1 else kind.removesuffix('s')} left out, because a text has no words"
            for kind, count in left_out.items() if count]


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


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
