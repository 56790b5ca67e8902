"""Candidates for a text's keyword, out of a ranking table."""

import pyarrow as pa

from stages.ranking.normal_form import normal_form
from stages.ranking.selection import Candidate, content_words
from stages.runtime.errors import InputError

STALE = "the tables are of different runs. Run `keycontrast run`."


def candidates(method: str, ranking: pa.Table, words: dict[int, list[str]],
               stops: dict[int, list[bool]]) -> dict[int, list[Candidate]]:
    """Return the candidates of each text that ``ranking`` says anything about.

    Args:
        method: ``textrank`` or ``attribution``.
        ranking: the table of that name.
        words: tokens of each text.
        stops: whether each is a stop word.

    Raises:
        InputError: the tables do not belong together.
    """
    return _phrases(ranking, words) if method == "textrank" else _scored_words(ranking, words, stops)


def _phrases(ranking: pa.Table, words: dict[int, list[str]]) -> dict[int, list[Candidate]]:
    """Return the ranked phrases of each text; none for a text that has only a status."""
    strange = words.keys() ^ set(ranking["text_id"].to_pylist())
    if strange:
        raise InputError(f"textrank.parquet: {len(strange)} texts, the first of them {min(strange)}, are not in both "
                         f"tables; {STALE}")
    found: dict[int, list[Candidate]] = {}
    columns = [ranking[name].to_pylist() for name in ("text_id", "keyword", "score", "start", "end")]
    for text, keyword, score, start, end in zip(*columns, strict=True):
        phrases = found.setdefault(text, [])
        if keyword is not None:
            if end > len(words[text]):
                raise InputError(f"textrank.parquet: a phrase of text {text} ends after its {len(words[text])} tokens; "
                                 f"{STALE}")
            phrases.append(Candidate(keyword, score, start, end))
    return found


def _scored_words(attribution: pa.Table, words: dict[int, list[str]],
                  stops: dict[int, list[bool]]) -> dict[int, list[Candidate]]:
    """Return the content words of each source text with their scores for the text paired with itself."""
    found = {}
    columns = [attribution[name].to_pylist() for name in ("text_id", "mode", "score")]
    for text, mode, scores in zip(*columns, strict=True):
        if mode != "xx":
            continue
        if len(scores) != len(words.get(text, [])):
            raise InputError(f"attribution.parquet: text {text} has {len(scores)} scores for "
                             f"{len(words.get(text, []))} tokens; {STALE}")
        found[text] = [Candidate(normal_form(words[text][place]), scores[place], place, place + 1)
                       for place in content_words(words[text], stops[text])]
    return found
