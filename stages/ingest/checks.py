"""What a row must be to be taken: texts with letters or digits, no two of them the same, a label that is one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stages.common.layouts import structure_of
from stages.ingest.layouts import roles_of
from stages.ingest.parsing import dialogue_texts, story_sentences, story_texts
from stages.ingest.rows import RawRow, text_fault
from stages.ingest.text_keys import join_han, text_key

if TYPE_CHECKING:
    from stages.ingest.params import Dataset

_PARAPHRASE = {0: "0", 1: "1", "0": "0", "1": "1"}
TEXT_ROLES: Mapping[str, tuple[str, ...]] = {
    "pairs": ("source", "target"), "triples": ("source", "target", "negative"),
    "captions": ("text",), "labelled": ("text",), "texts": ("text",), "stories": ("input", "output"),
    "dialogue": ("context", "response")}


class RowError(ValueError):
    """A row cannot be taken; the message is its reason, ``category: detail``."""


class Checked(NamedTuple):
    """A row that can be taken.

    Attributes:
        surfaces: its texts, in the order of ``TEXT_ROLES``; behind them inputs and outputs of a story's shorter
            beginnings in turn, or the candidates of a dialogue.
        keys: their text keys.
        label: ``1`` or ``0`` of a pair or response; the class of a labelled text; else ``1``.
        group: name of the group of a caption; key of the first sentence of a story, or of the context of a
            dialogue, by which they belong together; else empty.
    """

    surfaces: Sequence[str]
    keys: Sequence[str]
    label: str
    group: str


class RowCheck:
    """Checks the rows of a data set, of which stories give what ``mode`` (``roc_mode``) says."""

    def __init__(self, dataset: "Dataset", mode: str = "ending") -> None:
        self._structure, self._mode = structure_of(dataset.layout), mode
        self._has_label = "label" in roles_of(dataset)
        self._roles, self._continuations = TEXT_ROLES[self._structure], self._structure in ("stories", "dialogue")
        self._turn_mark = dataset.turn_mark
        self._join_han = dataset.join_han

    def __call__(self, row: RawRow) -> Checked:
        """Return the texts, label and group of ``row``.

        Raises:
            RowError: it cannot be taken.
        """
        if row.problem or isinstance(row.content, str):
            raise RowError(row.problem or "broken line: not parsed")
        surfaces, opening = self._surfaces(row.content)
        keys = self._keys(surfaces)
        label, group = "1", text_key(opening) if opening else ""
        if self._structure == "labelled":
            label = _name(row.content.get("label"), "label")
        elif self._structure == "captions":
            group = _name(row.content.get("group"), "group")
        elif self._structure in ("pairs", "dialogue") and self._has_label and "label" in row.content:
            label = _paraphrase(row.content.get("label"))
        if self._structure == "dialogue" and len(keys) > len(TEXT_ROLES["dialogue"]):
            surfaces, keys = _usable(surfaces, keys)
        return Checked(surfaces, keys, label, group)

    def _surfaces(self, content: Mapping[str, Any]) -> tuple[list[str], str]:
        """Return the texts, and that by which the row belongs to others, if it is known from one row alone."""
        if not self._continuations:
            return [self._text(content.get(role), role) for role in self._roles], ""
        try:
            if self._structure == "stories":
                found = [self._text(text, f"sentence {number}") for number, text in
                         enumerate(story_sentences(content), start=1)]
                return story_texts(found, self._mode), found[0]
            context, response, *candidates = dialogue_texts(content, self._turn_mark)
        except RowError:
            raise
        except ValueError as error:
            raise RowError(str(error)) from error
        texts = [self._text(context, "context"), self._text(response, "response"),
                 *(self._text(candidate, "candidate") for candidate in candidates)]
        return texts, texts[0]

    def _text(self, value: Any, role: str) -> str:
        if value is None:
            raise RowError(f"empty text: {role} is missing")
        if not isinstance(value, str):
            raise RowError(f"not text: {role} is of type {type(value).__name__}")
        text = value.strip()
        if not text:
            raise RowError(f"empty text: {role}")
        if fault := text_fault(text, role):
            raise RowError(fault)
        return join_han(text) if self._join_han else text

    def _keys(self, surfaces: Sequence[str]) -> list[str]:
        """Return the keys of the texts, once none is empty and none of those that belong together are the same."""
        keys = [text_key(surface) for surface in surfaces]
        roles = self._roles
        for place, role in enumerate(roles):
            if not keys[place]:
                raise RowError(f"empty text: {role} has no letter or digit")
            if keys[place] in keys[:place]:
                raise RowError(f"same text: {roles[keys.index(keys[place])]} and {role} have the same letters and "
                               f"digits")
        if self._structure == "stories":
            for place in range(len(roles), len(keys)):
                if not keys[place]:
                    raise RowError(f"empty text: {surfaces[place]!r} has no letter or digit")
                if place % 2 and keys[place] == keys[place - 1]:
                    raise RowError("same text: the first two sentences have the same letters and digits")
        return keys


def _usable(surfaces: Sequence[str], keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Leave out candidates that can be no negatives: without letters, repeated, or the row's own texts."""
    kept: dict[str, str] = {}
    for key, surface in zip(keys, surfaces, strict=True):
        if key:
            kept.setdefault(key, surface)
    return list(kept.values()), list(kept)


def _name(value: Any, role: str) -> str:
    """Return the name of a class or group; readers spell all names as text."""
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{role}: must be a name, found {value!r}")
    if fault := text_fault(value, role):
        raise RowError(fault)
    return value.strip()


def _paraphrase(value: Any) -> str:
    plain = value.strip() if isinstance(value, str) else value
    # True and 1.0 are 1 in Python; NaN, dictionaries and the like are not.
    if not isinstance(plain, (bool, int, float, str)) or plain not in _PARAPHRASE:
        raise RowError(f"label: must be 0 or 1, found {value!r}")
    return _PARAPHRASE[plain]  # type: ignore[index]
