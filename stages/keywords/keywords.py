"""Choose one keyword per text from its ranking; ties and fall-backs are decided without chance."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.tokens import pieces
from stages.common.examples import (
    TextMarks,
    all_text_ids,
    is_single,
    marked_texts,
    role_batches,
    room_for,
    training_text_ids,
)
from stages.common.methods import KEYWORDS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, read_batches, read_metadata, table_writer, write_json
from stages.common.text_tables import METHOD_TABLES, TOKENS
from stages.keywords.choice import STALE, TOKEN_COLUMNS, choose_keywords, ranking_columns, with_ranking
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import Keywords

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
_UNSEEN = ("validation", "test")
# Returns the pieces of a table each time it is called.
Batches = Callable[[list[str]], Iterable[pa.Table]]


@dataclass(frozen=True)
class Chosen:
    """Table ``keywords``, its counts, and a sentence per fall-back taken."""

    keywords: pa.Table
    counts: dict[str, Any]
    fallbacks: list[str]


def run(tokens: pa.Table, ranking: pa.Table, examples: pa.Table, params: "Keywords") -> Chosen:
    """Choose the keyword of every text."""
    ordered = tokens.sort_by("text_id")
    tables: list[pa.Table] = [KEYWORDS.arrow().empty_table()]
    tally = choose_all(lambda columns: [ordered.select(columns)],
                       [ranking.select(ranking_columns(params.method)).sort_by("text_id")], lambda: [examples], params,
                       tables.append)
    return Chosen(pa.concat_tables(tables), tally.counts([examples]), tally.fallbacks())


def choose_all(tokens: Batches, ranking: Iterable[pa.Table],
               examples: Callable[[], Iterable[pa.Table]], params: "Keywords",
               write: Callable[[pa.Table], Any]) -> "Tally":
    """Choose the keyword of every text, piece by piece, and pass each piece of table ``keywords`` to ``write``.

    ``tokens`` and ``ranking`` come by text id. Texts that the ranking does not score fall back to IDF over the texts
    of training examples.
    """
    wanted = marked_texts(map(all_text_ids, examples()))
    held = marked_texts(batch["text_id"].to_numpy() for batch in tokens(["text_id"]))
    missing = np.flatnonzero(wanted & ~room_for(held, len(wanted))[:len(wanted)])
    if len(missing):
        raise InputError(f"table tokens: {len(missing)} texts, the first of them {missing[0]}, are not in both "
                         f"tables; {STALE}")
    training = marked_texts(map(training_text_ids, examples()))
    idf = InverseFrequency.over_tables(pieces(tokens(["text_id", "token"])), training)
    tally = Tally(params.method, training)
    for piece, rows in with_ranking(pieces(tokens(TOKEN_COLUMNS)), ranking, params.method):
        chosen = choose_keywords(piece, rows, params.method, idf, params.lemmatize)
        scored = pc.sum(pc.equal(rows["mode"], "xx")).as_py() or 0 if "mode" in rows.column_names else piece.num_rows
        tally.add(chosen, piece.num_rows - scored)
        write(chosen)
    return tally


class Tally:
    """Counts over pieces of table ``keywords``; memory holds four bytes per text and each distinct keyword."""

    def __init__(self, method: str, training: TextMarks) -> None:
        self._method, self._training = method, training
        self._numbers: dict[str, int] = {}
        self._keyword = np.zeros(0, dtype=np.int32)     # by text id, the number of its keyword
        self._methods: Counter[str] = Counter()
        self._unscored = 0

    def add(self, table: pa.Table, unscored: int) -> None:
        """Count a piece of table ``keywords`` with ``unscored`` texts that have no ranking."""
        coded = table["keyword"].combine_chunks().dictionary_encode()
        words = coded.dictionary.to_pylist()
        numbers = np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words], dtype=np.int64)
        ids = table["text_id"].to_numpy()
        if len(ids):
            self._keyword = room_for(self._keyword, int(ids.max()) + 1)
            self._keyword[ids] = numbers[coded.indices.to_numpy()]
        self._methods.update(table["method"].to_pylist())
        self._unscored += unscored

    def counts(self, examples: Iterable[pa.Table]) -> dict[str, Any]:
        """Return the number of keywords by method and, of pairs, the share of sources with a keyword of training."""
        known = np.zeros(len(self._numbers), dtype=bool)
        known[self._keyword[:len(self._training)][self._training]] = True
        known &= np.array([word != NO_KEYWORD for word in self._numbers], dtype=bool)
        hits: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        for piece in examples:
            if is_single(piece):
                continue
            of_source = known[self._keyword[piece["source_id"].to_numpy()]]
            for name in _UNSEEN:
                among = pc.equal(piece["split"], name).to_numpy()
                hits[name] += int((of_source & among).sum())
                totals[name] += int(among.sum())
        # None where there is nothing to count.
        share = {name: round(hits[name] / totals[name], 6) if totals[name] else None for name in totals}
        return {"texts_by_method": dict(sorted(self._methods.items())),
                "keywords": {"distinct": len(self._numbers.keys() - {NO_KEYWORD}),
                             "distinct_in_training": int(known.sum())},
                **({"share_source_known": share} if share else {})}

    def fallbacks(self) -> list[str]:
        """Return a sentence per fall-back that was taken."""
        sentences = []
        if self._unscored:
            sentences.append(f"{self._unscored} texts have no row in table {self._method}: their keyword is by IDF")
        if self._methods["idf"]:
            sentences.append(f"{self._methods['idf']} texts have no ranked keyword: the word of highest IDF was taken")
        if self._methods["none"]:
            sentences.append(f"{self._methods['none']} texts have no keyword at all")
        return sentences


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    chosen = params.keywords
    source, ranking = paths.table("tokens"), paths.table(chosen.method)
    examples = partial(role_batches, paths.table("examples"))
    provenance = Provenance(process.name, process.params_hash)
    with table_writer(paths.table("keywords"), KEYWORDS, provenance) as writer:
        tally = choose_all(
            lambda columns: read_batches(source, TOKENS, columns, _BATCH),
            read_batches(ranking, METHOD_TABLES[chosen.method], ranking_columns(chosen.method)), examples, chosen,
            writer.write)
        provenance.models.update(read_metadata(ranking).get("models", {}))
        provenance.counts.update(tally.counts(examples()))
        provenance.fallbacks.extend(tally.fallbacks())
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    write_json(paths.metrics("keywords"), provenance.counts)


main = partial(run_stage, "keywords", _work)
