"""Tokenise and tag every distinct text once: lemmas, parts of speech, sentence starts, noun chunks.

Texts are read, annotated and written chunk by chunk, by worker processes or a Dask cluster, so that memory does
not grow with the corpus. A stage that was killed goes on after the last chunk it had finished.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import stages.artifacts.schemas as schemas
import stages.data.language as language_package
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_batches, table_writer
from stages.data.language.annotators import BUILT_IN, Annotator, load_annotator
from stages.data.language.tokens import fixed_chunks, stream_chunks, token_table
from stages.runtime.chunk_store import ChunkStore
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Annotate

_COLUMNS = ["text_id", "text"]
# A row group is written when it has so many texts, or tokens: enough to compress well, few enough to hold.
_GROUP_TEXTS = 8192
_GROUP_TOKENS = 1 << 20
_CODE = (Path(__file__), Path(str(language_package.__file__)).parent, Path(str(schemas.__file__)))


def run(texts: pa.Table, params: "Annotate", workers: int = 1, address: str | None = None) -> pa.Table:
    """Return the ``tokens`` table of ``texts``; the same whoever does the work.

    Args:
        texts: table ``texts``, of one language.
        params: pipeline and chunk size.
        workers: processes.
        address: of a Dask scheduler whose workers take the place of processes here.

    Raises:
        InputError: the pipeline cannot be used, or is made for another language.
    """
    empty = SCHEMAS["tokens"].arrow().empty_table()
    if not texts.num_rows:
        return empty
    language = _one_language(set(texts["language"].unique().to_pylist()), "texts")
    chunks = fixed_chunks(texts.select(_COLUMNS), params.chunk)
    return pa.concat_tables([empty, *annotated(chunks, params.pipeline, language, texts.num_rows, workers, address)])


def annotated(chunks: Iterable[pa.Table], name: str, language: str, total: int, workers: int = 1,
              address: str | None = None, store: ChunkStore | None = None) -> Iterator[pa.Table]:
    """Yield the tokens of each chunk of texts, in order, under a bar that counts texts.

    Args:
        chunks: tables with ``text_id`` and ``text``, cut without regard to who works on them.
        name: as ``annotate.pipeline`` says it.
        language: of the texts.
        total: texts in all chunks.
        workers: processes.
        address: of a Dask scheduler; None for processes of this machine.
        store: where finished chunks are kept.

    Raises:
        InputError: the pipeline cannot be used, or another one has its name where a worker runs.
    """
    expected = json.dumps(reader(name, language).describe(), sort_keys=True)
    # Workers of a cluster stand in another folder than this process.
    place = str(Path(name).resolve()) if address and name not in BUILT_IN and Path(name).is_dir() else name
    yield from map_chunks(annotator, (place, language, expected), chunks, workers, "annotate", address=address,
                          store=store, total=total, unit="text", measure=lambda chunk: chunk.num_rows)


def annotator(name: str, language: str = "en", expected: str | None = None) -> Callable[[pa.Table], pa.Table]:
    """Return the function that turns a chunk of texts into a chunk of tokens with pipeline ``name``.

    Args:
        name: as ``annotate.pipeline`` says it.
        language: of the texts.
        expected: JSON of the description that the pipeline must have; None takes any.

    Raises:
        InputError: the pipeline cannot be used, or is not the one that is expected.
    """
    annotator = reader(name, language)
    if expected is not None and json.dumps(annotator.describe(), sort_keys=True) != expected:
        raise InputError(f"annotate.pipeline: a worker's pipeline {name!r} is {annotator.describe()}, here it is "
                         f"{expected}. Install the same one on every machine of the cluster.")
    return lambda chunk: token_table(annotator.columns(chunk["text_id"].to_pylist(), chunk["text"].to_pylist()))


@cache
def reader(name: str, language: str) -> Annotator:
    """Return pipeline ``name`` for ``language``, loaded once per process."""
    return load_annotator(name, language)


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield ``tables`` of tokens joined to row groups, cut by what they hold and by nothing else."""
    group: list[pa.Table] = []
    texts = tokens = 0
    for table in tables:
        group.append(table)
        texts += table.num_rows
        tokens += pc.sum(pc.list_value_length(table["token"])).as_py() or 0
        if texts >= _GROUP_TEXTS or tokens >= _GROUP_TOKENS:
            yield pa.concat_tables(group).combine_chunks()
            group, texts, tokens = [], 0, 0
    if group:
        yield pa.concat_tables(group).combine_chunks()


def _survey(path: Path) -> tuple[set[str], int]:
    """Return the languages in table ``texts`` at ``path`` and the number of its rows."""
    languages: set[str] = set()
    rows = 0
    for batch in read_batches(path, "texts", ["language"]):
        languages |= set(batch["language"].unique().to_pylist())
        rows += batch.num_rows
    return languages, rows


def _one_language(languages: set[str], place: str) -> str:
    if len(languages) > 1:
        raise InputError(f"{place}: texts in {len(languages)} languages ({', '.join(sorted(languages))}), but one "
                         f"pipeline reads one. Make a data set of each language.")
    return next(iter(languages))


def _work(process: StageProcess) -> None:
    params = process.params
    paths = DatasetPaths(process.instance)
    source, chosen = paths.table("texts"), params.annotate
    languages, total = _survey(source)
    language = _one_language(languages or {params.datasets[process.instance].language}, str(source))
    by = reader(chosen.pipeline, language)
    key = hash_values({**process.computed_values, "model": by.describe(),
                       "code": hash_files(_CODE)})
    store = ChunkStore(process.scratch, key)
    chunks = stream_chunks(read_batches(source, "texts", _COLUMNS), chosen.chunk)
    tables = annotated(chunks, chosen.pipeline, language, total, params.runtime.workers, params.cluster.address, store)
    provenance = Provenance(process.name, process.params_hash,
                            models={by.engine: by.describe()})
    with table_writer(paths.table("tokens"), "tokens", provenance) as writer:
        for group in row_groups(tables):
            writer.write(group)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("annotate", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
