"""Texts as the words and tags that models of the PGKPR track read, for whole token tables at once (METHODS C.1).

    words = read_words(tokens)
    words.words, words.tags  # a list per text
    words.beside("attribution.parquet", ids, scores)  # lists aligned with tokens, made aligned with words
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.runtime.errors import InputError

STALE = "The tables were made from different texts: run the stages from ingest on again with `keycontrast run`."


@dataclass(frozen=True)
class TextWords:
    """Texts as words: their tokens in lower case, those of white space left out.

    Attributes:
        ids: text ids, ascending (T,).
        words: a list of words per text.
        tags: the tag of each word, which the annotation took from the text as written.
        offsets: text t has the tokens ``offsets[t]:offsets[t + 1]``, white space included (T + 1,).
        kept: which tokens are words (N,).
    """

    ids: np.ndarray
    words: pa.ListArray
    tags: pa.ListArray
    offsets: np.ndarray
    kept: np.ndarray

    @cached_property
    def lengths(self) -> np.ndarray:
        """Words of each text (T,)."""
        return np.diff(self.words.offsets.to_numpy())

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return where each of ``text_ids`` stands among ``ids``.

        Raises:
            InputError: one of them is not there.
        """
        return positions(self.ids, text_ids, "tokens.parquet")

    def beside(self, table: str, text_ids: np.ndarray, lists: pa.ChunkedArray) -> pa.ListArray:
        """Return ``lists``, aligned with the tokens of the texts ``text_ids``, aligned with their words.

        Args:
            table: name of the file that they are from, for errors.
            text_ids: text of each list (R,).
            lists: R lists.

        Raises:
            InputError: a list is not as long as its text has tokens.
        """
        at = self.positions(text_ids)
        lengths, found = np.diff(self.offsets)[at], list_lengths(lists)
        wrong = np.flatnonzero(lengths != found)
        if len(wrong):
            raise InputError(f"{table}: text {text_ids[wrong[0]]} has values for {found[wrong[0]]} words, and "
                             f"{lengths[wrong[0]]} tokens in tokens.parquet. {STALE}")
        kept = self.kept[np.repeat(self.offsets[at], lengths) + within(lengths)]
        return _filtered(pc.list_flatten(lists), lengths, kept)


def read_words(tokens: pa.Table) -> TextWords:
    """Return the texts of table ``tokens`` (columns ``text_id``, ``token`` and ``tag``) as words.

    Raises:
        InputError: a word has no tag, or the lists of tags are not as long as those of tokens.
    """
    ordered = tokens.sort_by("text_id")
    lengths = list_lengths(ordered["token"])
    wrong = np.flatnonzero(lengths != list_lengths(ordered["tag"]))
    if len(wrong):
        raise InputError(f"tokens.parquet: text {ordered['text_id'][int(wrong[0])]} has other numbers of tokens and of "
                         f"tags. Run the stage annotate again.")
    written, tags = (pc.list_flatten(ordered[name]) for name in ("token", "tag"))
    kept = encoded_as(written, lambda token: bool(token.strip()), pa.bool_()).to_numpy(zero_copy_only=False)
    texts = TextWords(
        ordered["text_id"].to_numpy(), _filtered(encoded_as(written, str.lower, pa.string()), lengths, kept),
        _filtered(tags, lengths, kept), np.append(0, np.cumsum(lengths)), kept)
    _check_tags(texts)
    return texts


def _check_tags(texts: TextWords) -> None:
    untagged = np.flatnonzero(pc.equal(texts.tags.values, "").to_numpy(zero_copy_only=False))
    if len(untagged):
        text = int(np.searchsorted(texts.words.offsets.to_numpy(), untagged[0], side="right")) - 1
        raise InputError(f"tokens.parquet: word {texts.words.values[int(untagged[0])].as_py()!r} of text "
                         f"{texts.ids[text]} has no tag, and {len(untagged) - 1} more have none. Name a pipeline that "
                         f"tags parts of speech in annotate.pipeline.")


def positions(ids: np.ndarray, wanted: np.ndarray, table: str) -> np.ndarray:
    """Return where each of ``wanted`` stands among ``ids``, ascending.

    Raises:
        InputError: one of them is not there; the message names ``table``.
    """
    found = np.searchsorted(ids, wanted)
    missing = np.flatnonzero(np.append(ids, -1)[found] != wanted)
    if len(missing):
        raise InputError(f"{table}: text {wanted[missing[0]]} has no row. {STALE}")
    return found


def encoded_as(values: pa.Array | pa.ChunkedArray, change: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """Return ``values`` (N,), each distinct one put through ``change`` once."""
    coded = _one(values).dictionary_encode()
    return pa.array([change(value) for value in coded.dictionary.to_pylist()], kind).take(coded.indices)


def list_lengths(lists: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the length of each list, int64."""
    return pc.list_value_length(_one(lists)).to_numpy(zero_copy_only=False).astype(np.int64)


def within(lengths: np.ndarray) -> np.ndarray:
    """Return the place within its list of every value of lists that stand one after another (sum of ``lengths``,)."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _filtered(values: pa.Array | pa.ChunkedArray, lengths: np.ndarray, kept: np.ndarray) -> pa.ListArray:
    bounds = np.append(0, np.cumsum(lengths))
    offsets = np.append(0, np.cumsum(kept))[bounds]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _one(values).filter(pa.array(kept)))


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
