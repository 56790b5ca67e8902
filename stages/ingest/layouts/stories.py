"""Stories of five sentences, and the inputs and outputs that they give (METHODS A.1, RocStories)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stages.ingest.layouts.layout import Column, Layout

SENTENCES = 5
MASK = "[MASK]"
# A sentence ends with these marks and whatever closes quotations or brackets behind them, before a space.
_END = re.compile("[.!?\u2026\u3002\uff01\uff1f]+[\"'\u201d\u2019)\\]]*(?=\\s|$)|[\u3002\uff01\uff1f]+\u201d?")
# What follows opens a sentence: a capital, a digit or a character without case, perhaps behind an opening mark.
_OPEN = re.compile("\\s*[\"'\u201c\u2018(\\[$]*([^\\W_])")
_LAST_WORD = re.compile(r"([^\W\d_][\w.]*)$")
_ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "st", "jr", "sr", "vs", "prof", "mt", "lt", "sgt", "capt", "gen",
                            "col"))


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` by a simple rule, stripped.

    A sentence ends with ``. ! ?`` or an ellipsis (or their full-width forms, which need no space behind them),
    together with closing quotation marks and brackets. It goes on, however, if the next word is in lower case,
    if a straight double quotation mark is still open, or if the full stop belongs to a title (Mr., Dr. and the
    like), to an initial (J. Smith) or to ``No.`` before a number.
    """
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        before, after = text[start:end.start()], text[end.end():]
        if text.count('"', start, end.end()) % 2 or not _opens(after) or (end[0] == "." and _shortened(before, after)):
            continue
        found.append(text[start:end.end()].strip())
        start = end.end()
    if text[start:].strip():
        found.append(text[start:].strip())
    return found


def _opens(after: str) -> bool:
    first = _OPEN.match(after)
    return first is None or not first[1].islower()


def _shortened(before: str, after: str) -> bool:
    """Say whether the full stop between the two belongs to a shortened word."""
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    if word[1].lower() == "no":
        return after.lstrip()[:1].isdigit()
    initial = word[1].isupper() and len(word[1].replace(".", "")) * 2 - 1 == len(word[1])
    return (initial and word[1] != "I") or word[1].lower() in _ABBREVIATIONS


def story_sentences(content: Mapping[str, Any]) -> list[Any]:
    """Return the five sentences of a row, given by role: ``story``, ``context`` and ``ending``, or one by one.

    Whether each of them is a text is still to be checked.

    Raises:
        ValueError: there are not five sentences; the message is the reason, ``category: detail``.
    """
    if "story" in content:
        return _listed(content["story"], "story", SENTENCES)
    if "ending" in content:
        return [*_listed(content["context"], "context", SENTENCES - 1), content["ending"]]
    return [content[role] for role in SENTENCE_ROLES]


SENTENCE_ROLES = tuple(f"sentence{number}" for number in range(1, SENTENCES + 1))


def story_texts(found: Sequence[str], mode: str) -> list[str]:
    """Return input, output and further texts of the story with sentences ``found`` under ``roc_mode``.

    Under ``next_sentence`` the further texts are inputs and outputs in turn, those of the shorter beginnings,
    so that the story has four items; else there are none.
    """
    if mode == "lead_to_rest":
        return [found[0], " ".join(found[1:])]
    texts = [" ".join(found[:-1]), found[-1]]
    if mode == "next_sentence":
        for length in range(1, SENTENCES - 1):
            texts += [" ".join(found[:length]), found[length]]
    return texts


def _listed(value: Any, role: str, wanted: int) -> list[Any]:
    if value is None or value != value or value == []:
        raise ValueError(f"empty text: {role} is missing")
    if isinstance(value, str):
        value = sentences(value)
        if len(value) != wanted:
            raise ValueError(f"sentences: {role} was cut into {len(value)} instead of {wanted}; give it as a list, or "
                             f"sentence by sentence, if the rule does not fit")
    elif not isinstance(value, (list, tuple)):
        raise ValueError(f"not text: {role} is of type {type(value).__name__}")
    if len(value) != wanted:
        raise ValueError(f"sentences: {role} has {len(value)} instead of {wanted}")
    return list(value)


def _sources(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a story: five sentences, a context and its ending, or the whole of it."""
    if "sentences" in columns:
        return dict(zip(SENTENCE_ROLES, columns["sentences"], strict=True))
    return {role: columns[role] for role in (("context", "ending") if "ending" in columns else ("story",))}


def _problem(columns: Mapping[str, Any]) -> str:
    listed = columns["sentences"]
    if listed is not None and (not isinstance(listed, list) or len(listed) != SENTENCES):
        return f"needs {SENTENCES} columns in columns.sentences, one for each sentence"
    if listed is not None and columns["ending"] is not None:
        return "takes columns.sentences or columns.ending (beside columns.context), not both: name one of them"
    return ""


_CLOSED = re.compile("([.!?\u2026]+[\"'\u201d\u2019)\\]]*\\s+)([a-z])")


def _chosen(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return context and right ending of an item of the Story Cloze Test."""
    right = content["right"]
    if right not in ("1", "2"):
        raise ValueError(f"right: must be 1 or 2, found {right!r}")
    return {"context": content["context"], "ending": content[f"ending{right}"]}


def _infilled(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the five sentences of a story whose middle was cut out.

    The published files have lower-cased all of ``missing`` but its first sentence, so a small letter opens a sentence
    there, and is written as a capital.
    """
    given, missing = content["context"], content["missing"]
    if not isinstance(given, str) or given.count(MASK) != 1:
        raise ValueError(f"context: must be text that holds {MASK} once, found {given!r}")
    if not isinstance(missing, str):
        raise ValueError("empty text: missing is not there")
    middle = _CLOSED.sub(lambda found: found[1] + found[2].upper(), missing)
    before, after = given.split(MASK)
    return {"story": [*sentences(before), *sentences(middle), *sentences(after)]}


LAYOUTS = (
    Layout("stories", "five sentences; `ingest.roc_mode` says what is input and what output", {
        "story": Column("a text, or a list of its five sentences", "story", values="text or texts"),
        "sentences": Column("five columns in its place", needed=False),
        "context": Column("beside `ending`: a text, or a list of four sentences", "context", values="text or texts"),
        "ending": Column("the fifth sentence", needed=False)}, roles=_sources, check=_problem),
    Layout("rocstories", "a story of ROCStories, as its CSV has it", {
        role: Column("a sentence", role) for role in SENTENCE_ROLES}, published=True, quoting="standard"),
    Layout("story_cloze", "four sentences and two endings, of which one is right", {
        "context": Column("a text, or a list of four sentences", "context", values="text or texts"),
        "ending1": Column("a fifth sentence", "ending1"), "ending2": Column("another", "ending2"),
        "right": Column("1 or 2: which of them is right", "right_ending", values="name")}, convert=_chosen),
    Layout("story_infilling", "a story with a gap, and the sentences that were there", {
        "context": Column(f"sentences, with {MASK} in place of some", "context_with_mask"),
        "missing": Column("these; all but the first may begin with a small letter", "missing_two_sentences")},
        convert=_infilled),
)
