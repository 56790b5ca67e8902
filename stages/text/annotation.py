"""Chunks of texts annotated by whatever reads them, here or by processes, and put into row groups."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from threading import Thread

import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from stages.text.annotators import load_annotator
from stages.text.tokens import token_table

# A row group is written when it has so many texts, or tokens: enough to compress well, few enough to hold.
_GROUP_TEXTS = 8192
_GROUP_TOKENS = 1 << 20
# In a worker process: what it annotates with, by its name and language.
_LOADED: dict[tuple[str, str], Callable[[pa.Table], pa.Table]] = {}


def annotated(chunks: Iterable[pa.Table], name: str, language: str, total: int | None, workers: int = 1,
              delay: float = 0.0) -> Iterator[pa.Table]:
    """Yield the tokens of each chunk of texts, in order, under a bar that counts texts.

    Args:
        chunks: tables with ``text_id`` and ``text``, cut without regard to who works on them.
        name: as ``annotate.pipeline`` says it.
        language: of the texts.
        total: texts in all chunks, if that is known.
        workers: processes; one, or one chunk, is annotated in this process.
        delay: seconds until the bar is shown.

    Raises:
        InputError: the pipeline cannot be used.
    """
    rest = iter(chunks)
    first = list(islice(rest, 2))
    given = chain(first, rest)
    found = map(annotator(name, language), given) if workers <= 1 or len(first) < 2 else _by_processes(
        given, name, language, workers)
    with tqdm(total=total, desc="annotate", unit="text", leave=False, delay=delay, dynamic_ncols=True) as bar:
        for tokens in found:
            yield tokens
            bar.update(tokens.num_rows)


def _by_processes(chunks: Iterator[pa.Table], name: str, language: str, workers: int) -> Iterator[pa.Table]:
    load_annotator(name, language)  # what is wrong with it is said here
    with ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent) as pool:
        pending = deque(pool.submit(_annotate, name, language, chunk) for chunk in islice(chunks, 2 * workers))
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_annotate, name, language, chunk) for chunk in islice(chunks, 1))


def _end_with_parent() -> None:
    def end() -> None:
        parent = parent_process()
        assert parent is not None  # this is a worker
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()


def _annotate(name: str, language: str, chunk: pa.Table) -> pa.Table:
    if (name, language) not in _LOADED:
        _LOADED[name, language] = annotator(name, language)
    return _LOADED[name, language](chunk)


def annotator(name: str, language: str = "en") -> Callable[[pa.Table], pa.Table]:
    """Return the function that turns a chunk of texts into a chunk of tokens with pipeline ``name``.

    Args:
        name: as ``annotate.pipeline`` says it.
        language: of the texts.

    Raises:
        InputError: the pipeline cannot be used.
    """
    reader = load_annotator(name, language)
    return lambda chunk: token_table(reader.columns(chunk["text_id"].to_pylist(), chunk["text"].to_pylist()))


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
