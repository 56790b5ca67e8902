"""The best keywords of each text by each method, best first."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from stages.common.methods import COMPARED, METHODS, Holds
from stages.common.normal_form import normal_form
from stages.keywords.choice import scored_alone
from stages.ranking.blocks import TokenBlock
from stages.ranking.selection import InverseFrequency, content_words
from stages.run.errors import Faults

# Columns that are read of table ``tokens``, and of a method's table by what it holds.
TOKEN_COLUMNS = ["text_id", "token", "is_stop"]
_COLUMNS: dict[Holds, list[str]] = {"phrases": ["text_id", "keyword"], "scores": ["text_id", "mode", "word", "score"],
                                    "primary words": ["text_id", "mode", "word", "score"]}


def compared_columns(method: str) -> list[str]:
    """Return the columns that are read of the table of ``method``."""
    return _COLUMNS[METHODS[method].holds]


def keywords_by_method(tokens: pa.Table, tables: Mapping[str, pa.Table], idf: InverseFrequency, top: int,
                       strange: Mapping[str, Faults]) -> dict[str, list[list[str] | None]]:
    """Return, by method, the ``top`` keywords of each text in the order of ``tokens``; None where it says nothing.

    Args:
        tokens: rows of table ``tokens``, by text id.
        tables: the rows for these texts of each method that has a table.
        idf: IDF over training texts, which is a method itself.
        top: how many.
        strange: by method, takes the texts that are in a ranking of phrases or in ``tokens`` alone.

    Raises:
        InputError: words are scored of a text that is not there, or of other words than it has.
    """
    ids = tokens["text_id"].to_pylist()
    words, stops = (dict(zip(ids, tokens[name].to_pylist(), strict=True)) for name in ("token", "is_stop"))
    found: dict[str, dict[int, list[str]]] = {}
    for name, method in COMPARED.items():
        if method.holds == "nothing":
            found[name] = idf_keywords(words, stops, idf, top)
        elif method.holds == "phrases":
            found[name] = phrase_keywords(tables[name], top)
            note_strange(name, found[name].keys() ^ words.keys(), strange[name])
        else:
            rows, _ = scored_alone(TokenBlock(tokens), tables[name], name)
            found[name] = scored_keywords(rows, stops, top)
    return {name: [of_text.get(text) for text in ids] for name, of_text in found.items()}


def note_strange(name: str, texts: Iterable[int], faults: Faults) -> None:
    """Add texts that are not in both the table of method ``name`` and the tokens."""
    strange = sorted(texts)
    faults.add(len(strange), lambda more: (
        f"{name}.parquet: {1 + more} texts, the first of them {strange[0]}, are not in both it and tokens.parquet. Run "
        f"`keycontrast run`."))


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
    alone = table.filter(pc.equal(table["mode"], "xx"))
    columns = (alone[name].to_pylist() for name in ("text_id", "word", "score"))
    for text, words, scores in zip(*columns, strict=True):
        places = [place for place in content_words(words, stops[text]) if scores[place] > 0]
        found[text] = best(places, words, scores, top)
    return found


def idf_keywords(words: Mapping[int, list[str]], stops: Mapping[int, list[bool]], idf: InverseFrequency,
                 top: int) -> dict[int, list[str]]:
    """Return the ``top`` content words of each text by inverse document frequency; ties go to the earlier word."""
    values = {token: idf.of(token) for token in {token for tokens in words.values() for token in tokens}}
    return {text: best(content_words(tokens, stops[text]), tokens, [values[token] for token in tokens], top)
            for text, tokens in words.items()}


def best(places: Iterable[int], words: Sequence[str], scores: Sequence[float], top: int) -> list[str]:
    """Return the ``top`` distinct words at ``places`` in normal form, by score, then by position."""
    ordered = sorted(places, key=lambda place: (-scores[place], place))
    return list(dict.fromkeys(normal_form(words[place]) for place in ordered))[:top]
