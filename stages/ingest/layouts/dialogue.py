"""Dialogues: a context of several turns, a response, and perhaps sampled responses with scores (METHODS A.1)."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.common.layouts import TURN
from stages.ingest.layouts.layout import Column, Layout


def dialogue_texts(content: Mapping[str, Any], turn_mark: str) -> list[Any]:
    """Return context, response and scored candidates of a row, given by role.

    Whether the response is a text is still to be checked.

    The turns of the context are joined by [SEP]; empty ones are left out. Candidates come in the order in which
    they are to be negatives: those of the half whose contexts are most similar (the first half of the list),
    the worst score first; of equal scores the earlier one.

    Args:
        content: ``context`` (list of turns, or one text), ``response`` (absent: the last turn), and perhaps
            ``candidates`` and ``scores``.
        turn_mark: what separates the turns of a context that is one text.

    Raises:
        ValueError: a part is missing or of a wrong type; the message is the reason, ``category: detail``.
    """
    turns = _turns(content.get("context"), turn_mark)
    if "response" in content:
        response = content["response"]
    elif len(turns) > 1:
        response = turns.pop()
    else:
        raise ValueError(f"empty text: context has {len(turns)} turns, and the last one is the response; two are "
                         f"needed")
    if not turns:
        raise ValueError("empty text: context has no turn")
    return [f" {TURN} ".join(turns), response, *_candidates(content)]


def _turns(value: Any, turn_mark: str) -> list[str]:
    if isinstance(value, str):
        value = value.split(turn_mark)
    if value is None or value != value:
        raise ValueError("empty text: context is missing")
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"not text: context is of type {type(value).__name__}")
    return [text for text in (_text(turn, f"turn {number} of context") for number, turn in enumerate(value, start=1)
                              if turn is not None) if text]


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not text: {place} is of type {type(value).__name__}")
    return value.strip()


def _candidates(content: Mapping[str, Any]) -> list[str]:
    texts, scores = content.get("candidates"), content.get("scores")
    if texts is None and scores is None:
        return []
    if not isinstance(texts, (list, tuple)) or not isinstance(scores, (list, tuple)):
        raise ValueError(f"candidates: must be a list of texts beside a list of scores, found "
                         f"{type(texts).__name__} and {type(scores).__name__}")
    if len(texts) != len(scores):
        raise ValueError(f"candidates: {len(texts)} texts and {len(scores)} scores")
    numbers = [_score(score, number) for number, score in enumerate(scores, start=1)]
    half = -(-len(texts) // 2)
    order = sorted(range(half), key=numbers.__getitem__)
    return [text for text in (_text(texts[place], f"candidate {place + 1}") for place in order) if text]


def _score(value: Any, number: int) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"candidates: score {number} must be a number, found {value!r}")
    return float(value)


def line_of_turns(line: str, path: Path) -> dict[str, Any]:
    """Return the row of a line as Wu et al. 2017 write it: label, turns and response, separated by tabs.

    Raises:
        ValueError: there are fewer than three fields; the message is the reason.
    """
    label, *texts = line.split("\t")
    if len(texts) < 2:
        raise ValueError(f"broken line: {1 + len(texts)} fields separated by tabs; a label, at least one turn and a "
                         f"response are needed")
    return {"label": label, "context": texts[:-1], "response": texts[-1]}


_SAMPLES, _DOCUMENT, _CONTEXT, _TURN = "__SAMP__", "__EOD__", "__EOC__", "__EOT__"


def line_with_samples(line: str, path: Path) -> dict[str, Any]:
    """Return the row of a line as Cai et al. 2020 write it.

    A number, the context with its turns separated by __EOT__, and behind a tab the response. After the context
    there may follow __SAMP__ and sampled pairs ``context __EOC__ response`` separated by __EOD__, the most
    similar contexts first; then __SAMP__ and the scores of the context with each sampled response; then
    __SAMP__ and those of each sampled context with the response, which are for other models than HCL.

    Raises:
        ValueError: the line has another form; the message is the reason.
    """
    before, tab, response = line.partition("\t")
    numbered = re.match(r"\s*\d+\s+", before)
    if not tab or not numbered:
        raise ValueError("broken line: must be a number, a context, a tab and a response")
    context, *more = before[numbered.end():].split(_SAMPLES)
    row: dict[str, Any] = {"context": context.split(_TURN), "response": response}
    if len(more) < 2:
        return row
    pairs = [pair.partition(_CONTEXT) for pair in more[0].split(_DOCUMENT)]
    if not all(mark for _, mark, _ in pairs):
        raise ValueError(f"broken line: a sampled pair has no {_CONTEXT} between context and response")
    return row | {"candidates": [text for _, _, text in pairs], "scores": _numbers(more[1].split())}


def _numbers(fields: Sequence[str]) -> list[float]:
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise ValueError(f"broken line: the scores must be numbers ({error})") from error


def _sources(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a dialogue: its turns one by one, or context and response."""
    turns = columns.get("turns") or []
    rest = {role: column for role, column in columns.items() if role != "turns" and not (
        turns and role in ("context", "response"))}
    return {**{f"turn{number}": column for number, column in enumerate(turns, start=1)}, **rest}


def _gathered(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a row whose turns stand in columns of their own as context and response."""
    turns = [value for role, value in content.items() if role.startswith("turn")]
    rest = {role: value for role, value in content.items() if not role.startswith("turn")}
    return {"context": turns[:-1], "response": turns[-1], **rest} if turns else rest


def _problem(columns: Mapping[str, Any]) -> str:
    if (turns := columns["turns"]) is not None and (not isinstance(turns, list) or len(turns) < 2):
        return "needs at least two columns in columns.turns, the last one of which is the response"
    if (columns["candidates"] is None) != (columns["scores"] is None):
        return "needs columns.candidates and columns.scores together: name both or none"
    return ""


_CONTEXT_COLUMN = Column("a list of turns, or a text that `turn_mark` cuts", "context", values="text or texts")
_FILES = "text files with one dialogue per line, named .txt"
LAYOUTS = (
    Layout("dialogue", "turns and a response, with or without scored candidates", {
        "context": _CONTEXT_COLUMN,
        "response": Column("null: the last turn of the context", "response", needed=False),
        "turns": Column("columns in place of both, the last one of the response", needed=False),
        "label": Column("0 or 1, whether the response is right", needed=False, values="truth"),
        "candidates": Column("sampled responses, the half whose contexts are most similar first", needed=False,
                             values="texts"),
        "scores": Column("how well each candidate fits the context", needed=False, values="numbers")},
           check=_problem, roles=_sources, convert=_gathered),
    Layout("douban_dialogue", "label, turns and response, as Wu et al. 2017 publish them", {
        "label": Column("0 or 1", "label", values="truth"), "context": _CONTEXT_COLUMN,
        "response": Column("a text", "response")}, True, "none", forms=(".txt",), files=_FILES, parse=line_of_turns),
    Layout("groupwise_dialogue", "a dialogue with or without scored samples, as Cai et al. 2020 publish them",
           {
               "context": _CONTEXT_COLUMN, "response": Column("a text", "response"),
               "candidates": Column("sampled responses", "candidates", values="texts"),
               "scores": Column("one per candidate", "scores", values="numbers")},
           True, "none", forms=(".txt",), files=_FILES, parse=line_with_samples),
)
