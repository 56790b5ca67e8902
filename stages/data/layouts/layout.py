"""What a layout brings: the column of each role, and how its files are quoted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stages.data.layouts.stories import SENTENCE_ROLES
from stages.runtime.errors import InputError, nearest

if TYPE_CHECKING:
    from stages.params.data import Dataset


@dataclass(frozen=True)
class Layout:
    """How the rows of a data set's files are to be understood.

    Attributes:
        name: as the params call it.
        structure: what a row is: ``pairs``, ``triples``, ``captions``, ``labelled``, ``stories`` or ``dialogue``.
        columns: column of each role that is used.
        quoting: of CSV and TSV: ``standard`` as in RFC 4180, ``none`` if quotation marks are ordinary characters.
        published: whether the columns are those of a published file, not the params'.
        named_by: where else a person has named them, such as an option of a command; for messages.
    """

    name: str
    structure: str
    columns: Mapping[str, str]
    quoting: Literal["standard", "none"]
    published: bool
    named_by: str = ""


# Layouts whose rows are a text and its class.
LABELLED_LAYOUTS = ("labelled", "newsgroups", "trec", "all_terms", "text_gcn", "rt_polarity")
_STRUCTURES = {"glue_qqp": "pairs", "kaggle_qqp": "pairs", "quora_qqp": "pairs", "mscoco_captions": "captions",
               "rocstories": "stories", "douban_dialogue": "dialogue", "groupwise_dialogue": "dialogue",
               **dict.fromkeys(LABELLED_LAYOUTS, "labelled")}
_QUESTIONS = {"source": "question1", "target": "question2", "label": "is_duplicate"}
# GLUE writes train.tsv and dev.tsv without any quoting; Kaggle and Quora quote as RFC 4180 says.
_PUBLISHED: dict[str, tuple[dict[str, str], Literal["standard", "none"]]] = {
    "glue_qqp": (_QUESTIONS, "none"),
    "kaggle_qqp": (_QUESTIONS, "standard"),
    "quora_qqp": (_QUESTIONS, "standard"),
    "mscoco_captions": ({"group": "image_id", "text": "caption"}, "standard"),
    "rocstories": ({role: role for role in SENTENCE_ROLES}, "standard"),
    # Text files without a header; what their lines hold is known by role.
    "douban_dialogue": ({"label": "label", "context": "context", "response": "response"}, "none"),
    "groupwise_dialogue": ({"context": "context", "response": "response", "candidates": "candidates",
                            "scores": "scores"}, "none"),
    "newsgroups": ({"text": "text", "label": "group"}, "none"),
    "trec": ({"text": "question", "label": "class"}, "none"),
    "all_terms": ({"text": "text", "label": "class"}, "none"),
    "rt_polarity": ({"text": "text", "label": "class"}, "none"),
    "text_gcn": ({"text": "text", "label": "class", "split": "split"}, "none"),
}
_ROLES = {"pairs": ("source", "target", "label"), "triples": ("source", "target", "negative"),
          "captions": ("group", "text"), "labelled": ("text", "label"),
          "dialogue": ("context", "response", "label", "candidates", "scores")}


def structure_of(layout: str) -> str:
    """Return what a row is under ``layout``, however its files are laid out: pairs, triples, captions, ..."""
    return _STRUCTURES.get(layout, layout)


def layout_of(dataset: "Dataset") -> Layout:
    """Return the layout that the params of ``dataset`` name, with the columns of its roles."""
    structure = structure_of(dataset.layout)
    columns, quoting = _PUBLISHED.get(dataset.layout, ({}, dataset.quoting))
    if not columns:
        columns = _named(dataset, structure)
    if dataset.columns.split is not None:
        columns = columns | {"split": dataset.columns.split}
    return Layout(dataset.layout, structure, columns, quoting, dataset.layout in _PUBLISHED)


def _named(dataset: "Dataset", structure: str) -> dict[str, str]:
    """Return the columns that the params name, by role."""
    columns = dataset.columns
    if structure != "stories":
        named = {role: getattr(columns, role) for role in _ROLES[structure]}
        return {role: column for role, column in named.items() if column is not None}
    if columns.sentences is not None:
        return dict(zip(SENTENCE_ROLES, columns.sentences, strict=True))
    if columns.ending is not None:
        return {"context": columns.context, "ending": columns.ending}
    return {"story": columns.story}


def needed_columns(dataset: "Dataset") -> dict[str, str]:
    """Return the column that holds each role in use, roles in the order of ``RawRow.content``."""
    return dict(layout_of(dataset).columns)


def check_columns(path: Path, names: Sequence[str], layout: Layout, first_row: str = "") -> None:
    """Make sure that ``names`` hold the column of every role, once.

    Args:
        path: the file, for the message.
        names: the columns of the file.
        layout: what is looked for.
        first_row: the header as found, where it might have been left out; shown if it holds no needed column.

    Raises:
        InputError: a column is missing or occurs more than once.
    """
    for role, column in layout.columns.items():
        if column not in names:
            raise InputError(f"{path}: no column {column!r} ({_from(role, layout)}); {nearest(column, names)}"
                             f"{_advice(role, names, layout, first_row)}")
        if names.count(column) > 1:
            raise InputError(f"{path}: column {column!r} occurs {names.count(column)} times in the header. Give each "
                             f"column a name of its own.")


def _from(role: str, layout: Layout) -> str:
    if layout.named_by:
        return layout.named_by
    by_layout = layout.published and role != "split"
    if by_layout:
        return f"which files of layout {layout.name} have"
    return f"columns.{'sentences' if role in SENTENCE_ROLES else role} in the params"


def _advice(role: str, names: Sequence[str], layout: Layout, first_row: str) -> str:
    if first_row and not set(names) & set(layout.columns.values()):
        return f" The first line is {first_row!r}: if that is a row of data, put a line with the columns' names above."
    if layout.published and role == "label":
        return (" The test files of GLUE and Kaggle come without labels: name the others in the data set's `files`, "
                "such as train.tsv and dev.tsv.")
    return ""
