"""The one vocabulary of the PGKPR track: special tokens, part-of-speech tags, words.

    vocabulary = Vocabulary.from_frame(read_frame(path, VOCABULARY))
    vocabulary.words_ids(["what", "is", "zyzzyva"])  # the last is [unk]
    vocabulary.tag_ids(["WP", "VBZ", "NN"])
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from models.common.special import EOS, PAD, UNK

# By id; models.common.special names the ids.
SPECIALS = ("[pad]", "[unk]", "<s>", "</s>", "<sep>", "[NOK]", "[MASK]")
KINDS = ("special", "tag", "word")
# The word tags of the Penn Treebank. Symbols and punctuation have tags too; of these, those that are seen.
PENN_WORD_TAGS = ("CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNP", "NNPS", "NNS", "PDT",
                  "POS", "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP",
                  "VBZ", "WDT", "WP", "WP$", "WRB")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id: the special ones, then tags in brackets, then words.

    Attributes:
        tokens: the token of each id.
        kinds: ``special``, ``tag`` or ``word``, likewise.
        counts: occurrences in sources and targets of the training split, likewise; 0 for special tokens.
    """

    tokens: tuple[str, ...]
    kinds: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def counted(cls, words: Mapping[str, int], tags: Mapping[str, int], size: int) -> "Vocabulary":
        """Return the vocabulary of all ``tags`` and the ``size`` most frequent of ``words``, equals by spelling.

        A text may hold a word that is spelt like a special token or a tag. It is none, and has no id of its own.

        Args:
            words: occurrences of each word; words that do not occur are left out.
            tags: occurrences of each tag, without brackets.
            size: words at most.
        """
        named = {bracketed(tag): tags[tag] for tag in sorted(tags)}
        ordered = sorted((-count, word) for word, count in words.items()
                         if count > 0 and word not in named and word not in SPECIALS)[:size]
        return cls((*SPECIALS, *named, *(word for _, word in ordered)),
                   ("special",) * len(SPECIALS) + ("tag",) * len(named) + ("word",) * len(ordered),
                   (*(0 for _ in SPECIALS), *named.values(), *(-count for count, _ in ordered)))

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> "Vocabulary":
        """Return the vocabulary that table ``vocabulary`` holds.

        Raises:
            InputError: ids do not count from 0, special tokens are others than ours, or kinds are unknown.
        """
        frame = frame.sort_values("token_id")
        tokens, kinds = (tuple(frame[name].astype(str).tolist()) for name in ("token", "kind"))
        remedy = "Run the stage paraphrase_items again."
        if not np.array_equal(frame["token_id"], np.arange(len(frame))):
            raise InputError(f"vocabulary.parquet: column token_id does not count from 0 without gaps. {remedy}")
        if tokens[:len(SPECIALS)] != SPECIALS:
            raise InputError(f"vocabulary.parquet: column token begins with {', '.join(tokens[:len(SPECIALS)])}, not "
                             f"with {', '.join(SPECIALS)}; it was written by another version. {remedy}")
        in_order = tuple(kind for kind in KINDS for _ in range(kinds.count(kind)))
        if kinds != in_order or kinds.count("special") != len(SPECIALS):
            raise InputError(f"vocabulary.parquet: column kind is not {len(SPECIALS)} times special, then tag, then "
                             f"word. {remedy}")
        return cls(tokens, kinds, tuple(frame["count"].astype(int).tolist()))

    def to_frame(self) -> pd.DataFrame:
        """Return table ``vocabulary``."""
        return pd.DataFrame({"token_id": np.arange(self.size, dtype=np.int32), "token": self.tokens,
                             "kind": self.kinds, "count": np.array(self.counts, dtype=np.int64)})

    @property
    def size(self) -> int:
        """Tokens of every kind."""
        return len(self.tokens)

    def words_ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word, given in lower case; [unk] where it is unknown."""
        known = self.word_numbers
        return [known.get(word, UNK) for word in words]

    def tag_ids(self, tags: Iterable[str]) -> list[int]:
        """Return the id of each tag, given without brackets; [unk] where it is unknown."""
        known = self._tag_numbers
        return [known.get(tag, UNK) for tag in tags]

    def text(self, ids: Iterable[int]) -> str:
        """Return the tokens of ``ids`` joined by spaces: padding is passed over, and ``</s>`` ends the text."""
        found = []
        for number in ids:
            if number == EOS:
                break
            if number != PAD:
                found.append(self.tokens[number])
        return " ".join(found)

    def banned(self, unknown: bool) -> list[int]:
        """Return the ids that no output may hold: tags, and special tokens but ``</s>``.

        Args:
            unknown: whether an output may hold [unk].
        """
        allowed = {EOS, UNK} if unknown else {EOS}
        return [number for number, kind in enumerate(self.kinds) if kind != "word" and number not in allowed]

    @cached_property
    def word_numbers(self) -> dict[str, int]:
        """The id of each word."""
        return {token: number for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
                if kind == "word"}

    @cached_property
    def _tag_numbers(self) -> dict[str, int]:
        return {token[1:-1]: number for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
                if kind == "tag"}


def bracketed(tag: str) -> str:
    """Return ``tag`` as the vocabulary has it: ``NN`` as ``[NN]``."""
    return f"[{tag}]"
