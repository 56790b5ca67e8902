"""What a row must be to be taken: texts with letters or digits, no two of them the same, a label that is one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stages.ingestion.readers import RawRow, is_unicode
from stages.ingestion.textkeys import text_key

_PARAPHRASE = {0: "0", 1: "1", "0": "0", "1": "1"}
TEXT_ROLES: Mapping[str, tuple[str, ...]] = {
    "pairs": ("source", "target"), "triples": ("source", "target", "negative"),
    "captions": ("text",), "labelled": ("text",)}


class RowError(ValueError):
    """A row cannot be taken; the message is its reason, ``category: detail``."""


class Checked(NamedTuple):
    """A row that can be taken.

    Attributes:
        surfaces: its texts, in the order of ``TEXT_ROLES``.
        keys: their text keys.
        label: ``1`` or ``0`` for a pair that says the same or not; the class of a labelled text; else ``1``.
        group: name of the group of a caption; else empty.
    """

    surfaces: Sequence[str]
    keys: Sequence[str]
    label: str
    group: str


def checked(row: RawRow, structure: str, has_label: bool) -> Checked:
    """Return the texts, label and group of ``row``.

    Args:
        row: as it was read.
        structure: ``pairs``, ``triples``, ``captions`` or ``labelled``.
        has_label: whether pairs carry a label; without one they are paraphrases.

    Raises:
        RowError: it cannot be taken.
    """
    if row.problem or isinstance(row.content, str):
        raise RowError(row.problem or "broken line: not parsed")
    roles = TEXT_ROLES[structure]
    surfaces = [_text(row.content.get(role), role) for role in roles]
    keys = [text_key(surface) for surface in surfaces]
    for place, role in enumerate(roles):
        if not keys[place]:
            raise RowError(f"empty text: {role} has no letter or digit")
        if keys[place] in keys[:place]:
            raise RowError(f"same text: {roles[keys.index(keys[place])]} and {role} have the same letters and digits")
    label, group = "1", ""
    if structure == "labelled":
        label = _name(row.content.get("label"), "label")
    elif structure == "captions":
        group = _name(row.content.get("group"), "group")
    elif structure == "pairs" and has_label:
        label = _paraphrase(row.content.get("label"))
    return Checked(surfaces, keys, label, group)


def _text(value: Any, role: str) -> str:
    if value is None:
        raise RowError(f"empty text: {role} is missing")
    if not isinstance(value, str):
        raise RowError(f"not text: {role} is of type {type(value).__name__}")
    text = value.strip()
    if not text:
        raise RowError(f"empty text: {role}")
    if not is_unicode(text):
        raise RowError(f"encoding: {role} holds half a surrogate pair")
    return text


def _name(value: Any, role: str) -> str:
    """Return the name of a class or group; readers spell all names as text."""
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{role}: must be a name, found {value!r}")
    if not is_unicode(value):
        raise RowError(f"encoding: {role} holds half a surrogate pair")
    return value.strip()


def _paraphrase(value: Any) -> str:
    plain = value.strip() if isinstance(value, str) else value
    # True and 1.0 are 1 in Python; NaN, dictionaries and the like are not.
    if not isinstance(plain, (bool, int, float, str)) or plain not in _PARAPHRASE:
        raise RowError(f"label: must be 0 or 1, found {value!r}")
    return _PARAPHRASE[plain]  # type: ignore[index]
