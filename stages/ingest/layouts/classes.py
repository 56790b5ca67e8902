"""Texts and their classes: columns of the user's own, or text files without a header, as published."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from keycontrast.errors import InputError
from keycontrast.reading import text_lines
from stages.ingest.layouts.layout import Column, Layout
from stages.ingest.reading.lines import line_row
from stages.ingest.reading.rows import WORDS, RawRow, RowMaker

_CORPUS = "corpus"


def _read_indexed(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the texts of a corpus, line by line with the index ``path`` (Yao et al. 2019, layout text_gcn).

    A line of the index is a text's name, its split and its class; the text is the same line of the file of the same
    name in the folder ``corpus`` beside it.

    Raises:
        InputError: there is no corpus, the two differ in their number of lines, or are not text of the encoding.
    """
    corpus, rows = _corpus_of(path), 0
    for number, (entry, text) in enumerate(zip_longest(text_lines(path, encoding, WORDS),
                                                       text_lines(corpus, encoding, WORDS)), 1):
        if not (entry or "").strip() and not (text or "").strip():
            continue
        if entry is None or text is None or not entry.strip():
            shorter, longer = (path, corpus) if text else (corpus, path)
            raise InputError(f"{shorter}: has nothing in line {number}, but {longer} has. Each line of the index "
                             f"belongs to the same line of the corpus: fetch both again.")
        rows += 1
        joined = f"{entry.rstrip()}\t{text}"
        yield line_row(number, joined, path, encoding, maker)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def _corpus_of(path: Path) -> Path:
    corpus = path.parent / _CORPUS / path.name
    if not corpus.is_file():
        raise InputError(f"{path}: its texts are missing; layout text_gcn keeps them in {corpus}, one per line of the "
                         f"index. Put them there.")
    return corpus


def _trec(text: str, path: Path) -> dict[str, str]:
    """Parse ``DESC:manner How did ...`` (Li and Roth 2002); the coarse class is the label."""
    labels, _, question = text.partition(" ")
    coarse, colon, fine = labels.partition(":")
    if not (coarse and colon and fine and question.strip()):
        raise ValueError("broken line: must read CLASS:kind, a space and the question, as in 'LOC:city What city ...'")
    return {"class": coarse, "kind": fine, "question": question.strip()}


def _all_terms(text: str, path: Path) -> dict[str, str]:
    """Parse a class, a tab and a text (Cardoso-Cachopo 2007)."""
    label, tab, words = text.partition("\t")
    if not tab:
        raise ValueError("broken line: must read class, tab, text; it has no tab")
    return {"class": label, "text": words}


def _rt_polarity(text: str, path: Path) -> dict[str, str]:
    """Take a sentence (Pang and Lee 2005); its class is the ending of the file."""
    return {"class": "pos" if ".pos" in path.suffixes else "neg", "text": text}


def _indexed(joined: str, path: Path) -> dict[str, str]:
    """Parse a line of an index, to which the text was joined by a tab."""
    parts = joined.split("\t", 3)
    if len(parts) < 4:
        raise ValueError("broken line: the index must read name, tab, split, tab, class")
    name, split, label, text = parts
    # The repository writes train and test, or names of folders that hold these words.
    found = [word for word in ("test", "train") if word in split.lower()]
    if not found:
        raise ValueError(f"broken line: the index must name the split, train or test, behind the first tab; found "
                         f"{split!r}")
    return {"name": name, "split": found[0], "class": label, "text": text}


_TEXT, _CLASS = Column("a text", "text"), Column("its class", "class", values="name")
LAYOUTS = (
    Layout("labelled", "a text and its class; keywords are made (not with `keywords: false`), pair stages are left out",
           {"text": _TEXT, "label": Column("its class", values="name")}),
    Layout("trec", "a line of `train_5500.label` (Li and Roth 2002); the coarse class", {
        "text": Column("a question", "question"), "label": _CLASS}, True, "none", "latin-1", (".label",),
        "text files named .label, such as train_5500.label and TREC_10.label",
        {"train": "train_5500.label*", "test": "TREC_10.label*"}, parse=_trec),
    Layout("all_terms", "a line of `r8-train-all-terms.txt` (R8 and R52 of Cardoso-Cachopo 2007)", {
        "text": _TEXT, "label": _CLASS}, True, "none", forms=(".txt",),
        files="text files named .txt, such as r8-train-all-terms.txt",
        splits={"train": "*train-all-terms.txt*", "test": "*test-all-terms.txt*"}, parse=_all_terms),
    Layout("rt_polarity", "a line of `rt-polarity.pos` or `.neg` (film reviews of Pang and Lee 2005)", {
        "text": _TEXT, "label": _CLASS}, True, "none", "cp1252", (".pos", ".neg"),
        "text files named .pos and .neg, such as rt-polarity.pos", parse=_rt_polarity),
    Layout("text_gcn", "a line of an index such as `mr.txt` (name, split, class) and of `corpus/mr.txt` (Yao et al. "
           "2019)", {"text": _TEXT, "label": _CLASS, "split": Column("train or test", "split")}, True, "none", "cp1252",
           (".txt",), "indices named .txt, such as mr.txt, beside the folder corpus",
           index="layout text_gcn reads an index and its corpus, so `source` must be the folder that holds both; name "
                 "the index in `files`", parse=_indexed, read=_read_indexed),
)
