"""Texts annotated chunk by chunk, in this process or in several."""

import ctypes
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from multiprocessing import get_context
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.progress import progress_bar
from keycontrast.text.annotators import load_annotator
from keycontrast.text.tokens import annotate_texts, token_table

if TYPE_CHECKING:
    from spacy.language import Language

_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux
# A pipeline frees what it stored for some texts before it reads others, so threads take turns.
_READING = Lock()


def annotator(name: "str | Language", language: str = "en", cleaning: bool = True,
              counts: Counter[str] | None = None) -> Callable[[pa.Table], pa.Table]:
    """Return the function that turns a chunk of texts into a chunk of tokens.

    Args:
        name: of the pipeline, as :func:`keycontrast.text.annotators.load_annotator` takes it; or one of a caller.
        language: of the texts.
        cleaning: read cleaned texts (:mod:`keycontrast.text.clean`).
        counts: whose ``cleaned`` grows by the texts that cleaning has changed.
    """
    with _READING:
        columns = load_annotator(name, language).columns if isinstance(name, str) else partial(
            annotate_texts, name, given=True)

    def tokens_of(chunk: pa.Table) -> pa.Table:
        with _READING:
            made = columns(chunk["text_id"].to_pylist(), chunk["text"].to_pylist(), cleaning)
        if counts is not None:
            counts["cleaned"] += made.get("cleaned", 0)
        return token_table(made)

    return tokens_of


def annotated(chunks: Iterable[pa.Table], name: "str | Language", language: str, total: int | None = None,
              workers: int = 1, cleaning: bool = True) -> Iterator[pa.Table]:
    """Yield the tokens of each chunk of texts (``text_id``, ``text``), in order, under a bar that counts texts.

    Where chunks are cut decides how texts are batched, not the number of processes. A pipeline of a caller is used in
    this one. Others are as of :func:`annotator`.
    """
    work = annotator(name, language, cleaning)
    with progress_bar("annotate", total, "text", delay=2.0) as bar:
        for tokens in map(work, chunks) if workers <= 1 or not isinstance(name, str) else _by_processes(
                chunks, (name, language, cleaning), workers):
            yield tokens
            bar.update(tokens.num_rows)


def _by_processes(chunks: Iterable[pa.Table], reading: tuple[str, str, bool], workers: int) -> Iterator[pa.Table]:
    rest = iter(chunks)
    # Spawned, not forked: a fork would copy the locks of this process's threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as executor:
        try:
            pending = deque(executor.submit(_annotate, chunk, *reading) for chunk in islice(rest, 2 * workers))
            while pending:
                yield pending.popleft().result()
                pending.extend(executor.submit(_annotate, chunk, *reading) for chunk in islice(rest, 1))
        except BrokenProcessPool as error:
            raise InputError(f"annotate: a worker process ended before its work was done, most often for want of "
                             f"memory. Use fewer than {workers} workers.") from error
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _annotate(chunk: pa.Table, name: str, language: str, cleaning: bool) -> pa.Table:
    return annotator(name, language, cleaning)(chunk)
