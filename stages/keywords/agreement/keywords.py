"""The best keywords of each text by each method, best first."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from stages.keywords.methods import COMPARED
from stages.normal_form import normal_form
from stages.ranking.selection import InverseFrequency, content_words
from stages.runtime.errors import InputError


def keywords_by_method(tables: Mapping[str, pa.Table], idf: InverseFrequency,
                       top: int) -> dict[str, list[list[str] | None]]:
    """Return, by method, the ``top`` keywords of each text in the order of ``tokens``; None where it says nothing.

    Args:
        tables: ``tokens``, and that of each method that has one.
        idf: IDF over training texts, which is a method itself.
        top: how many.

    Raises:
        InputError: a ranking of other texts than those of ``tokens``.
    """
    ids = tables["tokens"]["text_id"].to_pylist()
    words = dict(zip(ids, tables["tokens"]["token"].to_pylist(), strict=True))
    stops = dict(zip(ids, tables["tokens"]["is_stop"].to_pylist(), strict=True))
    found: dict[str, dict[int, list[str]]] = {}
    for name, method in COMPARED.items():
        if method.holds == "nothing":
            found[name] = idf_keywords(words, stops, idf, top)
        elif method.holds == "phrases":
            found[name] = phrase_keywords(tables[name], top)
            if strange := found[name].keys() ^ words.keys():
                raise InputError(f"{name}.parquet: {len(strange)} texts, the first of them {min(strange)}, are not in "
                                 f"both it and tokens.parquet. Run `keycontrast run`.")
        else:
            found[name] = scored_keywords(tables[name], stops, top)
    return {name: [of_text.get(text) for text in ids] for name, of_text in found.items()}


def phrase_keywords(ranking: pa.Table, top: int) -> dict[int, list[str]]:
    """Return the first ``top`` phrases of each text of a ranking; an empty list for a text without any."""
    found: dict[int, list[str]] = {}
    for text, keyword in zip(ranking["text_id"].to_pylist(), ranking["keyword"].to_pylist(), strict=True):
        phrases = found.setdefault(text, [])
        if keyword is not None and len(phrases) < top:
            phrases.append(keyword)
    return found


def scored_keywords(table: pa.Table, stops: Mapping[int, list[bool]], top: int) -> dict[int, list[str]]:
    """Return the ``top`` content words of each source text by the scores of a table of words.

    Scores are those of the text paired with itself (mode xx), which need no target. Words that score nothing are
    not named; of equal words the best counts; ties go to the earlier word.
    """
    found = {}
    columns = (table[name].to_pylist() for name in ("text_id", "mode", "word", "score"))
    for text, mode, words, scores in zip(*columns, strict=True):
        if mode == "xx":
            places = [place for place in content_words(words, stops[text]) if scores[place] > 0]
            found[text] = best(places, words, scores, top)
    return found


def idf_keywords(words: Mapping[int, list[str]], stops: Mapping[int, list[bool]], idf: InverseFrequency,
                 top: int) -> dict[int, list[str]]:
    """Return the ``top`` content words of each text by inverse document frequency; ties go to the earlier word."""
    return {text: best(content_words(tokens, stops[text]), tokens, [idf.of(token) for token in tokens], top)
            for text, tokens in words.items()}


def best(places: Iterable[int], words: Sequence[str], scores: Sequence[float], top: int) -> list[str]:
    """Return the ``top`` distinct words at ``places`` in normal form, by score, then by position."""
    ordered = sorted(places, key=lambda place: (-scores[place], place))
    return list(dict.fromkeys(normal_form(words[place]) for place in ordered))[:top]
