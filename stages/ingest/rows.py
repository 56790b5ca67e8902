"""A row of a file by role, and the checks that it must pass."""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple

from keycontrast.reading import Words, is_unicode, text_fault
from stages.common.examples import is_paired, structure_of
from stages.common.schemas import GRAPH_ONLY
from stages.ingest.layouts import SPLIT, BoundLayout, roles_of
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError, dialogue_texts, story_sentences, story_texts
from stages.ingest.text_keys import IDENTITIES, join_han, text_key

_SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation",
           "dev": "validation", "test": "test", "graph": GRAPH_ONLY}
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_ENDLESS = (math.inf, -math.inf)
# How messages of the readers call settings.
WORDS = Words("the data set's `encoding`", "the data set's `quoting: none`", "the data set's `separator`")
_PARAPHRASE = {"0": "0", "1": "1", "false": "0", "true": "1"}
# Characters of which a text needs at least one, by `text_identity`.
_NEEDED = {"symbols": "letter, digit or symbol", "letters_digits": "letter or digit"}
TEXT_ROLES: Mapping[str, tuple[str, ...]] = {
    "pairs": ("source", "target"), "triples": ("source", "target", "negative"),
    "captions": ("text",), "labelled": ("text",), "texts": ("text",), "stories": ("input", "output"),
    "dialogue": ("context", "response")}


class RawRow(NamedTuple):
    """A row of a file; a tuple, which is created three times as fast as a frozen data class.

    Attributes:
        file: name inside the data set's folder.
        row: 1-based number; the header of a CSV or TSV file is not counted, empty lines are.
        content: values by role, or the line itself where it could not be parsed.
        problem: the reason to reject the row, ``category: detail``, or empty.
        split: the published split: one of ``ALL_SPLITS``, or None.
        names, values: of all columns of the file.
    """

    file: str
    row: int
    content: Mapping[str, Any] | str
    problem: str = ""
    split: str | None = None
    names: Collection[str] = ()
    values: Collection[Any] = ()

    @property
    def raw(self) -> str:
        """The row as JSON under its file's own column names, or the line that could not be parsed."""
        if isinstance(self.content, str):
            return self.content
        content = dict(zip(self.names, self.values, strict=True)) if self.names else self.content
        text = json.dumps(content, ensure_ascii=False, default=str)
        return text if is_unicode(text) else json.dumps(content, default=str)


class RowMaker:
    """Makes the rows of one ``file`` of the data set's folder; ``split`` is the published split of all of it."""

    def __init__(self, file: str, layout: BoundLayout, split: str | None) -> None:
        self.layout = layout
        self._file, self._split = file, split
        # A name may be a number in one file and text in another.
        self._names = [role for role, column in layout.layout.columns.items()
                       if column.is_name and role in layout.columns]

    def row(self, number: int, content: dict[str, Any], values: Mapping[str, Any]) -> RawRow:
        """Return row ``number`` with ``content`` by role, from ``values`` by column."""
        problem, split, convert = "", self._split, self.layout.layout.convert
        try:
            for role in self._names:
                content[role] = name_of(content.get(role), role)
            if SPLIT in self.layout.columns:
                split = content[SPLIT] = _published(content.get(SPLIT), is_paired(self.layout.layout.name))
                if self._split not in (None, split):
                    split = self._split
                    raise RowError(f"split: the row says {content[SPLIT]}, but its file is named under "
                                     f"splits.{self._split}")
            if convert:
                content = convert(content)
        except RowError as error:
            problem = str(error)
        return RawRow(self._file, number, content, problem, split, values.keys(), values.values())

    def broken(self, number: int, line: str, problem: str) -> RawRow:
        """Return row ``number`` of a ``line`` that could not be parsed."""
        return RawRow(self._file, number, line, problem, self._split)


def name_of(value: Any, role: str) -> str:
    """Return a label or the name of a group as text, the same from every kind of file: true for True and TRUE, 1 for
    1.0, as in columns of numbers with gaps."""
    if value is None or value != value:
        raise RowError(f"{role}: is missing")
    if not isinstance(value, (bool, int, float, Decimal, str)) or value in _ENDLESS:
        raise RowError(f"{role}: must be text, a number, or true or false, found {value!r}")
    if not (name := str(value).strip()):
        raise RowError(f"{role}: is empty")
    if name.lower() in ("true", "false"):
        return name.lower()
    return match[1] if (match := _WHOLE.fullmatch(name)) else name


def _published(value: Any, paired: bool) -> str:
    split = _SPLITS.get(value.strip().lower()) if isinstance(value, str) else None
    if split is None or (split == GRAPH_ONLY and not paired):
        raise RowError(f"split: must be train, validation (or dev, val, valid) or test{', or graph' * paired}, found "
                       f"{value!r}")
    return split


class Checked(NamedTuple):
    """A row that passed the checks.

    Attributes:
        surfaces, keys: its texts in the order of ``TEXT_ROLES``, and their identities; then inputs and outputs in turn
            of a story's shorter beginnings, or the candidates of a dialogue.
        label: ``1`` or ``0`` of a pair or response; the class of a labelled text; else ``1``.
        group: of a caption; key of the first sentence of a story or of the context of a dialogue; else empty.
    """

    surfaces: Sequence[str]
    keys: Sequence[str]
    label: str
    group: str


class RowCheck:
    """Checks the rows of a data set under ``roc_mode`` and ``text_identity``."""

    def __init__(self, dataset: Dataset, mode: str = "ending", identity: str = "symbols") -> None:
        self._structure, self._mode = structure_of(dataset.layout), mode
        self._has_label, self._roles = "label" in roles_of(dataset), TEXT_ROLES[self._structure]
        self._turn_mark, self._join_han = dataset.turn_mark, dataset.join_han
        self._key, self._needed = IDENTITIES[identity], _NEEDED[identity]

    def __call__(self, row: RawRow) -> Checked:
        """Return the texts, label and group of ``row``; raise a ``RowError`` if it is rejected."""
        content = row.content
        if row.problem or isinstance(content, str):
            raise RowError(row.problem or "broken line: not parsed")
        label, group = "1", ""
        if self._structure == "stories":
            story = [self._text(text, f"sentence {number}") for number, text in enumerate(story_sentences(content), 1)]
            texts, group = story_texts(story, self._mode), text_key(story[0]) or story[0]
        elif self._structure == "dialogue":
            parts = dialogue_texts(content, self._turn_mark)
            texts = [self._text(text, role) for text, role in zip_longest(parts, self._roles, fillvalue="candidate")]
            group = text_key(texts[0]) or texts[0]
        else:
            texts = [self._text(content.get(role), role) for role in self._roles]
        keys = [self._key(text) for text in texts]
        self._compare(texts, keys)
        if self._structure == "labelled":
            label = self._name(content, "label")
        elif self._structure == "captions":
            group = self._name(content, "group")
        elif self._structure in ("pairs", "dialogue") and self._has_label and "label" in content:
            label = _paraphrase(content["label"])
        if self._structure == "dialogue":
            # Candidates without letters, repeated ones and the row's own texts are no negatives.
            first: dict[str, str] = {}
            for key, text in zip(keys, texts, strict=True):
                first.setdefault(key, text)
            keys = [key for key in first if key]
            texts = [first[key] for key in keys]
        return Checked(texts, keys, label, group)

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

    def _name(self, content: Mapping[str, Any], role: str) -> str:
        name = name_of(content.get(role), role)
        if fault := text_fault(name, role):
            raise RowError(fault)
        return name

    def _compare(self, texts: Sequence[str], keys: Sequence[str]) -> None:
        """Raise a ``RowError`` if a key is empty or two texts of the row have the same."""
        for place, role in enumerate(self._roles):
            if not keys[place]:
                raise RowError(f"empty text: {role} has no {self._needed}")
            if keys[place] in keys[:place]:
                raise RowError(f"same text: {self._roles[keys.index(keys[place])]} and {role} are the same")
        for place in range(len(self._roles), len(keys) if self._structure == "stories" else 0):
            if not keys[place]:
                raise RowError(f"empty text: {texts[place]!r} has no {self._needed}")
            if place % 2 and keys[place] == keys[place - 1]:
                raise RowError("same text: the first two sentences are the same")


def _paraphrase(value: Any) -> str:
    try:
        return _PARAPHRASE[name_of(value, "label")]
    except (KeyError, RowError):
        raise RowError(f"label: must be 0 or 1, found {value!r}") from None
