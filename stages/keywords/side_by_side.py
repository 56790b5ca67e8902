"""Put the keywords of every method beside each other and measure how far they agree.

Reads tokens, examples and the table of each method of a data set, all of them piece by piece; writes
side_by_side.parquet, the agreement of every two methods, and the picture of keywords by part of speech (PGKPR Figures 3
and 4).
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from stages.common.columns.items import EXAMPLES
from stages.common.columns.methods import METHOD_TABLES
from stages.common.columns.side_by_side import SIDE_BY_SIDE
from stages.common.columns.tokens import TOKENS
from stages.common.example_texts import marked_texts, training_text_ids, training_texts
from stages.common.mapped import copied
from stages.common.methods import COMPARED, COMPARED_NAMING, METHODS
from stages.common.parts import Layout
from stages.common.paths import DatasetPaths
from stages.common.tables import (
    Provenance,
    atomic_folder,
    check_columns,
    read_batches,
    read_metadata,
    write_json,
)
from stages.common.token_pieces import pieces
from stages.common.writing import table_writer
from stages.keywords.agreement.figure import pos_plot
from stages.keywords.agreement.keywords import TOKEN_COLUMNS, compared_columns, keywords_by_method, note_strange
from stages.keywords.agreement.measures import Agreements
from stages.keywords.agreement.pos_frequency import COUNTED, Counted, frequency_table, pos_counts, rows_to_count
from stages.keywords.choice import Following
from stages.ranking.selection import InverseFrequency
from stages.run.errors import Faults
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import SideBySide

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 1024
_EXAMPLES = ["example_id", "split", "source_id"]
# Columns of each method's table; those of PSI also say which parts of speech its words have.
_COLUMNS = {name: [*compared_columns(name), *(["primary"] if METHODS[name].holds == "primary words" else [])]
            for name in COMPARED_NAMING}
# Gives the pieces of a table anew each time it is called.
Batches = Callable[[list[str]], Iterable[pa.Table]]


@dataclass(frozen=True)
class Comparison:
    """What is known once all texts are compared: counts, frequencies by part of speech, where they were counted."""

    counts: dict[str, Any]
    frequencies: pd.DataFrame
    counted_split: str
    counted_texts: int


@dataclass(frozen=True)
class Compared(Comparison):
    """What :func:`run` makes: table ``side_by_side`` besides."""

    table: pa.Table


def run(tables: dict[str, pa.Table], examples: pa.Table, params: "SideBySide", language: str,
        seed: int) -> Compared:
    """Compare the keywords of every method.

    Args:
        tables: ``tokens``, and that of each method.
        examples: table ``examples``: IDF counts its training texts; parts of speech are counted over test sources,
            once per example.
        params: how many keywords per text and method.
        language: of the texts, which says the kind of tags.
        seed: of the coin flips.

    Raises:
        InputError: the tables do not belong together.
    """
    ordered = {schema.name: tables[schema.name].sort_by([(key, "ascending") for key in schema.key])
               for schema in (TOKENS, *(METHOD_TABLES[name] for name in COMPARED_NAMING))}
    made: list[pa.Table] = [SIDE_BY_SIDE.arrow().empty_table()]
    with TemporaryDirectory() as folder:
        found = Comparer(marked_texts([training_text_ids(examples)]), Counted.of([examples.sort_by("example_id")]),
                         params.top, made.append).compare(
            lambda columns: [ordered["tokens"].select(columns)],
            {name: [ordered[name].select(_COLUMNS[name])] for name in COMPARED_NAMING}, language, seed,
            Path(folder) / "counted.arrow")
    return Compared(found.counts, found.frequencies, found.counted_split, found.counted_texts, pa.concat_tables(made))


class Comparer:
    """Compares the keywords of every method, text by text.

    Args:
        training: by text id, whether IDF counts a text.
        counted: examples whose sources are counted by part of speech.
        top: keywords per text and method.
        write: takes pieces of table ``side_by_side``.
    """

    def __init__(self, training: np.ndarray, counted: Counted, top: int, write: Callable[[pa.Table], Any]) -> None:
        self._training, self._counted, self._top, self._write = training, counted, top, write
        self._sources = np.unique(counted.sources)
        self._agreements, self._named, self._texts = Agreements(COMPARED), Counter(dict.fromkeys(COMPARED, 0)), 0

    def compare(self, tokens: Batches, tables: Mapping[str, Iterable[pa.Table]], language: str, seed: int,
                file: Path) -> Comparison:
        """Compare all texts, piece by piece.

        Args:
            tokens: gives columns of table ``tokens``, by text id; called twice.
            tables: pieces of the table of each method, by text id.
            language: of the texts, which says the kind of tags.
            seed: of the coin flips.
            file: for what is counted by part of speech, gone afterwards.

        Raises:
            InputError: the tables do not belong together.
        """
        idf = InverseFrequency.over_tables(pieces(tokens(["text_id", "token"])), self._training)
        rows = {name: Following(batches, METHOD_TABLES[name].arrow().empty_table().select(_COLUMNS[name]))
                for name, batches in tables.items()}
        with copied("tokens", COUNTED, self._compared(tokens([*TOKEN_COLUMNS, "tag", "pos"]), rows, idf),
                    file) as counted:
            frequencies = frequency_table(pos_counts(counted, self._counted, language, seed))
        split, sources = self._counted.split, len(self._counted.examples)
        counts = {"texts": self._texts, "texts_with_keywords": dict(self._named), "agreement": {
            name: asdict(agreement) for name, agreement in self._agreements.found().items()},
            "pos_frequency": {"split": split, "sources": sources}}
        return Comparison(counts, frequencies, split, sources)

    def _compared(self, tokens: Iterable[pa.Table], rows: Mapping[str, Following],
                  idf: InverseFrequency) -> Iterator[pa.Table]:
        """Compare piece after piece, and yield what is counted of each by part of speech."""
        strange = {name: Faults() for name in rows}
        for piece in pieces(tokens):
            last = piece["text_id"][-1].as_py() if piece.num_rows else -1
            tables = {name: following.up_to(last) for name, following in rows.items()}
            columns = keywords_by_method(piece, tables, idf, self._top, strange)
            self._agreements.add(columns)
            self._named.update({name: sum(map(bool, keywords)) for name, keywords in columns.items()})
            self._texts += piece.num_rows
            self._write(pa.table({"text_id": piece["text_id"], **columns}, schema=SIDE_BY_SIDE.arrow()))
            yield rows_to_count(piece, tables, self._sources)
        for name, following in rows.items():
            note_strange(name, following.rest().tolist(), strange[name])
            strange[name].check()


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    for schema in (TOKENS, *(METHOD_TABLES[name] for name in COMPARED_NAMING), EXAMPLES):
        check_columns(paths.table(schema.name), schema)
    examples, provenance = paths.table("examples"), Provenance(process.name, process.params_hash)
    with table_writer(paths.table("side_by_side"), SIDE_BY_SIDE, provenance, Layout.of(params)) as writer:
        made = Comparer(training_texts(examples), Counted.of(read_batches(examples, EXAMPLES, _EXAMPLES)),
                        params.side_by_side.top, writer.write).compare(
            lambda columns: read_batches(paths.table("tokens"), TOKENS, columns, _BATCH),
            {name: read_batches(paths.table(name), METHOD_TABLES[name], _COLUMNS[name], _BATCH)
             for name in COMPARED_NAMING},
            params.datasets[process.instance].language, params.seed, process.scratch / "counted.arrow")
        for kind in COMPARED_NAMING:
            provenance.models.update(read_metadata(paths.table(kind)).get("models", {}))
        provenance.counts.update(made.counts)
        with atomic_folder(paths.pos_frequency) as folder:
            _write_picture(made, folder)
    write_json(paths.metrics("side_by_side"), made.counts)


def _write_picture(made: Comparison, folder: Path) -> None:
    plot = pos_plot(made.frequencies, made.counted_texts, made.counted_split)
    (folder / "pos_frequency.svg").write_text(plot.svg, encoding="utf-8")
    (folder / "pos_frequency.png").write_bytes(plot.png)
    made.frequencies.to_csv(folder / "pos_frequency.csv", index=False, lineterminator="\n")


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("side_by_side", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
