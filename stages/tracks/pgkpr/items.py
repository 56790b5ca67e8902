"""Items of the PGKPR track: their tables, the vocabulary, texts as words again, and which words are keywords.

    vocabulary = Vocabulary.from_frame(read_frame(path, VOCABULARY))
    vocabulary.words_ids(["what", "is", "zyzzyva"])  # the last is [unk]
    mask = fixed_mask(row, "xx", seed=13)  # keywords: the same for every model, batch and device
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from models.common import EOS, PAD, UNK
from stages.common.schemas import STRINGS, TableSchema
from stages.common.seeds import flipped

PARAPHRASE_ITEMS = TableSchema(
    "paraphrase_items", "Pairs as words, with tags and keyword scores of the source (PGKPR).",
    ("example_id", "reference"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("reference", pa.int32(), "0 for the target; 1.. for further references, each a pair of its own"),
        ("split", pa.string(), "train, validation or test"),
        ("group", pa.int64(), "group of table examples: texts of one group are no negatives of each other"),
        ("source", pa.string(), "source text"),
        ("target", pa.string(), "target text"),
        ("source_words", STRINGS, "words of the source in lower case, uncut"),
        ("source_tags", STRINGS, "Penn tag of each, from the text as written"),
        ("target_words", STRINGS, "words of the target in lower case, uncut"),
        ("target_tags", STRINGS, "Penn tag of each"),
        ("score_xx", pa.list_(pa.float32()), "keyword probability of each source word, from the source alone"),
        ("score_xy", pa.list_(pa.float32()), "keyword probability of each source word, from this pair"),
        ("primary_xx", pa.list_(pa.bool_()), "primary by PSI, from the source alone; null where no "
                                            "model reads primary words"),
        ("primary_xy", pa.list_(pa.bool_()), "primary by PSI, from this pair; null likewise"),
        ("primary_s", pa.list_(pa.bool_()), "primary as the S-Tagger sees it; null where no run reads that"),
        ("primary_textrank", pa.list_(pa.bool_()), "word of the best phrases of TextRank, as many words as attribution "
                                                   "expects of the source; null where no model reads these"),
    ))

VOCABULARY = TableSchema(
    "vocabulary", "The one vocabulary of words, tags and special tokens.", ("token_id",), (
        ("token_id", pa.int32(), "id; [pad] is 0"),
        ("token", pa.string(), "special token, tag in brackets such as [NN], or word in lower case"),
        ("kind", pa.string(), "special, tag or word"),
        ("count", pa.int64(), "occurrences in sources and targets of the training split"),
    ))


# By id; models.common names the ids.
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
        named = {f"[{tag}]": tags[tag] for tag in sorted(tags)}
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


# `random` marks as many words as attribution from the source alone does on average, `none` no word, `all` every one.
Which = Literal["xx", "xy", "psi_xx", "psi_xy", "s_tagger", "textrank", "random", "none", "all"]
# What models without keywords have in the place of these is None.
Rule = Literal["attribution", "psi", "textrank", "random", "none", "all"]
# What a model that was trained by a rule reads where nothing else is said, and what validates it (+X and +S
# share a model, so validation by PSI reads what training did).
USED: dict[Rule, Which] = {"attribution": "xx", "psi": "psi_xx", "textrank": "textrank", "random": "random",
                           "none": "none", "all": "all"}
VALIDATED: dict[Rule, Which] = {**USED, "psi": "psi_xy"}
# Column of table `paraphrase_items` behind each reading; coins are flipped for those of _FLIPPED, and _CONSTANT need
# no column.
COLUMNS: dict[str, str] = {"xx": "score_xx", "xy": "score_xy", "psi_xx": "primary_xx", "psi_xy": "primary_xy",
                           "s_tagger": "primary_s", "textrank": "primary_textrank", "random": "score_xx"}
_FLIPPED = ("xx", "xy", "random")
_CONSTANT = {"none": False, "all": True}
# Rules whose keywords are chosen by coins, so that an epoch may flip them anew.
FLIPPED_RULES = ("attribution", "random")


def by_example(pairs: pd.DataFrame) -> tuple[pd.DataFrame, list[list[str]]]:
    """Return the row of the target of each example, in the order of ids, and the texts of all its references."""
    ordered = pairs.sort_values(["example_id", "reference"])
    references = ordered["target_words"].map(as_text).groupby(ordered["example_id"]).agg(list)
    return ordered.drop_duplicates("example_id").reset_index(drop=True), references.tolist()


def first_places(words: Sequence[str]) -> np.ndarray:
    """Return, for each of ``words``, the place of its first occurrence, int64."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(word, place) for place, word in enumerate(words)], dtype=np.int64)


def fixed_mask(row: Mapping[str, Any], which: Which, seed: int, mark_all: bool = False,
               max_length: int | None = None) -> np.ndarray:
    """Return which source words of an evaluated pair are keywords.

    The coins for scores are flipped with a seed of the example's own, so they depend neither on other rows nor on the
    model. Primary words need none.

    Args:
        row: of table ``paraphrase_items``, as a mapping by column.
        which: scores from the source alone (``xx``) or with the reference (``xy``); primary words by PSI likewise
            (``psi_xx``, ``psi_xy``) or by the S-Tagger (``s_tagger``); words of the phrases of ``textrank``; or, as
            controls, ``random`` words, whose probability is the mean of the scores xx, ``none`` or ``all``.
        seed: of the coins.
        mark_all: every occurrence of a keyword is one; where coins are flipped alone.
        max_length: words that the model reads; what is behind them is cut after the coins are flipped.

    Returns:
        bool (min(words, max_length),).
    """
    if which in _CONSTANT:
        return np.full(len(row["source_words"][:max_length]), _CONSTANT[which])
    values = np.asarray(row[COLUMNS[which]])
    if which not in _FLIPPED:
        return values.astype(bool)[:max_length]
    if which == "random":
        values = np.full(len(values), values.mean())
    mask = flipped(values, seed, which, row["example_id"]).astype(bool)[:max_length]
    if mark_all:
        first = first_places(row["source_words"][:max_length])
        mask = np.isin(first, first[mask])
    return mask


def fixed_masks(items: pd.DataFrame, which: Which, seed: int, mark_all: bool = False,
                max_length: int | None = None) -> list[np.ndarray]:
    """Return :func:`fixed_mask` of every row of ``items``."""
    read = ["example_id", "source_words", *([COLUMNS[which]] if which in COLUMNS else [])]
    columns = items[read].to_dict("records")
    return [fixed_mask({str(name): value for name, value in row.items()}, which, seed, mark_all, max_length)
            for row in columns]
