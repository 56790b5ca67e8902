"""Columns, files and dialects of each layout.

A new layout is an entry of ``LAYOUTS``, with its structure in ``stages/common/examples.py``; params, readers and the
table of layouts in docs/data.md follow from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from keycontrast.errors import nearest
from stages.common.examples import structure_of
from stages.ingest import parsing

# Files with named columns, in the order in which those of a folder are read if `files` names none.
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
DOCUMENT = ".json"
SPLIT = "split"
Quoting = Literal["standard", "none"]


@dataclass(frozen=True)
class Column:
    """A column that a layout reads."""

    meaning: str             # of its values, for the documentation
    name: str | None = None  # unless the params give another; None if only the params can name it
    needed: bool = True
    is_name: bool = False    # of a class or group: text or a whole number, as text


@dataclass(frozen=True)
class Layout:
    """The meaning of the files and rows of a data set."""

    name: str
    row: str                         # description of a row, for the documentation
    columns: Mapping[str, Column]    # by role, in the order of ``RawRow.content``
    published: bool = False          # whether the files have the columns of their publisher
    quoting: Quoting | None = None   # of the publisher's CSV and TSV; None leaves it to the params
    encoding: str = "utf-8"          # of text files, unless the params name another
    forms: tuple[str, ...] = TABLES  # endings of its files, in the order of reading
    files: str = ""                  # description of files that are no tables, for messages and the documentation
    splits: Mapping[str, str] = field(default_factory=dict)  # name or pattern of the file of each published split
    reader: Literal["table", "lines", "index", "posts"] = "table"  # ``index``: of a corpus
    # Given a line and its file, the values by column.
    parse: Callable[[str, Path], Mapping[str, Any]] | None = None
    # Given the columns that the params name: their problem, or nothing; and the column of each role.
    check: Callable[[Mapping[str, Any]], str] = lambda columns: ""
    roles: Callable[[Mapping[str, Any]], dict[str, str]] = dict
    # The content of a row by the roles of its structure.
    convert: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None

    @property
    def structure(self) -> str:
        """The structure of its rows."""
        return structure_of(self.name)

    def completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns ``given`` by the params, and those that they leave out; else raise a ``ValueError``."""
        named = {} if self.published else dict(self.columns)
        if self.reader == "table":
            named[SPLIT] = Column("train, validation or test", needed=False)
        own = f"; the files of layout {self.name} have columns of their own" if self.published else ""
        for role in given:
            if role not in named:
                raise ValueError(f"layout {self.name} has no columns.{role}{own}; {nearest(role, named)}")
        columns = {role: given.get(role, column.name) for role, column in named.items()}
        for role, column in columns.items():
            if isinstance(column, list) and role not in ("sentences", "turns"):
                raise ValueError(f"layout {self.name}: columns.{role} must be one name, found {column}")
        for role, column in named.items():
            if column.needed and columns[role] is None:
                raise ValueError(f"layout {self.name} needs columns.{role}")
        if problem := self.check(columns):
            raise ValueError(f"layout {self.name} {problem}")
        return columns


@dataclass(frozen=True)
class BoundLayout:
    """A layout with the column of each role that is used; ``named_by`` says who has named it, for messages."""

    layout: Layout
    columns: Mapping[str, str]
    quoting: Quoting
    named_by: Callable[[str], str]
    separator: str = ""


def layout_of(named: Any) -> BoundLayout:
    """Return the layout that the params of a data set, or of some of its files, name, with the columns of its roles."""
    layout = LAYOUTS[named.layout]
    given = {role: column for role, column in named.columns.items() if column is not None}
    if layout.published:
        given = {role: str(column.name) for role, column in layout.columns.items()} | given
    split = {SPLIT: given.pop(SPLIT)} if SPLIT in given else {}
    columns = layout.roles(given) | split

    def named_by(role: str) -> str:
        if layout.published and role in layout.columns:
            return f"which files of layout {layout.name} have"
        lists = (name for name, column in given.items() if isinstance(column, list) and columns[role] in column)
        return f"columns.{role if role in given or role in split else next(lists)} in the params"

    return BoundLayout(layout, columns, layout.quoting or named.quoting, named_by, named.separator or "")


def roles_of(dataset: Any) -> frozenset[str]:
    """Return the roles that any file of ``dataset`` has a column for."""
    named = [*dataset.files, *chain.from_iterable(dataset.splits.values())]
    own = [entry for entry in named if not isinstance(entry, str)]
    forms = own if named and len(own) == len(named) else [dataset, *own]  # unless all files have columns of their own
    return frozenset(chain.from_iterable(layout_of(form).columns for form in forms))


_QUESTIONS = {
    "source": Column("a question", "question1"), "target": Column("another", "question2"),
    "label": Column("0 or 1", "is_duplicate")}
_STORY_CONTEXT = Column("a text, or a list of four sentences", "context")
_CONTEXT = Column("a list of turns, or a text that `turn_mark` cuts", "context")
_RESPONSE = Column("a text", "response")
_TEXT = Column("a text", "text")
_CLASSIFIED = {"text": _TEXT, "label": Column("its class", "class", is_name=True)}
_LINES: dict[str, Any] = {"published": True, "quoting": "none", "forms": (".txt",), "reader": "lines"}
_DIALOGUES = _LINES | {"files": "text files with one dialogue per line, named .txt"}

LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in (
    Layout("pairs", "two texts", {
        "source": Column("a text", "source"),
        "target": Column("a paraphrase, unless the label is 0", "target"),
        "label": Column("0 or 1; without it all are paraphrases", needed=False)}),
    Layout("triples", "a text, a paraphrase, a negative", {
        "source": Column("a text", "source"), "target": Column("a paraphrase", "target"),
        "negative": Column("a text with another meaning")}),
    # GLUE writes train.tsv and dev.tsv without any quoting; Kaggle and Quora quote as RFC 4180 says.
    Layout("glue_qqp", "a Quora question pair, as GLUE publishes it", _QUESTIONS, True, "none"),
    Layout("kaggle_qqp", "a Quora question pair, as Kaggle publishes it", _QUESTIONS, True, "standard"),
    Layout("quora_qqp", "a Quora question pair, as Quora publishes it", _QUESTIONS, True, "standard"),
    Layout("captions", "one of several texts with the same meaning", {
        "group": Column("what these texts have in common", "group", is_name=True),
        "text": Column("one of them", "text")}),
    Layout("mscoco_captions", "a caption of MSCOCO, of the official JSON or of a table of the same", {
        "group": Column("the image", "image_id", is_name=True), "text": Column("a caption of it", "caption")},
        published=True, quoting="standard", forms=(".csv", ".tsv", ".jsonl", DOCUMENT, ".parquet")),
    Layout("stories", "five sentences; `ingest.roc_mode` says what is input and what output", {
        "story": Column("a text, or a list of its five sentences", "story"),
        "sentences": Column("five columns in its place", needed=False),
        "context": Column("beside `ending`: a text, or a list of four sentences", "context"),
        "ending": Column("the fifth sentence", needed=False)},
        roles=parsing.story_columns, check=parsing.story_problem),
    Layout("rocstories", "a story of ROCStories, as its CSV has it", {
        role: Column("a sentence", role) for role in parsing.SENTENCE_ROLES}, published=True, quoting="standard"),
    Layout("story_cloze", "four sentences and two endings, of which one is right", {
        "context": _STORY_CONTEXT, "ending1": Column("a fifth sentence", "ending1"),
        "ending2": Column("another", "ending2"),
        "right": Column("1 or 2: which of them is right", "right_ending", is_name=True)}, convert=parsing.cloze_story),
    Layout("story_infilling", "a story with a gap, and the sentences that were there", {
        "context": Column(f"sentences, with {parsing.MASK} in place of some", "context_with_mask"),
        "missing": Column("these; all but the first may begin with a small letter", "missing_two_sentences")},
        convert=parsing.infilled_story),
    Layout("dialogue", "turns and a response, with or without scored candidates", {
        "context": _CONTEXT, "response": Column("null: the last turn of the context", "response", needed=False),
        "turns": Column("columns in place of both, the last one of the response", needed=False),
        "label": Column("0 or 1, whether the response is right", needed=False),
        "candidates": Column("sampled responses, the half whose contexts are most similar first", needed=False),
        "scores": Column("how well each candidate fits the context", needed=False)},
        check=parsing.dialogue_problem, roles=parsing.dialogue_columns, convert=parsing.dialogue_of_turns),
    Layout("douban_dialogue", "label, turns and response, as Wu et al. 2017 publish them", {
        "label": Column("0 or 1", "label"), "context": _CONTEXT, "response": _RESPONSE},
        parse=parsing.douban_line, **_DIALOGUES),
    Layout("groupwise_dialogue", "a dialogue with or without scored samples, as Cai et al. 2020 publish them", {
        "context": _CONTEXT, "response": _RESPONSE,
        "candidates": Column("sampled responses", "candidates"),
        "scores": Column("one per candidate", "scores")},
        parse=parsing.groupwise_line, **_DIALOGUES),
    Layout("labelled", "a text and its class",
           {"text": _TEXT, "label": Column("its class", is_name=True)}),
    Layout("trec", "a line of `train_5500.label` (Li and Roth 2002); the coarse class",
           {"text": Column("a question", "question"), "label": _CLASSIFIED["label"]},
           parse=parsing.trec_line, encoding="latin-1",
           files="text files named .label, such as train_5500.label and TREC_10.label",
           splits={"train": "train_5500.label*", "test": "TREC_10.label*"}, **_LINES | {"forms": (".label",)}),
    Layout("all_terms", "a line of `r8-train-all-terms.txt` (R8 and R52 of Cardoso-Cachopo 2007)", _CLASSIFIED,
           parse=parsing.all_terms_line, files="text files named .txt, such as r8-train-all-terms.txt",
           splits={"train": "*train-all-terms.txt*", "test": "*test-all-terms.txt*"}, **_LINES),
    Layout("rt_polarity", "a line of `rt-polarity.pos` or `.neg` (film reviews of Pang and Lee 2005)", _CLASSIFIED,
           parse=lambda line, path: {"class": "pos" if ".pos" in path.suffixes else "neg", "text": line},
           encoding="cp1252",
           files="text files named .pos and .neg, such as rt-polarity.pos", **_LINES | {"forms": (".pos", ".neg")}),
    Layout("text_gcn", "a line of an index such as `mr.txt` (name, split, class) and of `corpus/mr.txt` (Yao et al. "
           "2019)", _CLASSIFIED | {SPLIT: Column("train or test", SPLIT)}, parse=parsing.indexed_line,
           encoding="cp1252", files="indices named .txt, such as mr.txt, beside the folder corpus",
           **_LINES | {"reader": "index"}),
    Layout("newsgroups", "a post of 20 Newsgroups, a file in the folder of its group", {
        "text": Column("the post", "text"), "label": Column("its group", "group", is_name=True)}, True, "none",
        files="the folders `20news-bydate-train` and `-test`",
        splits={"train": "20news-bydate-train", "test": "20news-bydate-test"}, reader="posts"),
    Layout("texts", "a text without a label",
           {"text": _TEXT}),
    Layout("text_lines", "the same, a text a line", {"text": _TEXT}, parse=lambda line, path: {"text": line},
           files="text files named .txt, one text a line", **_LINES),
)}
