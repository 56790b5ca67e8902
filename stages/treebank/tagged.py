"""Reading sentences whose words have a tag each, and nothing else: text that is cheap to write.

    How/WRB do/VBP/AUX I/PRP melt/VB pan/NN fat/NN +?/.

One sentence a line. A word is ``FORM/TAG``; its universal part of speech is the first that ``POS_OF_TAG`` has for
the tag, unless it is written too, as ``FORM/TAG/UPOS``. A ``+`` before the form says that no space is before it.
Empty lines and lines from ``#`` on are skipped.
"""

from pathlib import Path

from stages.run.errors import InputError, nearest
from stages.treebank.conllu import Sentence, Word

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
JOINED = "+"
PARTS = "a word is FORM/TAG or FORM/TAG/UPOS"
NO_LEMMA = ""  # what spaCy takes for a missing value


def read_tagged(path: Path) -> list[Sentence]:
    """Read all sentences of a file of tagged words, without lemmas, each a document of its own.

    Raises:
        InputError: there is no such file, it is not UTF-8 text, it has no sentence, or a word of it is bad; the
            message names file and line.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}; save it as UTF-8.") from error
    found = [_sentence(line.split(), f"{path}:{number}") for number, line in enumerate(lines, start=1)
             if line.strip() and not line.startswith("#")]  # fmt: skip
    if not found:
        raise InputError(f"{path}: no sentence in it; write one a line, such as Dogs/NNS bark/VBP +./.")
    return found


def _sentence(items: list[str], place: str) -> Sentence:
    """Return the sentence of one line."""
    if items[0].startswith(JOINED):
        raise InputError(f"{place}: {items[0]!r} opens the line, so {JOINED!r} has nothing to join it to; remove it.")
    spaces = [not item.startswith(JOINED) for item in items[1:]]
    words = []
    for item, space in zip(items, [*spaces, False], strict=True):
        form, tag, pos = _word(item, place)
        words.append(Word(form, NO_LEMMA, pos, tag, space))
    return Sentence(tuple(words), opens_document=True)


def _word(item: str, place: str) -> tuple[str, str, str]:
    """Return form, tag and part of speech of one item of a line."""
    parts = item.removeprefix(JOINED).split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InputError(f"{place}: {item!r}: {PARTS}, none of them empty.")
    form, tag, *written = parts
    if tag not in POS_OF_TAG:
        raise InputError(f"{place}: {item!r}: no tag {tag!r} is known; {nearest(tag, list(POS_OF_TAG))}")
    pos = written[0] if written else POS_OF_TAG[tag][0]
    if pos not in POS_OF_TAG[tag]:
        valid = " or ".join(POS_OF_TAG[tag])
        raise InputError(f"{place}: {item!r}: a word with the tag {tag} is {valid}, not {pos!r}.")
    return form, tag, pos
