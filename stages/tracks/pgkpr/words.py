"""Texts as the words and tags that models of the PGKPR track read, for whole token tables at once.

    words = read_words(tokens)
    words.words, words.tags  # a list per text
    words.beside("table attribution", ids, scores)  # lists aligned with tokens, made aligned with words
    phrase_words(textrank, words, expected)  # words of the best phrases, as many as attribution expects
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
from stages.common.schemas import STRINGS

# Texts as words in a table, for those that are read and put aside piece by piece: see TextWords.of_rows.
WORD_ROWS = pa.schema([("text_id", pa.int64()), ("words", STRINGS), ("tags", STRINGS), ("kept", pa.list_(pa.bool_()))])
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

    @classmethod
    def of_rows(cls, rows: pa.Table) -> "TextWords":
        """Return the texts that such ``rows`` hold as :meth:`as_rows` makes, by ascending id."""
        kept = rows["kept"]
        return cls(rows["text_id"].to_numpy(), _one(rows["words"]), _one(rows["tags"]),
                   np.append(0, np.cumsum(list_lengths(kept))), _one(pc.list_flatten(kept)).to_numpy(False))

    def as_rows(self) -> pa.Table:
        """Return the texts as a table of schema WORD_ROWS."""
        kept = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.kept))
        return pa.table([pa.array(self.ids), self.words, self.tags, kept], schema=WORD_ROWS)

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return where each of ``text_ids`` stands among ``ids``; an InputError where one of them does not."""
        return positions(self.ids, text_ids, "table tokens")

    def beside(self, table: str, text_ids: np.ndarray, lists: pa.ChunkedArray) -> pa.ListArray:
        """Return R ``lists``, aligned with the tokens of the texts ``text_ids`` (R,), aligned with their words.

        Raises:
            InputError: a list is not as long as its text has tokens.
        """
        at = self.positions(text_ids)
        lengths, found = np.diff(self.offsets)[at], list_lengths(lists)
        wrong = np.flatnonzero(lengths != found)
        if len(wrong):
            raise InputError(f"{table}: text {text_ids[wrong[0]]} has values for {found[wrong[0]]} words, and "
                             f"{lengths[wrong[0]]} tokens in table tokens. {STALE}")
        kept = self.kept[np.repeat(self.offsets[at], lengths) + within(lengths)]
        return _filtered(pc.list_flatten(lists), lengths, kept)


def read_words(tokens: pa.Table) -> TextWords:
    """Return the texts of table ``tokens`` (columns ``text_id``, ``token`` and ``tag``) as words.

    Raises:
        InputError: a word has no tag, or the lists of tags are not as long as those of tokens.
    """
    untagged = Faults()
    texts = words_of(tokens, untagged)
    untagged.check()
    return texts


def words_of(tokens: pa.Table, untagged: Faults) -> TextWords:
    """Return the texts of a piece of table ``tokens`` as words; those without a tag are added to ``untagged``.

    Raises:
        InputError: the lists of tags are not as long as those of tokens.
    """
    ordered = tokens.sort_by("text_id")
    lengths = list_lengths(ordered["token"])
    wrong = np.flatnonzero(lengths != list_lengths(ordered["tag"]))
    if len(wrong):
        raise InputError(f"table tokens: text {ordered['text_id'][int(wrong[0])]} has other numbers of tokens and of "
                         f"tags. Run the stage annotate again.")
    written, tags = (pc.list_flatten(ordered[name]) for name in ("token", "tag"))
    # Each distinct token is looked at once.
    coded = _one(written).dictionary_encode()
    known, place = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    kept = np.array([bool(token.strip()) for token in known], dtype=bool)[place]
    lower = pa.array([token.lower() for token in known], pa.string()).take(coded.indices)
    texts = TextWords(ordered["text_id"].to_numpy(), _filtered(lower, lengths, kept), _filtered(tags, lengths, kept),
                      np.append(0, np.cumsum(lengths)), kept)
    without = np.flatnonzero(pc.equal(texts.tags.values, "").to_numpy(zero_copy_only=False))
    untagged.add(len(without), lambda more: _without_tag(texts, int(without[0]), more))
    return texts


def _without_tag(texts: TextWords, word: int, more: int) -> str:
    text = int(np.searchsorted(texts.words.offsets.to_numpy(), word, side="right")) - 1
    return (f"table tokens: word {texts.words.values[word].as_py()!r} of text {texts.ids[text]} has no tag, and "
            f"{more} more have none. Name a pipeline that tags parts of speech in annotate.pipeline.")


def positions(ids: np.ndarray, wanted: np.ndarray, table: str) -> np.ndarray:
    """Return where each of ``wanted`` stands among ``ids``, ascending.

    Raises:
        InputError: one of them is not there; the message names ``table``.
    """
    found = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
    missing = np.flatnonzero(ids[found] != wanted) if len(ids) else np.arange(len(wanted))
    if len(missing):
        raise InputError(f"{table}: text {wanted[missing[0]]} has no row. {STALE}")
    return found


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


def phrase_words(ranking: pa.Table, words: TextWords, expected: np.ndarray) -> pa.ListArray:
    """Return which tokens of each text are keywords by a ranking of phrases.

    Phrases give their words best phrase first, and within a phrase the last word first, which is its head, until
    round(expected) words of the text are marked. So a text has as many keywords as attribution gives it on average,
    and two ways to choose are compared at one share of words; it has fewer where its phrases have fewer words. The
    words of a phrase are those of its first occurrence.

    Args:
        ranking: table ``textrank`` (columns ``text_id``, ``rank``, ``token_start`` and ``token_end``), with rows of
            every text.
        words: T texts.
        expected: keywords that attribution expects of each, the sum of its scores (T,).

    Returns:
        A list per text, as long as it has tokens.

    Raises:
        InputError: a text is in one of the tables alone, or a phrase ends behind its text.
    """
    positions(np.unique(ranking["text_id"].to_numpy()), words.ids, "table textrank")
    rows = ranking.filter(pc.greater(ranking["rank"], 0)).sort_by([("text_id", "ascending"), ("rank", "ascending")])
    text = words.positions(rows["text_id"].to_numpy())
    start, end = (rows[name].to_numpy().astype(np.int64) for name in ("token_start", "token_end"))
    late = np.flatnonzero(end > np.diff(words.offsets)[text])
    if len(late):
        raise InputError(f"table textrank: a phrase of text {words.ids[text[late[0]]]} ends after its last token. "
                         f"{STALE}")
    lengths = end - start
    token = np.repeat(words.offsets[text] + end - 1, lengths) - within(lengths)
    token = token[words.kept[token]]     # white space is no word
    token = token[np.sort(np.unique(token, return_index=True)[1])]   # of overlapping phrases the better one has it
    owner = np.searchsorted(words.offsets, token, side="right") - 1
    taken = within(np.bincount(owner, minlength=len(words.ids))) < np.rint(expected)[owner]
    mask = np.zeros(len(words.kept), dtype=bool)
    mask[token[taken]] = True
    return pa.ListArray.from_arrays(pa.array(words.offsets, pa.int32()), pa.array(mask))
