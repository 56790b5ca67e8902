"""Params of data sets, and of the examples made of their rows."""

from collections.abc import Mapping
from encodings.aliases import aliases
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from keycontrast.errors import nearest
from stages.common.examples import is_paired
from stages.common.params import Block
from stages.common.schemas import GRAPH_ONLY
from stages.common.settings import NOTHING
from stages.ingest.layouts import LAYOUTS


def _filled(content: Any) -> Any:
    """Return the params of files with the encoding and the columns of their layout."""
    if not isinstance(content, Mapping):
        return content
    name, columns = content.get("layout", "pairs"), content.get("columns", {})
    layout = LAYOUTS.get(name) if isinstance(name, str) else None
    if layout is None or not isinstance(columns, Mapping):
        return content  # the fields report it
    return {"encoding": layout.encoding, **content, "columns": layout.completed(columns)}


def _layout_exists(name: str) -> str:
    if name not in LAYOUTS:
        raise ValueError(f"no layout is called {name!r}; {nearest(name, LAYOUTS)}")
    return name


def _encoding_exists(name: str) -> str:
    try:
        "a".encode(name, "surrogateescape")  # which readers use
    except (LookupError, UnicodeError):
        of_text = [alias for alias in aliases.values() if not alias.endswith("_codec") and alias != "rot_13"]
        valid = nearest(name.lower().replace("-", "_"), of_text)
        raise ValueError(f"no encoding of text is called {name!r}; {valid}") from None
    return name


LayoutName = Annotated[str, AfterValidator(_layout_exists)]

Encoding = Annotated[str, AfterValidator(_encoding_exists)]

Separator = Literal[",", ";", "|", "\t"]


class _Form(Block):
    """Layout and columns of files."""

    layout: LayoutName = Field("pairs", description="meaning of rows and columns: " + ", ".join(LAYOUTS))
    columns: dict[str, str | list[str] | None] = Field(default_factory=dict, description="names of the columns by the "
                                                       "roles of the layout, which has defaults")
    encoding: Encoding = Field("utf-8", description="of text files, never guessed; default latin-1 for trec, cp1252 "
                               "for rt_polarity and text_gcn; posts of newsgroups fall back to latin-1")
    quoting: Literal["standard", "none"] = Field("standard", description="of CSV and TSV: RFC 4180, or none at all")
    separator: Separator | None = Field(None, description="of CSV and TSV; null: a comma in .csv, a tab in .tsv")

    _layout_fills = model_validator(mode="before")(_filled)


class OwnColumns(_Form):
    """Entry of ``files`` or ``splits`` with a layout or columns of its own."""

    name: str = Field(description="or pattern, inside the folder")
    layout: LayoutName = Field(description="a layout of the same structure as that of the data set")


# Tags that pydantic adds to the location of an error.
KIND_OF_NAME = ("(name)", "(columns)")

Named = Annotated[Annotated[str, Tag(KIND_OF_NAME[0])] | Annotated[OwnColumns, Tag(KIND_OF_NAME[1])],
                  Discriminator(lambda entry: KIND_OF_NAME[isinstance(entry, Mapping | OwnColumns)])]


class Dataset(_Form):
    """Files of a data set and their layout (:mod:`stages.ingest.layouts`)."""

    source: str = Field(description="file, or folder that holds `files`; the DVC dependency")
    files: list[Named] = Field(default_factory=list, description="names or patterns inside the folder; for files with "
                               "other columns `{name: ..., layout: ..., columns: ...}`")
    splits: dict[Literal["train", "validation", "test", "graph"], list[Named]] = Field(
        default_factory=dict, description="files of published splits, read after `files`, training first; graph: pairs "
                                          "for the keyword graph alone")
    ingest: dict[str, Any] = Field(default_factory=dict, description="what differs from the block `ingest`")
    language: str = Field("en", pattern="^[a-z]{2}$")
    turn_mark: str = Field("[SEP]", min_length=1, description="dialogue: separates the turns of a context of one text")
    join_han: bool = Field(False, description="remove the spaces between Chinese characters of word-segmented texts")
    neg_path: str = Field(NOTHING, description="folder for `ingest.neg_encoder: path`")

    @model_validator(mode="after")
    def _files_are_of_one_structure(self) -> "Dataset":
        wanted = LAYOUTS[self.layout].structure
        if GRAPH_ONLY in self.splits and not is_paired(self.layout):
            raise ValueError(f"splits.graph: the keyword graph is made of pairs, and layout {self.layout} gives "
                             f"{wanted}. Leave it out")
        for entry in chain(self.files, *self.splits.values()):
            if isinstance(entry, OwnColumns) and (layout := LAYOUTS[entry.layout]).structure != wanted:
                raise ValueError(f"{entry.name}: its layout {entry.layout} gives {layout.structure}, but {self.layout} "
                                 f"gives {wanted}. Files of two structures are two data sets")
            if isinstance(entry, OwnColumns) and layout.reader == "posts":
                raise ValueError(f"{entry.name}: layout {entry.layout} reads folders, which have no columns")
        return self


class Ingest(Block):
    """De-duplication, triples and splits (HCL section 4.1)."""

    text_identity: Literal["symbols", "letters_digits"] = Field(
        "symbols", description="what is compared to find equal texts. symbols: all but case, white space, quotation "
                               "marks and punctuation at the end of words (C and C++ differ); letters_digits: letters "
                               "and digits alone (as QQP is counted)")
    qqp_rule: Literal["undirected_one", "undirected_all", "undirected_zip", "question1_one", "question1_all",
                      "question1_zip"] = "undirected_one"
    neg_source: Literal["given", "labelled", "retrieved", "mined", "none"] = Field(
        "labelled", description="retrieved: by overlap of words (stories, dialogues: roc_neg, douban_neg); mined: the "
                                "text, for stories and dialogues the output, nearest to the input by `neg_encoder`")
    neg_encoder: str = Field("bundled", pattern=r"^(bundled|hub:.+|path)$", description="of `mined`, frozen, on the "
                             "CPU in one thread; path: the data set's `neg_path`")
    neg_ceiling: float | None = Field(0.8, gt=0, le=1, description="mined: cosine above which a text is an unlabelled "
                                      "paraphrase, on the scale of the bundled encoder; null: never")
    neg_pick: Literal["hardest", "random"] = "hardest"
    split_by: Literal["component", "hashed", "pair"] = Field(
        "component", description="component: shares are met exactly where components allow; hashed: a hash of seed and "
                                 "texts draws the split of each component, so that data sets of the same files agree; "
                                 "pair: a text may be in several splits")
    douban_neg: Literal["scored", "bm25", "random"] = Field(
        "scored", description="dialogues, neg_source retrieved. scored: worst-scored candidate of similar contexts; "
                              "bm25: response to the most similar context of the split; random: response of any item")
    roc_mode: Literal["ending", "next_sentence", "lead_to_rest"] = Field(
        "ending", description="stories, input / output: sentences 1-4 / 5; each beginning / the next; first / the rest")
    roc_neg: Literal["bm25", "random"] = Field(
        "bm25", description="stories, neg_source retrieved. bm25: output of the story of the same split with the most "
                            "similar input; random: output of any story of the split")
    caption_source: Literal["random", "first", "each"] = Field(
        "random", description="which caption of a group is the source; each: every one once, the next one its target")
    labelled_copies: Literal["drop", "keep"] = Field(
        "drop", description="repeated labelled texts. drop: keep one, that of the evaluated split, and none with "
                            "two classes; keep: keep every row, as published, and report the copies")
    captions: int | None = Field(None, ge=2, description="exact number of distinct captions of a group; null: any from "
                                 "two")
    validation: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    test: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    train_part: tuple[float, float] | None = Field(
        None, description="hashed: keep training items whose component has a second hash in this range of [0, 1); "
                          "pair: the same for items of all splits; disjoint ranges share no item; null: all")
    max_train: int | None = Field(None, ge=1, description="keep a seeded sample of at most so many")
    max_validation: int | None = Field(None, ge=1)
    max_test: int | None = Field(None, ge=1)
    max_rejected: float = Field(0.01, ge=0, le=1, description="share of rows above which the stage fails")

    @model_validator(mode="after")
    def _train_part_is_one(self) -> "Ingest":
        if self.train_part is not None and not 0 <= self.train_part[0] < self.train_part[1] <= 1:
            raise ValueError(f"ingest.train_part is a lower and a higher share of [0, 1], found "
                             f"{list(self.train_part)}; write [0, 0.5], say, or null")
        if self.train_part is not None and self.split_by == "component":
            raise ValueError("ingest.train_part draws components by a hash and needs ingest.split_by: hashed or pair, "
                             "found component")
        return self
