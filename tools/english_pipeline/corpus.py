"""Sentences with gold annotation, from a CoNLL-U treebank or a file of tagged words, and spaCy documents of them.

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

# As UD English EWT has them; rare ones are left out, so that a slip is found.
POS_OF_TAG: dict[str, tuple[str, ...]] = {
    "NN": ("NOUN", "PRON"), "NNS": ("NOUN",), "NNP": ("PROPN", "ADJ"), "NNPS": ("PROPN",),
    "VB": ("VERB", "AUX"), "VBD": ("VERB", "AUX"), "VBG": ("VERB", "AUX"), "VBN": ("VERB", "AUX"),
    "VBP": ("VERB", "AUX"), "VBZ": ("VERB", "AUX"), "MD": ("AUX",),
    "JJ": ("ADJ",), "JJR": ("ADJ",), "JJS": ("ADJ",), "RB": ("ADV", "PART"), "RBR": ("ADV",), "RBS": ("ADV",),
    "IN": ("ADP", "SCONJ"), "RP": ("ADP",), "TO": ("PART",), "CC": ("CCONJ",), "POS": ("PART",), "UH": ("INTJ",),
    "DT": ("DET", "PRON"), "PDT": ("DET",), "CD": ("NUM",), "EX": ("PRON",), "PRP": ("PRON",), "PRP$": ("PRON",),
    "WDT": ("PRON", "DET"), "WP": ("PRON",), "WP$": ("PRON",), "WRB": ("ADV",),
    "$": ("SYM",), "SYM": ("SYM",), "HYPH": ("PUNCT",), ".": ("PUNCT",), ",": ("PUNCT",), ":": ("PUNCT",),
}  # fmt: skip
SPACE_TAG, SPACE_POS = "_SP", "SPACE"  # what spaCy's own English pipelines call a token of white space

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


def read_treebank(path: Path) -> list[Sentence]:
    """Read all sentences of a ``.conllu`` or ``.conllu.gz`` file.

    Raises:
        ValueError: a line is not CoNLL-U; the message names it.
    """
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return list(parse_treebank(lines, str(path)))


def parse_treebank(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences in ``lines`` of CoNLL-U; ``name`` stands for the source in messages."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if text := line.rstrip("\r\n"):
            block.append((number, text))
        elif block:
            yield _parse_block(block, name)
            block = []


def _parse_block(block: list[tuple[int, str]], name: str) -> Sentence:
    comments = [text for _, text in block if text.startswith("#")]
    words: list[Word] = []
    fused_last, fused_space = 0, True  # the last word inside the current fused token, and the space behind it
    for number, text in block[len(comments):]:
        columns = text.split("\t")
        if len(columns) != 10 or not columns[1] or not columns[0].replace("-", "").replace(".", "").isdecimal():
            raise ValueError(f"{name}:{number}: not a line of CoNLL-U: ten columns between tabs, of which the first is "
                             f"a number and the second a word")
        space = "SpaceAfter=No" not in columns[9].split("|")
        if "." in columns[0]:  # an empty node of the enhanced graph has no place in the text
            continue
        first, _, last = columns[0].partition("-")
        if last:
            fused_last, fused_space = int(last), space
            continue
        if int(first) != len(words) + 1:
            raise ValueError(f"{name}:{number}: word {first} follows word {len(words)}")
        if int(first) <= fused_last:
            space = fused_space and int(first) == fused_last
        words.append(Word(*columns[1:5], space))
    return Sentence(tuple(words), any(comment.startswith("# newdoc") for comment in comments),
                    any(comment.startswith("# newpar") for comment in comments))


def read_tagged(path: Path) -> list[Sentence]:
    """Read sentences whose words have a tag each and no lemma, each a document of its own.

        How/WRB do/VBP/AUX I/PRP melt/VB pan/NN fat/NN +?/.

    One sentence a line. A word is ``FORM/TAG``; its universal part of speech is the first that ``POS_OF_TAG`` has for
    the tag, unless it is written too, as ``FORM/TAG/UPOS``. A ``+`` before the form says that no space is before it.
    Empty lines and lines from ``#`` on are skipped.

    Raises:
        ValueError: a word is written otherwise, or has an unknown tag; the message names the line.
    """
    return [Sentence(tuple(_tagged(line.split(), f"{path}:{number}")), opens_document=True)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if line.strip() and not line.startswith("#")]


def _tagged(items: list[str], place: str) -> Iterator[Word]:
    for item, following in zip(items, [*items[1:], "+"], strict=True):
        form, _, rest = item.removeprefix("+").partition("/")
        tag, _, written = rest.partition("/")
        known = POS_OF_TAG.get(tag, ())
        if not form or not known or (written or known[0]) not in known:
            raise ValueError(f"{place}: {item!r}: a word is FORM/TAG or FORM/TAG/UPOS, with a tag of the treebank")
        yield Word(form, "", written or known[0], tag, not following.startswith("+"))


def documents(sentences: Iterable[Sentence]) -> list[list[Sentence]]:
    """Cut a stream of sentences into its documents."""
    parts: list[list[Sentence]] = []
    for sentence in sentences:
        if sentence.opens_document or not parts:
            parts.append([])
        parts[-1].append(sentence)
    return parts


def build_doc(vocab: Vocab, sentences: Sequence[Sentence], shape: Shape | None = None) -> Doc:
    """Make a spaCy document, with gold annotation, from consecutive sentences in a given shape."""
    shape, rows, line = shape or Shape(), list[Row](), 0
    for index, sentence in enumerate(sentences):
        if shape.paragraphs and index and sentence.opens_paragraph:
            _put_break(rows, "\n\n")
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
    """Replace the norms of rare words of ``doc``, in place, by those of unknown words, and return ``doc``.

    A word that was seen n times is hidden with the probability share / (share + n), as in Kiperwasser and Goldberg
    (2016). Its prefix, suffix and shape stay, so that the networks learn to tag unknown words by these and by the
    words around them. ``counts`` has the number of occurrences by lower-cased word; white space is never hidden.
    """
    for token in doc:
        if not token.is_space and rng.random() < share / (share + counts[token.lower_]):
            token.norm_ = f"{rng.getrandbits(64):x}"  # another each time: no two unknown words are the same
    return doc


def sample_docs(vocab: Vocab, sentences: Iterable[Sentence], rng: random.Random,
                recipe: Mapping[str, Any]) -> list[Doc]:
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
            shape = Shape(wrap=recipe["wrap_width"] if rng.random() < recipe["wrap_share"] else None,
                          lower=rng.random() < recipe["lower_share"], spaced=rng.random() < recipe["spaced_share"],
                          paragraphs=rng.random() >= recipe["run_on_share"])
            docs.append(build_doc(vocab, document[start:start + size], shape))
            start += size
    rng.shuffle(docs)
    return docs
