"""YAKE over a block of texts (Campos, Mangaravite, Pasquali, Jorge, Nunes and Jatowt 2020, Information Sciences 509).

A text's words are scored by five features of the text alone, and its phrases of up to three words by their words.
Less is better in the paper; the scores here are reciprocals, so that more is, as in the other rankings. Of a term t,

    S(t) = rel pos / (case + freq / rel + spread / rel)

    case    occurrences in capitals, or with a capital inside a sentence, whichever are more, over 1 + ln tf
    pos     ln ln (3 + median of the numbers of its sentences, from 0)
    freq    tf over mean and standard deviation of the tf of the text's terms that are no stop words
    rel     1 + (dl + dr) tf / max tf; dl is the number of distinct terms before it over that of all, dr behind it
    spread  share of the sentences that have it

and of a phrase that occurs k times and neither begins nor ends with a stop word,

    S(kw) = product of S(t) / (k (1 + sum of S(t))),

where a stop word between its neighbours l and r counts 2 - p in the product and p - 1 in the sum, p being the share
of l's occurrences that it follows times the share of r's that it precedes.

Where the paper leaves things open, this is the authors' program, with which a test compares: a plural's s is taken
off; words of fewer than three letters are stop words; numbers and mixtures of letters and signs are in no phrase; of
phrases that are almost the same (see :data:`ALIKE`) the best stays. Tokens, sentences and stop words are those of
the annotation, which tells Chinese words of two characters from stop words. Clitics such as "'s" are passed over.
"""

import math
import string
import unicodedata
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np
import pyarrow as pa

from stages.ranking.blocks import Spans, TokenBlock, encode, segment_ranks, sum_by
from stages.ranking.cooccurrence import Graphs, number_nodes
from stages.ranking.iteration import Scores
from stages.ranking.methods import Solved
from stages.ranking.phrases import Phrases, rank_spans
from stages.ranking.selection import InverseFrequency

# Similarity (of difflib) beyond which the worse of two phrases is left out: the authors' default.
ALIKE = 0.9
# Shortest word that is no stop word by its length.
_SHORTEST = {"zh": 2, "": 3}
_PLURAL = 4  # letters from which a final s is taken for that of a plural
_WORD, _CAPITALS, _CAPITAL, _ODD, _MARK, _NOTHING = range(6)


@dataclass(frozen=True)
class _Words:
    """The words of a block: neither punctuation nor white space nor clitics, in the order of the texts.

    Attributes:
        place: of each word's token (words,).
        text: row of its text.
        run: number of the stretch of words without punctuation that it is in.
        sentence: number of its sentence in the text, from 0.
        sentences: how many each text has (texts,).
        surface: number of the word in lower case.
        odd: whether it is a number, or mixes letters with digits or signs.
        case: 1 for capitals, 2 for a capital inside a sentence, else 0.
        term: number of (text, word less a plural's s), which grow from text to text.
        sizes: terms of each text (texts,).
        stop: whether each term is a stop word (terms,).
    """

    place: np.ndarray
    text: np.ndarray
    run: np.ndarray
    sentence: np.ndarray
    sentences: np.ndarray
    surface: np.ndarray
    odd: np.ndarray
    case: np.ndarray
    term: np.ndarray
    sizes: np.ndarray
    stop: np.ndarray


@dataclass(frozen=True)
class _Pairs:
    """Neighbouring terms: distinct ordered pairs as ``left * terms + right``, sorted, and how often each occurs."""

    key: np.ndarray
    count: np.ndarray
    terms: int

    def counts(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return how often each ``right`` follows its ``left``."""
        key = left * self.terms + right
        found = np.minimum(np.searchsorted(self.key, key), max(len(self.key) - 1, 0))
        return np.where(self.key[found] == key, self.count[found], 0) if len(self.key) else np.zeros(len(key))


@dataclass(frozen=True)
class YakeRanking:
    """How to rank: a :class:`stages.ranking.methods.Ranking`.

    Attributes:
        language: decides from how many letters on a word may be no stop word.
        window: words to either side that are neighbours of a word.
        longest: words of a phrase at most; of more than three, with two stop words inside, S could be negative.
    """

    language: str = "en"
    window: int = 1
    longest: int = 3
    method: str = "yake"

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        return f"YAKE, window {self.window}, phrases of at most {self.longest} words; scores are reciprocals of the " \
               f"paper's S, of which less is better"

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the terms and phrases of every text of ``block``; a text's numbers depend on that text alone.

        Nodes are the terms, those kept the ones that are no stop words; edges count how often two are neighbours.
        """
        words = _words(block, _SHORTEST.get(self.language, _SHORTEST[""]))
        pairs = _pairs(words, self.window)
        value = _term_values(words, pairs)
        spans, score = _phrases(words, pairs, value, self.longest)
        texts = np.zeros(len(words.sizes))
        scores = Scores(1 / value, texts.astype(np.int64), texts, np.ones(len(texts), dtype=bool))
        return Solved(_graphs(block, words, pairs), scores, ~words.stop, spans, score, iterated=False)

    def phrases(self, block: TokenBlock, solved: Solved, idf: InverseFrequency | None, limit: int | None) -> Phrases:
        """Rank the phrases that were scored; ``limit`` per text, or all."""
        found = rank_spans(block, solved.spans, solved.score, idf, None, scrub=False)
        return without_alike(found, limit, ALIKE)


def without_alike(phrases: Phrases, limit: int | None, alike: float) -> Phrases:
    """Leave out each phrase whose keyword is more than ``alike`` similar to that of a better one of the same text."""
    keywords, texts = phrases.keyword.to_pylist(), phrases.spans.text.tolist()
    kept: list[int] = []
    mine: list[str] = []
    for place, (text, keyword) in enumerate(zip(texts, keywords, strict=True)):
        if place and text != texts[place - 1]:
            mine = []
        if (limit is None or len(mine) < limit) and not any(_alike(keyword, other, alike) for other in mine):
            mine.append(keyword)
            kept.append(place)
    places = np.array(kept, dtype=np.int64)
    spans = phrases.spans.take(places)
    return replace(phrases, spans=spans, rank=segment_ranks(spans.text) + 1, score=phrases.score[places],
                   idf=phrases.idf[places], phrase=phrases.phrase.take(pa.array(places)),
                   keyword=phrases.keyword.take(pa.array(places)))


def _alike(one: str, other: str, alike: float) -> bool:
    # The ratio is twice the letters in common over those of both; lengths bound it, and are looked at first.
    if 2 * min(len(one), len(other)) <= alike * (len(one) + len(other)):
        return False
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() > alike and matcher.ratio() > alike


def _words(block: TokenBlock, shortest: int) -> _Words:
    codes, known = encode(block.tokens)
    listed = known.to_pylist()
    kinds = np.array([_kind(word) for word in listed], dtype=np.int64)[codes] if len(codes) else np.zeros(0, np.int64)
    visible = np.flatnonzero(kinds != _NOTHING)
    kind, text = kinds[visible], block.text[visible]
    opens = np.append(True, np.diff(block.sentence[visible]) != 0)[:len(visible)]
    sentences = np.bincount(text[opens], minlength=block.table.num_rows)
    sentence = (np.cumsum(opens) - 1) - (np.cumsum(sentences) - sentences)[text]
    run = np.cumsum(opens | (kind == _MARK))
    chosen = kind != _MARK
    place, text, kind = visible[chosen], text[chosen], kind[chosen]
    case = np.where(kind == _CAPITALS, 1, np.where((kind == _CAPITAL) & ~opens[chosen], 2, 0))
    surfaces = _numbered([word.lower() for word in listed])
    terms = _numbered([_term(word) for word in listed])
    short = np.array([len(_letters(_term(word))) < shortest for word in listed], dtype=bool)
    mine = codes[place]
    term, offsets = number_nodes(text, terms[mine], len(listed), block.table.num_rows)
    first = np.empty(int(offsets[-1]), dtype=np.int64)
    first[term[::-1]] = np.arange(len(term))[::-1]
    stop = block.column("is_stop").to_numpy(zero_copy_only=False).astype(bool)[place] | short[mine]
    return _Words(place, text, run[chosen], sentence[chosen], sentences, surfaces[mine], kind == _ODD, case, term,
                  np.diff(offsets), stop[first])


def _kind(token: str) -> int:
    """Tell words, capitals, capitalised words, odd ones, punctuation, and what is passed over."""
    if not token.strip() or (token.startswith("'") and len(token) > 1):
        return _NOTHING
    if all(char in string.punctuation or unicodedata.category(char)[0] == "P" for char in token):
        return _MARK
    digits, letters = any(map(str.isdigit, token)), any(map(str.isalpha, token))
    if digits == letters or sum(char in string.punctuation for char in token) > 1:
        return _ODD
    if token.replace(",", "").replace(".", "", 1).isdigit():
        return _ODD
    if token.isupper():
        return _CAPITALS
    return _CAPITAL if len(token) > 1 and token[0].isupper() and sum(map(str.isupper, token)) == 1 else _WORD


def _term(token: str) -> str:
    lower = token.lower()
    return lower[:-1] if lower.endswith("s") and len(lower) >= _PLURAL else lower


def _letters(word: str) -> str:
    return "".join(char for char in word if char not in string.punctuation)


def _numbered(forms: list[str]) -> np.ndarray:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(form, len(numbers)) for form in forms], dtype=np.int64)


def _pairs(words: _Words, window: int) -> _Pairs:
    terms, keys = len(words.stop), [np.zeros(0, dtype=np.int64)]
    for apart in range(1, window + 1):
        left, right = slice(None, -apart), slice(apart, None)
        near = (words.run[left] == words.run[right]) & ~words.odd[left] & ~words.odd[right]
        keys.append((words.term[left] * terms + words.term[right])[near])
    key, count = np.unique(np.concatenate(keys), return_counts=True)
    return _Pairs(key, count, terms)


def _term_values(words: _Words, pairs: _Pairs) -> np.ndarray:
    """Return S of each term, (terms,)."""
    terms = len(words.stop)
    text = np.repeat(np.arange(len(words.sizes)), words.sizes)
    frequency = np.bincount(words.term, minlength=terms).astype(np.float64)
    largest = np.zeros(len(words.sizes))
    np.maximum.at(largest, text, frequency)
    held, median = _sentences(words, terms)
    capitals = np.maximum(*(np.bincount(words.term, words.case == case, terms) for case in (1, 2)))
    case = capitals / (1 + _log(frequency))
    position = _log(_log(3 + median))
    spread = held / words.sentences[text]
    share = frequency / largest[text]
    left, right = np.divmod(pairs.key, max(terms, 1))
    related = (0.5 + _variety(right, pairs, terms) * share) + (0.5 + _variety(left, pairs, terms) * share)
    usual = frequency / _typical(text, frequency, ~words.stop, len(words.sizes))[text]
    return (position * related) / (case + usual / related + spread / related)


def _variety(term: np.ndarray, pairs: _Pairs, terms: int) -> np.ndarray:
    """Return the distinct neighbours of each term on one side over all of them; 0 without any."""
    whole = np.bincount(term, pairs.count, terms)
    return np.divide(np.bincount(term, minlength=terms), whole, out=np.zeros(terms), where=whole > 0)


def _typical(text: np.ndarray, frequency: np.ndarray, counted: np.ndarray, texts: int) -> np.ndarray:
    """Return mean and standard deviation together of the frequencies that count; 1 for a text without any."""
    number = np.maximum(np.bincount(text[counted], minlength=texts), 1)
    mean = sum_by(text[counted], frequency[counted], texts) / number
    variance = sum_by(text[counted], np.square(frequency - mean[text])[counted], texts) / number
    return np.where(mean > 0, mean + np.sqrt(variance), 1.0)


def _sentences(words: _Words, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return in how many sentences each term is, and the median of their numbers."""
    width = int(words.sentence.max(initial=0)) + 1
    term, sentence = np.divmod(np.unique(words.term * width + words.sentence), width)
    held = np.bincount(term, minlength=terms)
    begin = np.cumsum(held) - held
    return held, (sentence[begin + (held - 1) // 2] + sentence[begin + held // 2]) / 2


def _log(values: np.ndarray) -> np.ndarray:
    # math.log: a vectorised logarithm may differ in the last bit, by the place of a value in its array.
    found, place = np.unique(values, return_inverse=True)
    return np.array([math.log(value) for value in found.tolist()])[place]


def _phrases(words: _Words, pairs: _Pairs, value: np.ndarray, longest: int) -> tuple[Spans, np.ndarray]:
    """Return the occurrences of phrases, and the score of each."""
    surfaces = int(words.surface.max(initial=0)) + 1
    key = words.text
    starts, ends, scores = [], [], []
    for length in range(1, longest + 1):
        first = np.arange(len(words.place) - length + 1)
        last = first + length - 1
        key = np.unique(key[:len(first)] * surfaces + words.surface[last], return_inverse=True)[1]
        inside = words.run[first] == words.run[last]
        inside &= ~(words.stop[words.term[first]] | words.stop[words.term[last]])
        kind, one, same, count = np.unique(key[inside], return_index=True, return_inverse=True, return_counts=True)
        first, last = first[inside], last[inside]
        plain = np.add.reduce([words.odd[first + step] for step in range(length)], axis=0) == 0
        allowed = np.bincount(same, plain, len(kind)) > 0
        members = words.term[first[one][:, None] + np.arange(length)]
        score = _reciprocal(members, words, pairs, value) * count
        chosen = allowed[same]
        starts.append(first[chosen])
        ends.append(last[chosen])
        scores.append(score[same][chosen])
    start, end = np.concatenate(starts), np.concatenate(ends)
    return Spans(words.text[start], words.place[start], words.place[end] + 1), np.concatenate(scores)


def _reciprocal(members: np.ndarray, words: _Words, pairs: _Pairs, value: np.ndarray) -> np.ndarray:
    """Return (1 + sum) / product over the terms of phrases (phrases, length), as they count."""
    frequency = np.bincount(words.term, minlength=len(value))
    product, total = np.ones(len(members)), np.zeros(len(members))
    for place in range(members.shape[1]):
        term = members[:, place]
        stop = words.stop[term]
        if stop.any():
            before, after = members[:, max(place - 1, 0)], members[:, min(place + 1, members.shape[1] - 1)]
            follows = pairs.counts(before, term) / frequency[before] * (pairs.counts(term, after) / frequency[after])
        else:
            follows = np.ones(len(term))
        product *= np.where(stop, 1 + (1 - follows), value[term])
        total += np.where(stop, follows - 1, value[term])
    return (total + 1) / product


def _graphs(block: TokenBlock, words: _Words, pairs: _Pairs) -> Graphs:
    """Return the terms as nodes, joined where they are neighbours in either order."""
    node_of = np.full(len(block.text), -1, dtype=np.int64)
    node_of[words.place] = words.term
    left, right = np.divmod(pairs.key, max(pairs.terms, 1))
    edge, place = np.unique(np.minimum(left, right) * pairs.terms + np.maximum(left, right), return_inverse=True)
    first, second = np.divmod(edge, max(pairs.terms, 1))
    return Graphs(np.concatenate([[0], np.cumsum(words.sizes)]), node_of, first, second,
                  np.bincount(place, pairs.count, len(edge)))
