"""What a row must be to be taken: texts that say something, no two of them the same, a label that is one."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from keycontrast.reading import text_fault
from stages.common.layouts import structure_of
from stages.ingest.layouts import roles_of
from stages.ingest.parsing import RowError, dialogue_texts, story_sentences, story_texts
from stages.ingest.rows import RawRow, name_of
from stages.ingest.text_keys import IDENTITIES, join_han, text_key

if TYPE_CHECKING:
    from stages.ingest.params import Dataset

_PARAPHRASE = {"0": "0", "1": "1", "false": "0", "true": "1"}
# What a text must hold, by `text_identity`.
_NEEDED = {"symbols": "letter, digit or symbol", "letters_digits": "letter or digit"}
TEXT_ROLES: Mapping[str, tuple[str, ...]] = {
    "pairs": ("source", "target"), "triples": ("source", "target", "negative"),
    "captions": ("text",), "labelled": ("text",), "texts": ("text",), "stories": ("input", "output"),
    "dialogue": ("context", "response")}


class Checked(NamedTuple):
    """A row that can be taken.

    Attributes:
        surfaces: its texts, in the order of ``TEXT_ROLES``; behind them inputs and outputs of a story's shorter
            beginnings in turn, or the candidates of a dialogue.
        keys: their identities.
        label: ``1`` or ``0`` of a pair or response; the class of a labelled text; else ``1``.
        group: name of the group of a caption; key of the first sentence of a story, or of the context of a
            dialogue, by which they belong together; else empty.
    """

    surfaces: Sequence[str]
    keys: Sequence[str]
    label: str
    group: str


class RowCheck:
    """Checks the rows of a data set.

    Args:
        dataset: names structure and columns.
        mode: ``roc_mode``, what stories give.
        identity: ``text_identity``, what makes two texts the same.
    """

    def __init__(self, dataset: "Dataset", mode: str = "ending", identity: str = "symbols") -> None:
        self._structure, self._mode = structure_of(dataset.layout), mode
        self._has_label, self._roles = "label" in roles_of(dataset), TEXT_ROLES[self._structure]
        self._turn_mark, self._join_han = dataset.turn_mark, dataset.join_han
        self._key, self._needed = IDENTITIES[identity], _NEEDED[identity]

    def __call__(self, row: RawRow) -> Checked:
        """Return the texts, label and group of ``row``.

        Raises:
            RowError: it cannot be taken.
        """
        content = row.content
        if row.problem or isinstance(content, str):
            raise RowError(row.problem or "broken line: not parsed")
        label, group = "1", ""
        if self._structure == "stories":
            found = [self._text(text, f"sentence {number}") for number, text in enumerate(story_sentences(content), 1)]
            texts, group = story_texts(found, self._mode), text_key(found[0]) or found[0]
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
            # Candidates that can be no negatives are left out: without letters, repeated, or the row's own texts.
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
        """Make sure that no key is empty and that no texts that belong together have the same."""
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
