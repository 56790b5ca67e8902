"""Reading a CoNLL-U treebank, and making spaCy documents that are spaced as the text was.

The converter that comes with spaCy merges fused tokens ("don't") into one or loses their spacing; here each
syntactic word stays a token and the surface form of the fused token decides the spaces around it.
"""

import gzip
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

from stages.run.errors import InputError

PARAGRAPH_BREAK = "\n\n"
SPACE_TAG, SPACE_POS = "_SP", "SPACE"  # what spaCy's own English pipelines call a token of white space
COLUMNS = 10

Row = tuple[str, str, str, str, bool, bool]  # form, lemma, UPOS, tag, space after it, sentence start


@dataclass(frozen=True)
class Word:
    """One syntactic word: its form, lemma, UPOS, Penn tag, and whether a space follows."""

    form: str
    lemma: str
    pos: str
    tag: str
    space: bool


@dataclass(frozen=True)
class Sentence:
    """Words of one sentence, and whether it opens a document or a paragraph."""

    words: tuple[Word, ...]
    opens_document: bool = False
    opens_paragraph: bool = False


@dataclass(frozen=True)
class Shape:
    """How a text is laid out: what differs between the treebank and the texts that will be read.

    Attributes:
        wrap: break lines after about this many characters, as mail and news posts do.
        lower: all words in lower case.
        spaced: a space after each token, as in corpora that come in tokens.
        paragraphs: keep paragraph breaks, as tokens of two line breaks; otherwise all runs on.
    """

    wrap: int | None = None
    lower: bool = False
    spaced: bool = False
    paragraphs: bool = True


AS_WRITTEN = Shape()


def treebank_file(folder: Path, part: str) -> Path:
    """Return the file of ``part`` (train, dev or test) of UD English EWT in ``folder``, packed or plain."""
    names = [f"en_ewt-ud-{part}.conllu", f"en_ewt-ud-{part}.conllu.gz"]
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise InputError(f"{folder}: neither {names[0]} nor {names[1]} is there; get UD English EWT first.")
    return found[0]


def read_sentences(path: Path) -> list[Sentence]:
    """Read all sentences of a ``.conllu`` or ``.conllu.gz`` file; a bad line is an ``InputError``."""
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            return list(parse_sentences(lines, str(path)))
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged or not UTF-8 text: {error}; get it again.") from error


def parse_sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences in ``lines`` of CoNLL-U; ``name`` stands for the source in messages."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if text:
            block.append((number, text))
        elif block:
            yield _parse_block(block, name)
            block = []
    if block:
        yield _parse_block(block, name)


def _parse_block(block: list[tuple[int, str]], name: str) -> Sentence:
    """Turn the lines of one sentence into a ``Sentence``."""
    comments = [text for _, text in block if text.startswith("#")]
    words: list[Word] = []
    fused_last, fused_space = 0, True  # the last word inside the current fused token, and the space behind it
    for number, text in block:
        if text.startswith("#"):
            continue
        columns = text.split("\t")
        first, last = _identify(columns, f"{name}:{number}")
        space = "SpaceAfter=No" not in columns[9].split("|")
        if first is None:  # an empty node of the enhanced graph has no place in the text
            continue
        if last > first:
            fused_last, fused_space = last, space
            continue
        if first != len(words) + 1:
            raise InputError(f"{name}:{number}: word {first} follows word {len(words)}.")
        if first <= fused_last:
            space = fused_space and first == fused_last
        words.append(Word(columns[1], columns[2], columns[3], columns[4], space))
    if not words:
        raise InputError(f"{name}:{block[0][0]}: a sentence without words.")
    document = any(comment.startswith("# newdoc") for comment in comments)
    return Sentence(tuple(words), document, any(comment.startswith("# newpar") for comment in comments))


def _identify(columns: list[str], place: str) -> tuple[int | None, int]:
    """Return the first and last word number that a line is about (first is None for an empty node)."""
    if len(columns) != COLUMNS:
        raise InputError(f"{place}: {len(columns)} columns where CoNLL-U has {COLUMNS}, separated by tabs.")
    if not columns[1]:
        raise InputError(f"{place}: the word form is empty.")
    head, dot, rest = columns[0].partition(".")
    if dot and head.isdecimal() and rest.isdecimal():
        return None, int(head)
    first, dash, last = columns[0].partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise InputError(f"{place}: {columns[0]!r} is not a word number.")
    if dash and int(last) <= int(first):
        raise InputError(f"{place}: the fused token {columns[0]!r} ends before it begins.")
    return int(first), int(last) if dash else int(first)


def documents(sentences: Iterable[Sentence]) -> list[list[Sentence]]:
    """Cut a stream of sentences into its documents."""
    found: list[list[Sentence]] = []
    for sentence in sentences:
        if sentence.opens_document or not found:
            found.append([])
        found[-1].append(sentence)
    return found


def build_doc(vocab: Vocab, sentences: Sequence[Sentence], shape: Shape = AS_WRITTEN) -> Doc:
    """Make a spaCy document, with gold annotation, from consecutive sentences in a given shape."""
    rows: list[Row] = []
    line = 0
    for index, sentence in enumerate(sentences):
        if shape.paragraphs and index and sentence.opens_paragraph:
            _put_break(rows, PARAGRAPH_BREAK)
            line = 0
        for place, word in enumerate(sentence.words):
            if shape.wrap and line > shape.wrap and rows[-1][4]:
                _put_break(rows, "\n")
                line = 0
            form = word.form.lower() if shape.lower else word.form
            rows.append((form, word.lemma, word.pos, word.tag, word.space or shape.spaced, place == 0))
            line += len(form) + 1
    forms, lemmas, pos, tags, spaces, starts = map(list, zip(*rows, strict=True))
    return Doc(vocab, words=forms, spaces=spaces, lemmas=lemmas, pos=pos, tags=tags, sent_starts=starts)


def _put_break(rows: list[Row], text: str) -> None:
    """Append a token of white space in place of the space after the last word."""
    form, lemma, pos, tag, _, start = rows[-1]
    rows[-1] = (form, lemma, pos, tag, False, start)
    rows.append((text, text, SPACE_POS, SPACE_TAG, False, False))


def without_annotation(doc: Doc) -> Doc:
    """Return the tokens and spaces of ``doc`` alone."""
    return Doc(doc.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])


def hide_words(doc: Doc, counts: Mapping[str, int], rng: random.Random, share: float) -> Doc:
    """Give rare words of ``doc``, in place, the norm of a word that nobody knows, and return it.

    A word that was seen n times is hidden with the chance share / (share + n), as Kiperwasser and Goldberg (2016)
    do. Its prefix, suffix and shape stay: from these and the words around it a word must be read that the training
    texts lack. ``counts`` has the times by lower-cased word; white space is left alone.
    """
    for token in doc:
        if not token.is_space and rng.random() < share / (share + counts[token.lower_]):
            token.norm_ = f"{rng.getrandbits(64):x}"  # another each time: no two unknown words are the same
    return doc


def sample_docs(
    vocab: Vocab, sentences: Iterable[Sentence], rng: random.Random, recipe: Mapping[str, Any]
) -> list[Doc]:
    """Return all sentences once, in documents of random length and shape, in random order.

    Lengths vary so that the pipeline neither needs nor lacks a neighbouring sentence; some documents are in
    lower case, have hard line breaks, a space after each token or no paragraphs, because such texts are to be
    read later and the treebank has few. ``recipe`` is the section of that name in ``data/language/en_ewt.cfg``.
    """
    docs = []
    for document in documents(sentences):
        start = 0
        while start < len(document):
            size = rng.randint(1, recipe["largest_group"])
            docs.append(build_doc(vocab, document[start : start + size], _draw_shape(rng, recipe)))
            start += size
    rng.shuffle(docs)
    return docs


def _draw_shape(rng: random.Random, recipe: Mapping[str, Any]) -> Shape:
    """Draw the shape of one training document."""
    return Shape(
        wrap=recipe["wrap_width"] if rng.random() < recipe["wrap_share"] else None,
        lower=rng.random() < recipe["lower_share"],
        spaced=rng.random() < recipe["spaced_share"],
        paragraphs=rng.random() >= recipe["run_on_share"],
    )
