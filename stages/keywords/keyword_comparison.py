"""Compare the keywords of every method: a table, the agreement of every two methods, and the chart of parts of speech
(PGKPR Figures 3 and 4). All tables are read piece by piece."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder
from keycontrast.ranking.blocks import TokenBlock
from keycontrast.ranking.selection import InverseFrequency, content_words
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import pieces
from stages.common.examples import marked_texts, training_text_ids
from stages.common.lookup import Following
from stages.common.methods import COMPARED, COMPARED_NAMING, KEYWORD_COMPARISON, METHODS
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES
from stages.common.tables import Provenance, read_batches, read_metadata, read_table, table_writer, write_json
from stages.common.text_tables import METHOD_TABLES, TOKENS
from stages.keywords.choice import scored_alone
from stages.keywords.pos_frequency import COUNTED, Counted, counted_rows, frequency_table, pos_plot
from stages.run.process import StageProcess, run_stage

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 1024
_EXAMPLES = ["example_id", "split", "source_id", "target_id", "negative_id"]
_TOKENS = ["text_id", "token", "is_stop", "tag", "pos"]
_OF_METHOD = {"phrases": ["text_id", "keyword"], "scores": ["text_id", "mode", "score"],
              "primary words": ["text_id", "mode", "score", "primary"]}
# Columns that are read of the table of each method.
COLUMNS = {name: _OF_METHOD[METHODS[name].holds] for name in COMPARED_NAMING}
# Returns the pieces of a table each time it is called.
Batches = Callable[[list[str]], Iterable[pa.Table]]
# The keywords of each text by each method, best first; None where the method says nothing of the text.
Named = dict[str, list[list[str] | None]]


@dataclass(frozen=True)
class Compared:
    """Counts of the comparison, and keywords by part of speech."""

    counts: dict[str, Any]
    frequencies: pd.DataFrame


@dataclass
class Agreement:
    """Agreement of two methods: sums over the ``texts`` for which both name a keyword."""

    texts: int = 0
    same_best: float = 0.0
    shared_word: float = 0.0
    jaccard: float = 0.0

    def add(self, left: Iterable[Sequence[str] | None], right: Iterable[Sequence[str] | None]) -> None:
        """Count some texts, given the keywords of each by either method."""
        for first, second in zip(left, right, strict=True):
            if first and second:
                self.texts += 1
                self.same_best += first[0] == second[0]
                self.shared_word += not _words(first[:1]).isdisjoint(_words(second[:1]))
                self.jaccard += len(_words(first) & _words(second)) / len(_words(first) | _words(second))

    def shares(self) -> dict[str, float]:
        """Return the number of texts and the mean of each sum; 0 if there are no texts."""
        means = {name: round(getattr(self, name) / max(self.texts, 1), 6)
                 for name in ("same_best", "shared_word", "jaccard")}
        return {"texts": self.texts, **means}


def run(tokens: Batches, tables: Mapping[str, Iterable[pa.Table]], examples: pa.Table, top: int, language: str,
        seed: int, write: Callable[[pa.Table], Any]) -> Compared:
    """Compare the keywords of every method, text by text, and pass pieces of table ``keyword_comparison`` to ``write``.

    ``tokens`` (called twice) and ``tables`` (columns COLUMNS of each method) come by text id. IDF counts the training
    texts of ``examples``; parts of speech are counted over test sources, once per example, with coins of ``seed``.
    """
    idf = InverseFrequency.over_tables(pieces(tokens(["text_id", "token"])),
                                       marked_texts([training_text_ids(examples)]))
    following = {name: Following(batches, METHOD_TABLES[name].arrow().empty_table().select(COLUMNS[name]))
                 for name, batches in tables.items()}
    counted, texts, named = Counted.of(examples), 0, dict.fromkeys(COMPARED, 0)
    agreements = {pair: Agreement() for pair in combinations(COMPARED, 2)}
    kept = [COUNTED.empty_table()]
    for piece in pieces(tokens(_TOKENS)):
        last = piece["text_id"][-1].as_py() if piece.num_rows else -1
        rows = {name: batches.up_to(last) for name, batches in following.items()}
        keywords: Named = {name: _named(name, piece, rows.get(name), idf, top) for name in COMPARED}
        texts += piece.num_rows
        for name, named_keywords in keywords.items():
            named[name] += sum(map(bool, named_keywords))
        for (first, other), agreement in agreements.items():
            agreement.add(keywords[first], keywords[other])
        write(pa.table({"text_id": piece["text_id"], **keywords}, schema=KEYWORD_COMPARISON.arrow()))
        kept.append(counted_rows(piece, rows, counted.sources))
    for name, batches in following.items():
        _check_same(name, batches.rest())
    return Compared(
        {"texts": texts, "texts_with_keywords": named,
         "agreement": {f"{first}~{other}": agreement.shares() for (first, other), agreement in agreements.items()},
         "pos_frequency": {"split": counted.split, "sources": len(counted.sources)}},
        frequency_table(pa.concat_tables(kept), counted, language, seed))


def _named(name: str, tokens: pa.Table, rows: pa.Table | None, idf: InverseFrequency,
           top: int) -> list[list[str] | None]:
    """Return the ``top`` keywords of each text of a piece by one method, given the rows of its table for these texts.

    Words are scored by the method's own table in mode xx, without words of score 0 or, by PSI, words that are not
    primary; without a table by IDF over the training texts.
    """
    ids, words = (tokens[column].to_pylist() for column in ("text_id", "token"))
    block = TokenBlock(tokens)
    content = content_words(block)
    ends = np.cumsum(np.bincount(content.text, minlength=len(ids)))
    places = [part.tolist() for part in np.split(content.start - block.offsets[content.text], ends)[:-1]]
    if rows is None:
        value = {word: idf.of(word) for word in {word for text in words for word in text}}
        return [best(eligible, text, [value[word] for word in text], top)
                for eligible, text in zip(places, words, strict=True)]
    if METHODS[name].holds == "phrases":
        return _first_phrases(name, ids, rows, top)
    alone, scored = scored_alone(block, rows, name)
    keywords: list[list[str] | None] = [None] * len(ids)
    marks = alone["primary" if "primary" in alone.column_names else "score"].to_pylist()
    for text, scores, marked in zip(scored.tolist(), alone["score"].to_pylist(), marks, strict=True):
        keywords[text] = best([place for place in places[text] if marked[place] > 0], words[text], scores, top)
    return keywords


def _first_phrases(name: str, ids: list[int], ranking: pa.Table, top: int) -> list[list[str] | None]:
    """Return the first ``top`` phrases of each text of a ranking; an empty list for a text without any."""
    by_text: dict[int, list[str]] = {}
    for text, keyword in zip(ranking["text_id"].to_pylist(), ranking["keyword"].to_pylist(), strict=True):
        phrases = by_text.setdefault(text, [])
        if keyword is not None and len(phrases) < top:
            phrases.append(keyword)
    _check_same(name, np.array(sorted(by_text.keys() ^ set(ids)), dtype=np.int64))
    return [by_text[text] for text in ids]


def best(places: Iterable[int], words: Sequence[str], scores: Sequence[float], top: int) -> list[str]:
    """Return the ``top`` distinct words at ``places`` in normal form, by score, then by position."""
    ordered = sorted(places, key=lambda place: (-scores[place], place))
    return list(dict.fromkeys(normal_form(words[place]) for place in ordered))[:top]


def _words(phrases: Sequence[str]) -> frozenset[str]:
    return frozenset(word for phrase in phrases for word in phrase.split())


def _check_same(name: str, strange: np.ndarray) -> None:
    if len(strange):
        raise InputError(f"table {name}: {len(strange)} texts, the first of them {strange[0]}, are not in both it "
                         f"and table tokens. Run `keycontrast run`.")


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    provenance = Provenance(process.name, process.params_hash)
    examples = read_table(paths.table("examples"), EXAMPLES, _EXAMPLES)
    with table_writer(paths.table("keyword_comparison"), KEYWORD_COMPARISON, provenance) as writer:
        compared = run(lambda columns: read_batches(paths.table("tokens"), TOKENS, columns, _BATCH),
                       {name: read_batches(paths.table(name), METHOD_TABLES[name], COLUMNS[name], _BATCH)
                        for name in COMPARED_NAMING},
                       examples, params.keyword_comparison.top, params.datasets[process.instance].language, params.seed,
                       writer.write)
        for name in COMPARED_NAMING:
            provenance.models.update(read_metadata(paths.table(name)).get("models", {}))
        provenance.counts.update(compared.counts)
        with atomic_folder(paths.pos_frequency) as folder:
            counted = compared.counts["pos_frequency"]
            plot = pos_plot(compared.frequencies, counted["sources"], counted["split"])
            (folder / "pos_frequency.svg").write_text(plot.svg, encoding="utf-8")
            compared.frequencies.to_csv(folder / "pos_frequency.csv", index=False, lineterminator="\n")
    write_json(paths.metrics("keyword_comparison"), compared.counts)


main = partial(run_stage, "keyword_comparison", _work)
