"""Texts of the PGKPR track as words again, and as the authors' code scores them (docs/pgkpr.md).

    form = ReleasedForm(vocabulary.word_numbers, words=16)
    form.words(as_words("where is the zyzzyva ?"))  # ["where", "is", "the", "[unk]", "?"]
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stages.tracks.pgkpr.vocabulary import SPECIALS

UNKNOWN = SPECIALS[1]


def as_text(words: Iterable[str]) -> str:
    """Return words as the text that tables and people see: joined by single spaces."""
    return " ".join(words)


def as_words(text: str) -> list[str]:
    """Return the words of what :func:`as_text` or a model made; only spaces part words."""
    return [word for word in text.split(" ") if word]


@dataclass(frozen=True)
class ReleasedForm:
    """The form in which PGKPR's code compares texts (``ref_norm: released``).

    Words outside the vocabulary become [unk], and [unk] matches [unk]; texts are cut. That lifts scores, so they are
    comparable with published ones and not with those of whole texts. The code does so to references; outputs of
    models are in this form already, and outputs that need no model are brought into it.

    Attributes:
        known: words of the vocabulary.
        limit: words kept of a text.
    """

    known: Collection[str]
    limit: int

    def words(self, words: Sequence[str]) -> list[str]:
        """Return ``words`` in this form."""
        return [word if word in self.known else UNKNOWN for word in words[:self.limit]]
