"""The best keywords of each text by each method, best first."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from stages.normal_form import normal_form
from stages.ranking.selection import InverseFrequency, content_words

METHODS = ("textrank", "attribution", "psi", "yake", "idf")
Keywords = Mapping[int, list[str]]


def textrank_keywords(ranking: pa.Table, top: int) -> dict[int, list[str]]:
    """Return the first ``top`` phrases of each text of table ``textrank``; an empty list for a text without any."""
    found: dict[int, list[str]] = {}
    for text, keyword in zip(ranking["text_id"].to_pylist(), ranking["keyword"].to_pylist(), strict=True):
        phrases = found.setdefault(text, [])
        if keyword is not None and len(phrases) < top:
            phrases.append(keyword)
    return found


def scored_keywords(table: pa.Table, stops: Mapping[int, list[bool]], top: int) -> dict[int, list[str]]:
    """Return the ``top`` content words of each source text by the scores of table ``attribution`` or ``psi``.

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


def yake_extractor(language: str, top: int) -> Callable[[list[str]], list[list[str]]]:
    """Return the function from texts to their ``top`` phrases by YAKE, in normal form.

    Args:
        language: ISO 639-1 code; YAKE brings stop words for some thirty languages, and none for the others.
        top: phrases per text.
    """
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan=language, n=3, top=top)

    def extract(texts: list[str]) -> list[list[str]]:
        return [list(dict.fromkeys(normal_form(phrase) for phrase, _ in extractor.extract_keywords(text)))
                for text in texts]

    return extract
