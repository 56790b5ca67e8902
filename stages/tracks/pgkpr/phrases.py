"""Words of the best phrases of a ranking as keywords, as many as attribution expects of the text.

    marks = phrase_words(textrank, read_words(tokens), expected)  # aligned with tokens
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.tracks.pgkpr.words import STALE, TextWords, positions, within


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
    rows = ranked(ranking).sort_by([("text_id", "ascending"), ("rank", "ascending")])
    text = words.positions(rows["text_id"].to_numpy())
    start, end = (rows[name].to_numpy().astype(np.int64) for name in ("token_start", "token_end"))
    check_ends(rows["text_id"].to_numpy(), end, np.diff(words.offsets)[text])
    lengths = end - start
    token = np.repeat(words.offsets[text] + end - 1, lengths) - within(lengths)
    token = token[words.kept[token]]     # white space is no word
    token = token[np.sort(np.unique(token, return_index=True)[1])]   # of overlapping phrases the better one has it
    owner = np.searchsorted(words.offsets, token, side="right") - 1
    taken = within(np.bincount(owner, minlength=len(words.ids))) < np.rint(expected)[owner]
    mask = np.zeros(len(words.kept), dtype=bool)
    mask[token[taken]] = True
    return pa.ListArray.from_arrays(pa.array(words.offsets, pa.int32()), pa.array(mask))


def ranked(ranking: pa.Table) -> pa.Table:
    """Return the rows that rank a phrase; a text without any has but a row that says so."""
    return ranking.filter(pc.greater(ranking["rank"], 0))


def check_ends(text_ids: np.ndarray, end: np.ndarray, tokens: np.ndarray) -> None:
    """Check that phrases end within their texts.

    Args:
        text_ids: text of each phrase.
        end: token behind its last.
        tokens: how many its text has.

    Raises:
        InputError: a phrase ends behind its text.
    """
    late = np.flatnonzero(end > tokens)
    if len(late):
        raise InputError(f"table textrank: a phrase of text {text_ids[late[0]]} ends after its last token. {STALE}")
