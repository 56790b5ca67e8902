"""The choice between candidates: inverse document frequency, the order of ties, and the keyword of each text."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.ranking.blocks import Spans, TokenBlock, encode, run_starts, sum_by
from keycontrast.text.normal_form import normal_form

# Scores that are equal by symmetry may differ in their last bits, by the order of a sum.
DIGITS = 9


@dataclass(frozen=True)
class InverseFrequency:
    """Inverse document frequency over the training texts: ``ln((1 + n) / (1 + df)) + 1``.

    The smoothed form gives words that training has not seen the highest value, and never divides by zero.
    ``frequency`` counts the training texts that hold each lower-cased token.
    """

    n_texts: int
    frequency: Counter[str]

    @classmethod
    def over_tables(cls, tables: Iterable[pa.Table], wanted: np.ndarray | None = None) -> "InverseFrequency":
        """Count the tokens in pieces of table ``tokens``, of all texts or those ``wanted`` by text id."""
        frequency: Counter[str] = Counter()
        n_texts = 0
        for table in tables:
            if wanted is not None:
                ids = table["text_id"].to_numpy()
                inside = ids < len(wanted)
                inside[inside] = wanted[ids[inside]]
                table = table.filter(pa.array(inside))
            block = TokenBlock(table)
            codes, words = encode(block.tokens, str.lower)
            held = np.sort(block.text * max(len(words), 1) + codes)
            once = held[run_starts(held)] % max(len(words), 1)
            frequency.update(dict(zip(words, np.bincount(once, minlength=len(words)).tolist(), strict=True)))
            n_texts += table.num_rows
        return cls(n_texts, frequency)

    def of(self, token: str) -> float:
        """Return the value of one token."""
        return math.log((1 + self.n_texts) / (1 + self.frequency[token.lower()])) + 1

    def values(self, words: Sequence[str]) -> np.ndarray:
        """Return the value of each of ``words``, which are in lower case, (words,)."""
        held = np.fromiter((self.frequency.get(word, 0) for word in words), dtype=np.int64, count=len(words))
        counts, place = np.unique(held, return_inverse=True)
        # math.log, as in `of`: a vectorised logarithm may differ from it in the last bit.
        return np.array([math.log((1 + self.n_texts) / (1 + count)) + 1 for count in counts.tolist()])[place]

    def means(self, block: TokenBlock, spans: Spans) -> np.ndarray:
        """Return the mean value of each span's tokens, so that none wins by its length, (spans,)."""
        span, places = spans.members()
        codes, words = encode(block.tokens.take(pa.array(places)), str.lower)
        total = sum_by(span, self.values(words)[codes], len(spans))
        return total / np.maximum(spans.end - spans.start, 1)


def best_first(row: np.ndarray, score: np.ndarray, idf: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the order of candidates by row, then score and IDF to nine digits, earliest and shortest span."""
    return np.lexsort((end, start, -np.round(idf, DIGITS), -np.round(score, DIGITS), row))


def choose(block: TokenBlock, spans: Spans, score: np.ndarray, keyword: pa.Array, method: str, idf: InverseFrequency,
           lemmatize: bool = False) -> pa.Table:
    """Return columns ``text_id``, ``keyword``, ``method`` and ``score``: a row per text, by text id.

    The highest score wins; ties go to the higher IDF over training texts, then to the earliest position. If there is no
    candidate, the content word (alphabetic, no stop word) with the highest IDF is taken (method ``idf``), and without
    any the keyword is null (method ``none``).

    ``keyword`` holds the normal form of each candidate, which ``method`` made. ``lemmatize`` puts the lemma of a
    keyword's last word, its head, in the place of that word.
    """
    best = _best_of_each(spans, score, idf.means(block, spans))
    words = content_words(block)
    words = words.take(~np.isin(words.text, spans.text))
    values = idf.means(block, words)
    second = _best_of_each(words, values, values)
    words, values = words.take(second), values[second]
    chosen = Spans(*(np.concatenate([getattr(spans, name)[best], getattr(words, name)])
                     for name in ("text", "start", "end")))
    names = pa.concat_arrays([keyword.take(pa.array(best)), normal_forms(block, words)])
    if lemmatize:
        names = _lemmatised(block, chosen, names)
    without = np.setdiff1d(np.arange(len(block.text_ids)), chosen.text)
    order = pa.array(np.argsort(np.concatenate([chosen.text, without])))
    methods = [method] * len(best) + ["idf"] * len(words) + ["none"] * len(without)
    columns = {"text_id": pa.array(block.text_ids[np.concatenate([chosen.text, without])]),
               "keyword": pa.concat_arrays([names, pa.nulls(len(without), pa.string())]),
               "method": pa.array(methods, pa.string()),
               "score": pa.concat_arrays([pa.array(np.concatenate([score[best], values])),
                                          pa.nulls(len(without), pa.float64())])}
    return pa.table(columns).take(order)


def phrase_candidates(block: TokenBlock, rows: pa.Table) -> tuple[Spans, np.ndarray, pa.Array]:
    """Return spans, scores and keywords of the rows of a table of phrases that have a positive score."""
    rows = rows.filter(pc.greater(rows["score"], 0))  # a text without any phrase has a row without a score
    text = np.searchsorted(block.text_ids, rows["text_id"].to_numpy())
    start, end = (block.offsets[text] + rows[name].to_numpy().astype(np.int64) for name in ("token_start", "token_end"))
    return Spans(text, start, end), rows["score"].to_numpy(), rows["keyword"].combine_chunks()


def content_words(block: TokenBlock) -> Spans:
    """Return the alphabetic tokens that are no stop words."""
    stop = block.column("is_stop").to_numpy(zero_copy_only=False).astype(bool)
    places = np.flatnonzero(block.matching(str.isalpha) & ~stop)
    return Spans(block.text[places], places, places + 1)


def _best_of_each(spans: Spans, score: np.ndarray, idf: np.ndarray) -> np.ndarray:
    order = best_first(spans.text, score, idf, spans.start, spans.end)
    return order[run_starts(spans.text[order])]


def normal_forms(block: TokenBlock, words: Spans) -> pa.Array:
    """Return the normal forms of spans of one token."""
    codes, forms = encode(block.tokens.take(pa.array(words.start)), normal_form)
    return pa.array(forms, pa.string()).take(pa.array(codes))


def _lemmatised(block: TokenBlock, spans: Spans, keywords: pa.Array) -> pa.Array:
    """Put the lemma of each span's last token in its place, where the keyword ends with that token as written."""
    heads = pa.array(spans.end - 1)
    words, lemmas = (map(normal_form, block.column(name).take(heads).to_pylist()) for name in ("token", "lemma"))
    return pa.array([keyword.removesuffix(word) + lemma if lemma and word and keyword.endswith(word) else keyword
                     for keyword, word, lemma in zip(keywords.to_pylist(), words, lemmas, strict=True)], pa.string())
