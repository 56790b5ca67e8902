"""Choose one keyword per text from its ranking, with ties and fall-backs settled in words, not by chance."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.example_texts import TextIds, all_text_ids, is_labelled, read_examples, training_text_ids
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_batches, read_metadata, table_writer, write_json
from stages.keywords.choice import STALE, TOKEN_COLUMNS, beside, choose_keywords, ranking_columns
from stages.ranking.blocks import pieces
from stages.ranking.selection import InverseFrequency
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Keywords

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
_ROLES = ("source", "target", "negative")
# Gives the pieces of a table anew each time it is called.
Batches = Callable[[list[str]], Iterable[pa.Table]]


@dataclass(frozen=True)
class Chosen:
    """What the stage makes: the table ``keywords``, its counts, and a sentence per fall-back taken."""

    keywords: pa.Table
    counts: dict[str, Any]
    fallbacks: list[str]


def run(tokens: pa.Table, ranking: pa.Table, examples: pa.Table, params: "Keywords") -> Chosen:
    """Choose the keyword of every text (METHODS A.2).

    Args:
        tokens: table ``tokens``.
        ranking: table of ``params.method``. Methods that need a pair score source texts only; other texts fall back
            to IDF, which is recorded.
        examples: table ``examples`` or ``labelled_examples``; IDF counts the texts of training examples and no
            others.
        params: the method.

    Raises:
        InputError: the tables do not belong together.
    """
    ordered = tokens.sort_by("text_id")
    tables: list[pa.Table] = [SCHEMAS["keywords"].arrow().empty_table()]
    tally = choose_all(lambda columns: [ordered.select(columns)],
                       [ranking.select(ranking_columns(params.method)).sort_by("text_id")], examples, params,
                       tables.append)
    return Chosen(pa.concat_tables(tables), tally.counts(examples), tally.fallbacks())


def choose_all(tokens: Batches, ranking: Iterable[pa.Table], examples: pa.Table, params: "Keywords",
               write: Callable[[pa.Table], Any]) -> "Tally":
    """Choose the keyword of every text, piece by piece, and hand each piece of table ``keywords`` to ``write``.

    Args:
        tokens: gives columns of table ``tokens``, by text id; called three times.
        ranking: pieces of the ranking, by text id.
        examples: as in :func:`run`.
        params: the method.
        write: takes pieces of the table.

    Raises:
        InputError: the tables do not belong together.
    """
    held = [batch["text_id"].to_numpy() for batch in tokens(["text_id"])]
    _check_ids(all_text_ids(examples), np.concatenate(held) if held else np.zeros(0, dtype=np.int64))
    idf = InverseFrequency.over_tables(pieces(tokens(["text_id", "token"])), training_text_ids(examples))
    tally = Tally(params.method)
    for piece, rows in beside(pieces(tokens(TOKEN_COLUMNS)), ranking, params.method):
        chosen = choose_keywords(piece, rows, params.method, idf, params.kw_lemma)
        tally.add(chosen.table, chosen.unscored)
        write(chosen.table)
    return tally


class Tally:
    """Counts over keywords that come piece by piece; holds a number per text and each distinct keyword once."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._numbers: dict[str, int] = {}
        self._texts: list[np.ndarray] = []
        self._keywords: list[np.ndarray] = []
        self._methods: dict[str, int] = {}
        self._unscored = 0

    def add(self, table: pa.Table, unscored: int) -> None:
        """Take in a piece of table ``keywords``, of whose texts ``unscored`` have no ranking."""
        coded = table["keyword"].combine_chunks().dictionary_encode()
        words = coded.dictionary.to_pylist()
        numbers = np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words], dtype=np.int64)
        self._texts.append(table["text_id"].to_numpy())
        self._keywords.append(numbers[coded.indices.to_numpy()])
        for found in pc.value_counts(table["method"]).to_pylist():
            self._methods[found["values"]] = self._methods.get(found["values"], 0) + found["counts"]
        self._unscored += unscored

    def counts(self, examples: pa.Table) -> dict[str, Any]:
        """Return how keywords were found and, for triples, the shares that bound what a contrast can do (A.3)."""
        known = np.unique(self._of(training_text_ids(examples)))
        counts = {"texts_by_method": dict(sorted(self._methods.items())),
                  "keywords": {"distinct": len(self._numbers), "distinct_in_training": len(known)}}
        return counts if is_labelled(examples) else {**counts, **self._shares(examples, known)}

    def fallbacks(self) -> list[str]:
        """Return a sentence per fall-back that was taken."""
        sentences = []
        if self._unscored:
            sentences.append(f"{self._unscored} texts have no {self._method} (only sources have): their keyword is by "
                             f"IDF")
        if self._methods.get("idf", 0):
            sentences.append(f"{self._methods['idf']} texts have no ranked keyword: the word of highest IDF was taken")
        if self._methods.get("none", 0):
            sentences.append(f"{self._methods['none']} texts have no keyword at all")
        return sentences

    def _shares(self, examples: pa.Table, known: np.ndarray) -> dict[str, Any]:
        split = {name: pc.equal(examples["split"], name).to_numpy() for name in ("train", "validation", "test")}
        negative = pc.is_valid(examples["negative_id"]).to_numpy()
        ids = {role: pc.fill_null(examples[f"{role}_id"], -1).to_numpy() for role in _ROLES}
        # Rows without a negative look up some other text in its place, and are left out by `negative`.
        roles = {role: self._of(np.where(ids[role] < 0, ids["source"], ids[role])) for role in _ROLES}
        seen = np.isin(roles["source"], known)
        return {
            "share_source_is_target": _share((roles["source"] == roles["target"])[split["train"]]),
            "share_target_is_negative": _share((roles["target"] == roles["negative"])[split["train"] & negative]),
            "share_source_known": {name: _share(seen[split[name]]) for name in ("validation", "test")},
        }

    def _of(self, texts: TextIds) -> np.ndarray:
        """Return the number of each text's keyword."""
        if not self._texts:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate(self._keywords)[np.searchsorted(np.concatenate(self._texts), texts)]


def _check_ids(wanted: TextIds, held: TextIds) -> None:
    missing = np.setdiff1d(wanted, held)
    if len(missing):
        raise InputError(f"tokens.parquet: {len(missing)} texts, the first of them {missing[0]}, are not in both "
                         f"tables; {STALE}")


def _share(hits: np.ndarray) -> float | None:
    """Return the mean of ``hits``; None where there is nothing to count."""
    return round(float(hits.mean()), 6) if len(hits) else None


def _work(process: StageProcess) -> None:
    params = process.params
    paths = DatasetPaths(process.instance)
    chosen = params.keywords
    source, ranking = paths.table("tokens"), paths.table(chosen.method)
    examples = read_examples(paths.table("examples"))
    provenance = Provenance(process.name, process.params_hash)
    with table_writer(paths.table("keywords"), "keywords", provenance) as writer:
        tally = choose_all(lambda columns: read_batches(source, "tokens", columns, _BATCH),
                           read_batches(ranking, chosen.method, ranking_columns(chosen.method)), examples, chosen,
                           writer.write)
        provenance.models.update(read_metadata(ranking).get("models", {}))
        provenance.counts.update(tally.counts(examples))
        provenance.fallbacks.extend(tally.fallbacks())
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    write_json(paths.metrics("keywords"), provenance.counts)


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("keywords", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
