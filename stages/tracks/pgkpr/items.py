"""Items of the PGKPR track: their tables, texts as words and tags, the vocabulary, and keywords of the source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
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


SPECIALS = ("[pad]", "[unk]", "<s>", "</s>", "<sep>", "[NOK]", "[MASK]")   # by id; models.common names the ids
UNKNOWN = SPECIALS[1]
KINDS = ("special", "tag", "word")
# The word tags of the Penn Treebank. Symbols and punctuation have tags too; of these, those that are seen.
PENN_WORD_TAGS = ("CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNP", "NNPS", "NNS", "PDT",
                  "POS", "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP",
                  "VBZ", "WDT", "WP", "WP$", "WRB")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, with kind and count in the training split: special tokens, then tags in brackets, then words."""

    tokens: tuple[str, ...]
    kinds: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def counted(cls, words: Mapping[str, int], tags: Mapping[str, int], size: int) -> "Vocabulary":
        """Return the vocabulary of all ``tags`` and the ``size`` most frequent ``words``, ties by spelling.

        A word that is spelt like a special token or a tag has no id.
        """
        named = {f"[{tag}]": tags[tag] for tag in sorted(tags)}
        ordered = sorted((-count, word) for word, count in words.items()
                         if count > 0 and word not in named and word not in SPECIALS)[:size]
        return cls((*SPECIALS, *named, *(word for _, word in ordered)),
                   ("special",) * len(SPECIALS) + ("tag",) * len(named) + ("word",) * len(ordered),
                   (*(0 for _ in SPECIALS), *named.values(), *(-count for count, _ in ordered)))

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> "Vocabulary":
        """Return the vocabulary in table ``vocabulary``."""
        frame = frame.sort_values("token_id")
        tokens, kinds = (tuple(frame[name].astype(str).tolist()) for name in ("token", "kind"))
        return cls(tokens, kinds, tuple(frame["count"].astype(int).tolist()))

    def to_frame(self) -> pd.DataFrame:
        """Return table ``vocabulary``."""
        return pd.DataFrame({"token_id": np.arange(self.size, dtype=np.int32), "token": self.tokens,
                             "kind": self.kinds, "count": np.array(self.counts, dtype=np.int64)})

    @property
    def size(self) -> int:
        """Tokens of every kind."""
        return len(self.tokens)

    @cached_property
    def word_numbers(self) -> dict[str, int]:
        """The id of each word."""
        return {token: number for number, token in enumerate(self.tokens) if self.kinds[number] == "word"}

    @cached_property
    def _tag_numbers(self) -> dict[str, int]:
        return {token[1:-1]: number for number, token in enumerate(self.tokens) if self.kinds[number] == "tag"}

    def words_ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word, given in lower case; [unk] if unknown."""
        return [self.word_numbers.get(word, UNK) for word in words]

    def tag_ids(self, tags: Iterable[str]) -> list[int]:
        """Return the id of each tag, given without brackets; [unk] if unknown."""
        return [self._tag_numbers.get(tag, UNK) for tag in tags]

    def text(self, ids: Iterable[int]) -> str:
        """Return the tokens of ``ids`` up to ``</s>``, without padding, joined by spaces."""
        return as_text(self.tokens[number] for number in takewhile(lambda number: number != EOS, ids) if number != PAD)

    def banned(self, unknown: bool) -> list[int]:
        """Return the ids that no output may hold: tags, and special tokens but ``</s>`` and, if allowed, [unk]."""
        allowed = {EOS, UNK} if unknown else {EOS}
        return [number for number, kind in enumerate(self.kinds) if kind != "word" and number not in allowed]


def as_text(words: Iterable[str]) -> str:
    """Return words joined by single spaces."""
    return " ".join(words)


def as_words(text: str) -> list[str]:
    """Return the words of a text, split at spaces only."""
    return [word for word in text.split(" ") if word]


def released_form(words: Sequence[str], known: Collection[str], limit: int) -> list[str]:
    """Return words as PGKPR's code compares texts (``ref_norm: released``): cut to ``limit``.

    Words outside the vocabulary ``known`` become [unk], and [unk] matches [unk], which raises scores.
    """
    return [word if word in known else UNKNOWN for word in words[:limit]]


# Texts by ascending id: their tokens in lower case without white space, and which tokens were kept.
WORD_ROWS = pa.schema([("text_id", pa.int64()), ("words", STRINGS), ("tags", STRINGS), ("kept", pa.list_(pa.bool_()))])
STALE = "The tables were made from different texts: run the stages from ingest on again with `keycontrast run`."


class TextWords:
    """Texts ``ids`` (T,) as lists of ``words`` and of their ``tags``, from ``rows`` of WORD_ROWS.

    Text t has ``lengths[t]`` words and the tokens ``offsets[t]:offsets[t + 1]``; ``kept`` (N,) marks tokens that are
    words.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.ids: np.ndarray = rows["text_id"].to_numpy()
        self.words, self.tags = (_combined(rows[name]) for name in ("words", "tags"))
        self.lengths = list_lengths(rows["words"])
        self.offsets = np.append(0, np.cumsum(list_lengths(rows["kept"])))
        self.kept: np.ndarray = _combined(pc.list_flatten(rows["kept"])).to_numpy(zero_copy_only=False)

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return the place in ``ids`` of each of ``text_ids``, all of which are there."""
        return np.searchsorted(self.ids, text_ids)

    def aligned(self, table: str, text_ids: np.ndarray, lists: pa.ChunkedArray) -> pa.ListArray:
        """Return ``lists``, which has a value per token of the texts ``text_ids`` (R,), for their words alone."""
        at = self.positions(text_ids)
        lengths, given = np.diff(self.offsets)[at], list_lengths(lists)
        wrong = np.flatnonzero(lengths != given)
        if len(wrong):
            raise InputError(f"{table}: text {text_ids[wrong[0]]} has values for {given[wrong[0]]} words, and "
                             f"{lengths[wrong[0]]} tokens in table tokens. {STALE}")
        kept = self.kept[np.repeat(self.offsets[at], lengths) + within(lengths)]
        return _filtered(pc.list_flatten(lists), lengths, kept)


def read_words(tokens: pa.Table) -> TextWords:
    """Return the texts of table ``tokens`` as words."""
    untagged = Faults()
    rows = word_rows(tokens, untagged)
    untagged.check()
    return TextWords(rows)


def word_rows(tokens: pa.Table, untagged: Faults) -> pa.Table:
    """Return the texts of table ``tokens`` as rows of WORD_ROWS; words without a tag are added to ``untagged``."""
    ordered = tokens.sort_by("text_id")
    lengths = list_lengths(ordered["token"])
    wrong = np.flatnonzero(lengths != list_lengths(ordered["tag"]))
    if len(wrong):
        raise InputError(f"table tokens: text {ordered['text_id'][int(wrong[0])]} has other numbers of tokens and of "
                         f"tags. Run the stage annotate again.")
    coded = _combined(pc.list_flatten(ordered["token"])).dictionary_encode()     # each distinct token is looked at once
    distinct = coded.dictionary.to_pylist()
    kept = np.array([bool(token.strip()) for token in distinct], dtype=bool)[coded.indices.to_numpy()]
    lower = pa.array([token.lower() for token in distinct], pa.string()).take(coded.indices)
    words, tags = (_filtered(values, lengths, kept) for values in (lower, pc.list_flatten(ordered["tag"])))
    untagged_words = np.flatnonzero(pc.equal(tags.values, "").to_numpy(zero_copy_only=False))
    if len(untagged_words):
        word = int(untagged_words[0])
        text = ordered["text_id"][int(np.searchsorted(words.offsets.to_numpy(), word, side="right")) - 1]
        untagged.add(len(untagged_words), lambda more: (
            f"table tokens: word {words.values[word].as_py()!r} of text {text} has no tag, and {more} more have none. "
            f"Name a pipeline that tags parts of speech in annotate.pipeline."))
    marks = pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), pa.array(kept))
    return pa.table([ordered["text_id"], words, tags, marks], schema=WORD_ROWS)


def list_lengths(lists: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the length of each list, int64."""
    return np.asarray(pc.list_value_length(lists)).astype(np.int64)


def within(lengths: np.ndarray) -> np.ndarray:
    """Return the place within its list of every value of consecutive lists (sum of ``lengths``,)."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _filtered(values: pa.Array | pa.ChunkedArray, lengths: np.ndarray, kept: np.ndarray) -> pa.ListArray:
    offsets = np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(lengths))]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _combined(values).filter(pa.array(kept)))


def _combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def phrase_words(ranking: pa.Table, words: TextWords, expected: np.ndarray, max_length: int) -> pa.ListArray:
    """Return which tokens of each text are keywords by table ``textrank``: a list each.

    Words are marked phrase by phrase, the best phrase first, and from the last word of a phrase, its head, to the
    first, until round(``expected``) of the first ``max_length`` words of each text (T,) are marked. If ``expected`` is
    the sum of the attribution scores of these words, both methods mark the same share of words.
    """
    rows = ranking.filter(pc.greater(ranking["rank"], 0)).sort_by([("text_id", "ascending"), ("rank", "ascending")])
    text = words.positions(rows["text_id"].to_numpy())
    start, end = (rows[name].to_numpy().astype(np.int64) for name in ("token_start", "token_end"))
    late = np.flatnonzero(end > np.diff(words.offsets)[text])
    if len(late):
        raise InputError(f"table textrank: a phrase of text {words.ids[text[late[0]]]} ends after its last token. "
                         f"{STALE}")
    lengths = end - start
    token = np.repeat(words.offsets[text] + end - 1, lengths) - within(lengths)
    token = token[words.kept[token]]     # white space is no word
    token = token[np.sort(np.unique(token, return_index=True)[1])]   # of overlapping phrases the better one has it
    owner, before = np.searchsorted(words.offsets, token, side="right") - 1, np.cumsum(words.kept) - words.kept
    read = before[token] - before[words.offsets[owner]] < max_length
    token, owner = token[read], owner[read]
    marked = within(np.bincount(owner, minlength=len(words.ids))) < np.rint(expected)[owner]
    mask = np.zeros(len(words.kept), dtype=bool)
    mask[token[marked]] = True
    return pa.ListArray.from_arrays(pa.array(words.offsets, pa.int32()), pa.array(mask))


# The keywords that a model reads by default, by its training rule, and those it reads in validation: under PSI those of
# training, since +X and +S share a model. `random` marks as many words on average as attribution from the source alone.
USED: dict[str, str] = {"attribution": "xx", "psi": "psi_xx", "textrank": "textrank", "random": "random",
                        "none": "none", "all": "all"}
VALIDATED: dict[str, str] = {**USED, "psi": "psi_xy"}
# Column of table `paraphrase_items` of each reading; coins are flipped for those of _FLIPPED.
COLUMNS: dict[str, str] = {"xx": "score_xx", "xy": "score_xy", "psi_xx": "primary_xx", "psi_xy": "primary_xy",
                           "s_tagger": "primary_s", "textrank": "primary_textrank", "random": "score_xx"}
_FLIPPED = ("xx", "xy", "random")
_CONSTANT = {"none": False, "all": True}
# Rules whose keywords are chosen by coins, so that an epoch may flip them anew.
FLIPPED_RULES = ("attribution", "random")


def keyword_rule(architecture: str, by: str) -> str | None:
    """Return the keyword rule of a model; None for one without keywords. IANet replaces attribution by PSI."""
    if architecture == "ianet" and by == "attribution":
        return "psi"
    return by if architecture in ("pgkpr", "ianet") else None


def by_example(pairs: pd.DataFrame) -> tuple[pd.DataFrame, list[list[str]]]:
    """Return the row of the target of each example, by id, and the texts of all its references."""
    ordered = pairs.sort_values(["example_id", "reference"])
    references = ordered["target_words"].map(as_text).groupby(ordered["example_id"]).agg(list)
    return ordered.drop_duplicates("example_id").reset_index(drop=True), references.tolist()


def first_places(words: Sequence[str]) -> np.ndarray:
    """Return the place of the first occurrence of each word, int64."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(word, place) for place, word in enumerate(words)], dtype=np.int64)


def fixed_masks(items: pd.DataFrame, which: str, seed: int, mark_all: bool = False,
                max_length: int | None = None) -> list[np.ndarray]:
    """Return which source words of evaluated pairs are keywords, bool (min(words, max_length),) of each row.

    The coins of an example have a seed of their own, independent of other rows and of the model. ``mark_all`` marks
    every occurrence of a keyword, and applies to flipped coins alone.
    """
    if which in _CONSTANT:
        return [np.full(len(words[:max_length]), _CONSTANT[which]) for words in items["source_words"]]
    rows = [np.asarray(row) for row in items[COLUMNS[which]]]
    if which not in _FLIPPED:
        return [row.astype(bool)[:max_length] for row in rows]
    if which == "random":
        rows = [np.full(len(row), row[:max_length].mean()) for row in rows]
    masks = [flipped(row, seed, which, example).astype(bool)[:max_length]
             for row, example in zip(rows, items["example_id"].tolist(), strict=True)]
    if mark_all:
        first = [first_places(words[:max_length]) for words in items["source_words"]]
        masks = [np.isin(places, places[mask]) for places, mask in zip(first, masks, strict=True)]
    return masks


def marked_words(words: Sequence[str], mask: np.ndarray) -> list[str]:
    """Return the distinct words that ``mask`` marks, in order; it may be shorter than ``words``."""
    return list(dict.fromkeys(word for word, marked in zip(words, mask, strict=False) if marked))
