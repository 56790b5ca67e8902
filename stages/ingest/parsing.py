"""Content by role of the lines and cells of published files."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.common.examples import TURN

SENTENCES = 5
MASK = "[MASK]"
SENTENCE_ROLES = tuple(f"sentence{number}" for number in range(1, SENTENCES + 1))
# A sentence ends with these marks and closing quotation marks or brackets, before a space.
_END = re.compile("[.!?\u2026\u3002\uff01\uff1f]+[\"'\u201d\u2019)\\]]*(?=\\s|$)|[\u3002\uff01\uff1f]+\u201d?")
# A sentence begins with a capital, a digit or a character without case, perhaps after an opening mark.
_OPEN = re.compile("\\s*[\"'\u201c\u2018(\\[$]*([^\\W_])")
_CLOSED = re.compile("([.!?\u2026]+[\"'\u201d\u2019)\\]]*\\s+)([a-z])")
_LAST_WORD, _SHORT = re.compile(r"([^\W\d_][\w.]*)$"), 40
_NUMBER = re.compile(r"\s*\d")
_ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "st", "jr", "sr", "vs", "prof", "mt", "lt", "sgt", "capt", "gen",
                            "col"))
_SAMPLES, _DOCUMENT, _CONTEXT, _TURN = "__SAMP__", "__EOD__", "__EOC__", "__EOT__"


class RowError(ValueError):
    """A row is rejected; the message is its reason, ``category: detail``."""


# Stories


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` by a simple rule, stripped.

    A sentence ends with ``. ! ?`` or an ellipsis (or their full-width forms, which need no space after them) and
    closing quotation marks and brackets; but not before a word in lower case, inside straight double quotation marks,
    or at the full stop of a title (Mr., Dr.), an initial (J. Smith) or ``No.`` before a number.
    """
    parts: list[str] = []
    start = counted = marks = 0
    for end in _END.finditer(text):
        marks, counted = marks + text.count('"', counted, end.end()), end.end()
        first = _OPEN.match(text, end.end())
        is_open = marks % 2 or (first is not None and first[1].islower())
        if not is_open and not (end[0] == "." and _shortened(text, start, end)):
            parts.append(text[start:end.end()].strip())
            start = end.end()
    return parts + [text[start:].strip()] * bool(text[start:].strip())


def _shortened(text: str, start: int, stop: re.Match[str]) -> bool:
    """Return whether the full stop of a sentence from ``start`` belongs to an abbreviation, which is short."""
    word = _LAST_WORD.search(text[max(start, stop.start() - _SHORT):stop.start()])
    if word is None:
        return False
    if word[1].lower() == "no":
        return _NUMBER.match(text, stop.end()) is not None
    initial = word[1].isupper() and len(word[1].replace(".", "")) * 2 - 1 == len(word[1])
    return (initial and word[1] != "I") or word[1].lower() in _ABBREVIATIONS


def story_columns(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a story: five sentences, a context and its ending, or the whole of it."""
    if "sentences" in columns:
        return dict(zip(SENTENCE_ROLES, columns["sentences"], strict=True))
    return {role: columns[role] for role in (("context", "ending") if "ending" in columns else ("story",))}


def story_problem(columns: Mapping[str, Any]) -> str:
    """Return the problem of the columns that the params name for a story, or nothing."""
    listed = columns["sentences"]
    if listed is not None and (not isinstance(listed, list)
                               or [len(listed), len({*map(str, listed)})] != [SENTENCES] * 2):
        return f"needs {SENTENCES} different columns in columns.sentences, one for each sentence"
    if listed is not None and columns["ending"] is not None:
        return "takes columns.sentences or columns.ending (beside columns.context), not both: name one of them"
    return ""


def story_sentences(content: Mapping[str, Any]) -> list[Any]:
    """Return the five sentences of a row, unchecked; raise a ``RowError`` if there are not five."""
    if "story" in content:
        return _listed(content["story"], "story", SENTENCES)
    if "ending" in content:
        return [*_listed(content["context"], "context", SENTENCES - 1), content["ending"]]
    return [content[role] for role in SENTENCE_ROLES]


def story_texts(sentences: Sequence[str], mode: str) -> list[str]:
    """Return input and output of the story of ``sentences`` under ``roc_mode``; under ``next_sentence`` also inputs and
    outputs in turn of the shorter beginnings, so that the story has four items."""
    if mode == "lead_to_rest":
        return [sentences[0], " ".join(sentences[1:])]
    texts = [" ".join(sentences[:-1]), sentences[-1]]
    if mode == "next_sentence":
        for length in range(1, SENTENCES - 1):
            texts += [" ".join(sentences[:length]), sentences[length]]
    return texts


def _listed(value: Any, role: str, wanted: int) -> list[Any]:
    if value is None or value != value or value == []:
        raise RowError(f"empty text: {role} is missing")
    if isinstance(value, str):
        value = sentences(value)
        if len(value) != wanted:
            raise RowError(f"sentences: {role} was cut into {len(value)} instead of {wanted}; give it as a list, or "
                             f"sentence by sentence, if the rule does not fit")
    elif not isinstance(value, (list, tuple)):
        raise RowError(f"not text: {role} is of type {type(value).__name__}")
    if len(value) != wanted:
        raise RowError(f"sentences: {role} has {len(value)} instead of {wanted}")
    return list(value)


def cloze_story(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return context and right ending of an item of the Story Cloze Test."""
    right = content["right"]
    if right not in ("1", "2"):
        raise RowError(f"right: must be 1 or 2, found {right!r}")
    return {"context": content["context"], "ending": content[f"ending{right}"]}


def infilled_story(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the five sentences of a story whose middle was cut out.

    The published files lower-case all of ``missing`` but its first sentence, so there a small letter begins a sentence
    and is made a capital.
    """
    given, missing = content["context"], content["missing"]
    if not isinstance(given, str) or given.count(MASK) != 1:
        raise RowError(f"context: must be text that holds {MASK} once, found {given!r}")
    if not isinstance(missing, str):
        raise RowError("empty text: missing is no text")
    middle = _CLOSED.sub(lambda match: match[1] + match[2].upper(), missing)
    before, after = given.split(MASK)
    return {"story": [*sentences(before), *sentences(middle), *sentences(after)]}


# Dialogues


def dialogue_columns(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a dialogue: its turns one by one, or context and response."""
    turns = columns.get("turns") or []
    left_out = ("turns", "context", "response") if turns else ("turns",)
    return {f"turn{number}": column for number, column in enumerate(turns, start=1)} | {
        role: column for role, column in columns.items() if role not in left_out}


def dialogue_problem(columns: Mapping[str, Any]) -> str:
    """Return the problem of the columns that the params name for a dialogue, or nothing."""
    if (turns := columns["turns"]) is not None and (not isinstance(turns, list)
                                                    or len({*map(str, turns)}) < max(2, len(turns))):
        return "needs at least two different columns in columns.turns, the last one of which is the response"
    if (columns["candidates"] is None) != (columns["scores"] is None):
        return "needs columns.candidates and columns.scores together: name both or none"
    return ""


def dialogue_of_turns(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a row with a column per turn as context and response."""
    turns = [value for role, value in content.items() if role.startswith("turn")]
    rest = {role: value for role, value in content.items() if not role.startswith("turn")}
    return {"context": turns[:-1], "response": turns[-1], **rest} if turns else rest


def dialogue_texts(content: Mapping[str, Any], turn_mark: str) -> list[Any]:
    """Return context, response (unchecked) and scored candidates of a row.

    A context that is one text is cut at ``turn_mark``; without a response its last turn is the response. Turns are
    joined by [SEP] without empty ones. Candidates are the first half of the list, whose contexts are most similar,
    sorted by rising score: the first one that is allowed becomes the negative.
    """
    value = content.get("context")
    if isinstance(value, str):
        value = value.split(turn_mark)
    if value is None or value != value:
        raise RowError("empty text: context is missing")
    if not isinstance(value, (list, tuple)):
        raise RowError(f"not text: context is of type {type(value).__name__}")
    turns = [_text(turn, f"turn {number} of context") for number, turn in enumerate(value, 1) if turn is not None]
    turns = [turn for turn in turns if turn]
    if "response" not in content and len(turns) < 2:
        raise RowError(f"empty text: context has {len(turns)} turns, and the last one is the response; two are "
                         f"needed")
    response = content["response"] if "response" in content else turns.pop()
    if not turns:
        raise RowError("empty text: context has no turn")
    return [f" {TURN} ".join(turns), response, *_candidates(content)]


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise RowError(f"not text: {place} is of type {type(value).__name__}")
    return value.strip()


def _candidates(content: Mapping[str, Any]) -> list[str]:
    texts, scores = content.get("candidates"), content.get("scores")
    if texts is None and scores is None:
        return []
    if not isinstance(texts, (list, tuple)) or not isinstance(scores, (list, tuple)):
        raise RowError(f"candidates: must be a list of texts beside a list of scores, found "
                         f"{type(texts).__name__} and {type(scores).__name__}")
    if len(texts) != len(scores):
        raise RowError(f"candidates: {len(texts)} texts and {len(scores)} scores")
    for number, score in enumerate(scores, start=1):
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) < math.inf:
            raise RowError(f"candidates: score {number} must be a number, found {score!r}")
    order = sorted(range(-(-len(texts) // 2)), key=scores.__getitem__)
    return [text for text in (_text(texts[place], f"candidate {place + 1}") for place in order) if text]


def douban_line(line: str, path: Path) -> dict[str, Any]:
    """Parse a line as Wu et al. 2017 write it: label, turns and response, separated by tabs."""
    label, *texts = line.split("\t")
    if len(texts) < 2:
        raise RowError(f"broken line: {1 + len(texts)} fields separated by tabs; a label, at least one turn and a "
                         f"response are needed")
    return {"label": label, "context": texts[:-1], "response": texts[-1]}


def groupwise_line(line: str, path: Path) -> dict[str, Any]:
    """Parse a line as Cai et al. 2020 write it: a number, the context with turns separated by __EOT__, a tab, the
    response.

    Three optional parts follow the context, each after __SAMP__: sampled pairs ``context __EOC__ response`` separated
    by __EOD__, the most similar contexts first; the scores of the context with each sampled response; and the scores of
    each sampled context with the response, which HCL does not use.
    """
    before, tab, response = line.partition("\t")
    numbered = re.match(r"\s*\d+\s+", before)
    if not tab or not numbered:
        raise RowError("broken line: must be a number, a context, a tab and a response")
    context, *more = before[numbered.end():].split(_SAMPLES)
    row: dict[str, Any] = {"context": context.split(_TURN), "response": response}
    if len(more) < 2:
        return row
    pairs = [pair.partition(_CONTEXT) for pair in more[0].split(_DOCUMENT)]
    if not all(mark for _, mark, _ in pairs):
        raise RowError(f"broken line: a sampled pair has no {_CONTEXT} between context and response")
    try:
        scores = [float(field) for field in more[1].split()]
    except ValueError as error:
        raise RowError(f"broken line: the scores must be numbers ({error})") from error
    return row | {"candidates": [text for _, _, text in pairs], "scores": scores}


# Classes


def trec_line(text: str, path: Path) -> dict[str, str]:
    """Parse ``DESC:manner How did ...`` (Li and Roth 2002); the coarse class is the label."""
    labels, _, question = text.partition(" ")
    coarse, colon, fine = labels.partition(":")
    if not (coarse and colon and fine and question.strip()):
        raise RowError("broken line: must read CLASS:kind, a space and the question, as in 'LOC:city What city ...'")
    return {"class": coarse, "kind": fine, "question": question.strip()}


def all_terms_line(text: str, path: Path) -> dict[str, str]:
    """Parse a class, a tab and a text (Cardoso-Cachopo 2007)."""
    label, tab, words = text.partition("\t")
    if not tab:
        raise RowError("broken line: must read class, tab, text; it has no tab")
    return {"class": label, "text": words}


def indexed_line(joined: str, path: Path) -> dict[str, str]:
    """Parse a line of an index, to which the text was joined by a tab (Yao et al. 2019)."""
    parts = joined.split("\t", 3)
    if len(parts) < 4:
        raise RowError("broken line: the index must read name, tab, split, tab, class")
    name, split, label, text = parts
    # The repository writes train and test, or names of folders that hold these words.
    splits = [word for word in ("test", "train") if word in split.lower()]
    if not splits:
        raise RowError(f"broken line: the index must name the split, train or test, behind the first tab; found "
                         f"{split!r}")
    return {"name": name, "split": splits[0], "class": label, "text": text}
