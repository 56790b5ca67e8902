"""Chunks of texts annotated by whatever reads them, here, by processes or by a cluster, and put into row groups."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.text import annotate
from keycontrast.text.annotators import BUILT_IN, load_annotator
from stages.common.chunk_store import ChunkStore
from stages.run.cluster_map import Cluster
from stages.run.pool import map_chunks

# A row group is written when it has so many texts, or tokens: enough to compress well, few enough to hold.
_GROUP_TEXTS = 8192
_GROUP_TOKENS = 1 << 20


def annotated(chunks: Iterable[pa.Table], name: str, language: str, total: int | None, workers: int = 1,
              cluster: Cluster | None = None, store: ChunkStore | None = None) -> Iterator[pa.Table]:
    """Yield the tokens of each chunk of texts, in order, under a bar that counts texts.

    Args:
        chunks: tables with ``text_id`` and ``text``, cut without regard to who works on them.
        name: as ``annotate.pipeline`` says it.
        language: of the texts.
        total: texts in all chunks, if that is known.
        workers: processes.
        cluster: whose workers take the place of processes of this machine.
        store: where finished chunks are kept.

    Raises:
        InputError: the pipeline cannot be used, or another one has its name where a worker runs.
    """
    yield from map_chunks(annotator, annotator_arguments(name, language, cluster), chunks, workers, "annotate",
                          cluster=cluster, store=store, total=total, unit="text",
                          measure=lambda chunk: chunk.num_rows)


def annotator_arguments(name: str, language: str, cluster: Cluster | None) -> tuple[Any, ...]:
    """Return what :func:`annotator` needs where workers of ``cluster``, or processes of this machine, call it.

    Raises:
        InputError: the pipeline cannot be used.
    """
    expected = json.dumps(load_annotator(name, language).describe(), sort_keys=True)
    if cluster is not None and name not in BUILT_IN and Path(name).is_dir():
        name = str(Path(name).resolve())  # workers stand in other folders
    return name, language, expected


def annotator(name: str, language: str = "en", expected: str | None = None) -> Callable[[pa.Table], pa.Table]:
    """Return the function that turns a chunk of texts into a chunk of tokens with pipeline ``name``.

    Args:
        name: as ``annotate.pipeline`` says it.
        language: of the texts.
        expected: JSON of the description that the pipeline must have; None takes any.

    Raises:
        InputError: the pipeline cannot be used, or is not the one that is expected.
    """
    reader = load_annotator(name, language)
    if expected is not None and json.dumps(reader.describe(), sort_keys=True) != expected:
        raise InputError(f"annotate.pipeline: a worker's pipeline {name!r} is {reader.describe()}, here it is "
                         f"{expected}. Install the same one on every machine of the cluster.")
    return annotate.annotator(name, language, cleaning=False)


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
