"""Text files of classified texts as their publishers wrote them: one text per line, no header."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from stages.data.reading.rows import RawRow, RowMaker
from stages.data.reading.text import character_problem, is_sound, printable, text_lines
from stages.runtime.errors import InputError

CORPUS = "corpus"


def read_classes(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the texts of a file of layout trec, all_terms or rt_polarity; empty lines are passed over.

    Raises:
        InputError: the file has no rows, or is not text of the encoding.
    """
    parse, rows = _LINES[maker.layout.name], 0
    for number, line in enumerate(text_lines(path, encoding), start=1):
        if line.strip():
            rows += 1
            yield _row(number, line, encoding, maker, lambda text: parse(text, path))
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def read_indexed(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the texts of a corpus, line by line with the index ``path`` (Yao et al. 2019, layout text_gcn).

    A line of the index is a text's name, its split and its class; the text is the same line of the file of the same
    name in the folder ``corpus`` beside it.

    Raises:
        InputError: there is no corpus, the two differ in their number of lines, or are not text of the encoding.
    """
    corpus, rows = _corpus_of(path), 0
    for number, (entry, text) in enumerate(zip_longest(text_lines(path, encoding), text_lines(corpus, encoding)), 1):
        if not (entry or "").strip() and not (text or "").strip():
            continue
        if entry is None or text is None or not entry.strip():
            shorter, longer = (path, corpus) if text else (corpus, path)
            raise InputError(f"{shorter}: has nothing in line {number}, but {longer} has. Each line of the index "
                             f"belongs to the same line of the corpus: fetch both again.")
        rows += 1
        joined = f"{entry.rstrip()}\t{text}"
        yield _row(number, joined, encoding, maker, _indexed)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def _row(number: int, line: str, encoding: str, maker: RowMaker, parse: Callable[[str], dict[str, str]]) -> RawRow:
    text = line.rstrip("\r\n")
    if not is_sound(line):
        return maker.broken(number, printable(text), character_problem(line, encoding, number))
    try:
        values = parse(text)
    except ValueError as error:
        return maker.broken(number, text, f"broken line: {error}, in line {number}")
    content = {role: values[column] for role, column in maker.layout.columns.items()}
    return maker.row(number, content, tuple(values), tuple(values.values()))


def _corpus_of(path: Path) -> Path:
    corpus = path.parent / CORPUS / path.name
    if not corpus.is_file():
        raise InputError(f"{path}: its texts are missing; layout text_gcn keeps them in {corpus}, one per line of the "
                         f"index. Put them there.")
    return corpus


def _trec(text: str, path: Path) -> dict[str, str]:
    """Parse ``DESC:manner How did ...`` (Li and Roth 2002); the coarse class is the label."""
    labels, _, question = text.partition(" ")
    coarse, colon, fine = labels.partition(":")
    if not (coarse and colon and fine and question.strip()):
        raise ValueError("must read CLASS:kind, a space and the question, as in 'LOC:city What city ...'")
    return {"class": coarse, "kind": fine, "question": question.strip()}


def _all_terms(text: str, path: Path) -> dict[str, str]:
    """Parse a class, a tab and a text (Cardoso-Cachopo 2007)."""
    label, tab, words = text.partition("\t")
    if not tab:
        raise ValueError("must read class, tab, text; it has no tab")
    return {"class": label, "text": words}


def _rt_polarity(text: str, path: Path) -> dict[str, str]:
    """Take a sentence (Pang and Lee 2005); its class is the ending of the file."""
    return {"class": "pos" if ".pos" in path.suffixes else "neg", "text": text}


def _indexed(joined: str) -> dict[str, str]:
    """Parse a line of an index, to which the text was joined by a tab."""
    parts = joined.split("\t", 3)
    if len(parts) < 4:
        raise ValueError("the index must read name, tab, split, tab, class")
    name, split, label, text = parts
    # The repository writes train and test, or names of folders that hold these words.
    found = [word for word in ("test", "train") if word in split.lower()]
    if not found:
        raise ValueError(f"the index must name the split, train or test, behind the first tab; found {split!r}")
    return {"name": name, "split": found[0], "class": label, "text": text}


_LINES: dict[str, Callable[[str, Path], dict[str, str]]] = {
    "trec": _trec, "all_terms": _all_terms, "rt_polarity": _rt_polarity}
