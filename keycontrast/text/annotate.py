"""Texts annotated chunk by chunk, in this process or in several, by a spaCy pipeline or by jieba."""

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.progress import progress_bar
from keycontrast.text.normal_form import HAN
from keycontrast.text.tokens import NAME, TokenColumns, annotate_texts, token_table

if TYPE_CHECKING:
    from spacy.language import Language

    from keycontrast.text.chinese import JiebaAnnotator

# A pipeline frees what it stored for some texts before it reads others, so threads take turns.
_READING = Lock()
# Languages of the pipeline `embedded`.
_EMBEDDED = {"en": "English", "zh": "Chinese"}
_ANY_LANGUAGE = "xx"    # spaCy's code for a pipeline of no particular language
_SHARP = "CFJQcfjq"     # programming languages whose names end with a sharp
_HAN = re.compile(f"[{HAN}]")
# A text with fewer letters tells no language; Latin letters with their accents end here.
_FEWEST_LETTERS, _LAST_LATIN = 4, "\u024f"


class SpacyAnnotator:
    """Reads texts by a spaCy pipeline; :class:`keycontrast.text.chinese.JiebaAnnotator` has the same methods."""

    engine = "spacy"  # key of the description in an artifact's metadata

    def __init__(self, nlp: "Language") -> None:
        self.nlp, self._tokenizer = nlp, nlp.tokenizer
        self._naming: Any = None

    def columns(self, text_ids: Sequence[int], texts: Sequence[str], cleaning: bool = False) -> TokenColumns:
        """Return the columns of the token table; see :func:`keycontrast.text.tokens.annotate_texts`."""
        if cleaning and self._naming is None:
            self._naming = _with_names(self._tokenizer)
        self.nlp.tokenizer = self._naming if cleaning else self._tokenizer
        return annotate_texts(self.nlp, text_ids, texts, cleaning)

    def describe(self) -> dict[str, Any]:
        """Return name, version, language, components and hash of the pipeline, and the version of spaCy."""
        from spacy.about import __version__

        from keycontrast.text.pipelines import hash_folder

        nlp = self.nlp
        return {"name": f"{nlp.lang}_{nlp.meta['name']}", "version": nlp.meta["version"], "language": nlp.lang,
                "components": list(nlp.pipe_names), "sha256": hash_folder(nlp.path) if nlp.path else None,
                "library": f"spacy {__version__}"}


def _with_names(tokenizer: Any) -> Any:
    """Return a copy of spaCy's tokenizer that keeps names such as C# and SARS-CoV-2 whole; others unchanged."""
    from spacy.tokenizer import Tokenizer

    if type(tokenizer) is not Tokenizer:
        return tokenizer
    copy = Tokenizer(tokenizer.vocab).from_bytes(tokenizer.to_bytes())
    copy.token_match = NAME.fullmatch
    for letter in _SHARP:
        copy.add_special_case(f"{letter}#", [{"ORTH": f"{letter}#"}])
    return copy


@cache
def load_annotator(name: str, language: str) -> "SpacyAnnotator | JiebaAnnotator":
    """Return, once per process, the annotator ``embedded``, ``jieba``, a spaCy package or a pipeline's folder."""
    if name == "embedded" and language not in _EMBEDDED:
        known = " and ".join(_EMBEDDED.values())
        raise InputError(f"the pipeline {name!r} reads {known}, but the texts are {language!r}. Name an installed "
                         f"spaCy pipeline for that language (annotate.pipeline, --pipeline), or correct the language.")
    if name == "jieba" or (name == "embedded" and language == "zh"):
        from keycontrast.text.chinese import JiebaAnnotator

        _check_language(name, "zh", language)
        return JiebaAnnotator()
    from keycontrast.text.pipelines import load_pipeline

    nlp = load_pipeline(name)
    _check_language(name, nlp.lang, language)
    return SpacyAnnotator(nlp)


def _check_language(name: str, made_for: str | None, language: str) -> None:
    if made_for not in (language, _ANY_LANGUAGE):
        raise InputError(f"the pipeline {name!r} is made for language {made_for!r}, but the texts are {language!r}. "
                         f"Name a pipeline for that language (annotate.pipeline, --pipeline), or correct the language "
                         f"(--language, or `language` of the data set).")


def is_foreign(text: str, language: str) -> bool:
    """Return whether most letters of a text are not Latin (``en``), or none is Han (``zh``); else False."""
    if language not in _EMBEDDED or (language == "en" and text.isascii()):
        return False
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) < _FEWEST_LETTERS:
        return False
    if language == "zh":
        return not any(map(_HAN.match, letters))
    return 2 * sum(letter <= _LAST_LATIN for letter in letters) < len(letters)


def annotator(name: "str | Language", language: str = "en", cleaning: bool = True,
              counts: Counter[str] | None = None) -> Callable[[pa.Table], pa.Table]:
    """Return the function from texts to tokens by a pipeline or its name; it counts changed texts as ``cleaned``."""
    with _READING:
        columns = load_annotator(name, language).columns if isinstance(name, str) else partial(
            annotate_texts, name, given=True)

    def tokens_of(chunk: pa.Table) -> pa.Table:
        with _READING:
            read = columns(chunk["text_id"].to_pylist(), chunk["text"].to_pylist(), cleaning)
        if counts is not None:
            counts["cleaned"] += read.get("cleaned", 0)
        return token_table(read)

    return tokens_of


def annotated(chunks: Iterable[pa.Table], name: "str | Language", language: str, total: int | None = None,
              workers: int = 1, cleaning: bool = True) -> Iterator[pa.Table]:
    """Yield the tokens of each chunk of texts (``text_id``, ``text``), in order; ``workers`` change no byte."""
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
            raise InputError(f"annotate: a worker process ended before its work was done. If memory was short, use "
                             f"fewer than {workers} workers. A script must work below "
                             f"`if __name__ == \"__main__\":`.") from error
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # Not by PR_SET_PDEATHSIG, which follows the thread that asked for the worker.
    parent_process().join()     # type: ignore[union-attr]
    os._exit(1)


def _annotate(chunk: pa.Table, name: str, language: str, cleaning: bool) -> pa.Table:
    return annotator(name, language, cleaning)(chunk)
