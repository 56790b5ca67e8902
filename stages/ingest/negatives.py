"""Negatives by search: texts of most overlap, nearest texts, and outputs of other items."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.progress import progress
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.examples import TURN
from stages.common.retrieval import Scores, bm25, word_counts
from stages.common.seeds import derived_seed, generator, seed_everything
from stages.ingest.items import Items
from stages.ingest.splits import TEST, VALIDATION
from stages.ingest.text_keys import HAN, order_key, overlap_tokens, text_key
from stages.ingest.texts import NO_TEXT, TextFile, TextLists, grouped

# Returns the unit vectors of texts, (n_texts, d) float32.
Embed = Callable[[Sequence[str]], np.ndarray]

_RUNS = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+")
_HAN_RUN = re.compile(rf"[{HAN}]")
_BATCH, _CELLS = 2**12, 4_000_000
_ROWS, _LONGEST = 64, 128  # texts of a chunk, word pieces of a text
# Cosines are rounded to these decimals, since further ones depend on the order of sums; ties go by text key.
_DECIMALS = 5


def overlap(texts: Iterable[str]) -> Scores:
    """Return the Jaccard overlaps of the words of ``texts``.

    Float32 is exact enough: quotients of numbers below 2**11 differ whenever the fractions do.
    """
    words = word_counts(texts, overlap_tokens).astype(np.float32)
    columns, sizes = words.T.tocsr(), np.diff(words.indptr).astype(np.float32)

    def scores(places: np.ndarray) -> np.ndarray:
        shared = (words[places] @ columns).toarray()
        # Two texts without words have none in common.
        quotients: np.ndarray = shared / np.maximum(sizes[places, None] + sizes - shared, 1)
        return quotients

    return scores


def terms(text: str) -> list[str]:
    """Return the terms of ``text``: lower-cased words, and pairs of neighbouring Chinese characters in place of words,
    whose boundaries are unknown before annotation. A single Chinese character is a term by itself."""
    tokens: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).lower()):
        paired = len(run) > 1 and _HAN_RUN.match(run)
        tokens += [character + other for character, other in pairwise(run)] if paired else [run]
    return tokens


def cosines(queries: np.ndarray, pool: np.ndarray, ceiling: float | None) -> Scores:
    """Return the cosines of the unit vectors ``pool`` to ``queries``, both (n_pool, d); -inf above ``ceiling``."""

    def scores(places: np.ndarray) -> np.ndarray:
        products = np.round(queries[places] @ pool.T, _DECIMALS)
        return products if ceiling is None else np.where(products > ceiling, -np.inf, products)

    return scores


def frozen(source: str) -> Embed:
    """Return a function that embeds texts as unit vectors, the means of a frozen encoder's states.

    It runs on the CPU in one thread, so that the nearest text does not depend on the machine.
    """
    from models.common.encoders import load_encoder

    resolved = resolve_encoder(source, "ingest.neg_encoder")
    seed_everything(0)
    try:
        encoder, tokenizer = load_encoder(resolved.location)
    except ValueError as error:
        raise InputError(f"ingest.neg_encoder: {error}.") from error
    assert tokenizer is not None  # a location always has one
    tokenizer.truncation_side = "left"  # the latest turn of a dialogue survives
    longest = min(int(tokenizer.model_max_length), _LONGEST)

    def embedded(texts: Sequence[str]) -> np.ndarray:
        chunks = list(embed_texts(encoder, tokenizer, texts, _ROWS, longest, "mean",
                                  lambda chunks: progress(chunks, "ingest: embedding", unit="chunk")))
        order = np.argsort(np.concatenate([places for places, _ in chunks]))
        vectors = np.concatenate([vectors for _, vectors in chunks])[order]
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))

    return embedded


def in_key_order(texts: TextFile, wanted: np.ndarray) -> np.ndarray:
    """Return the numbers of the texts where ``wanted`` (n_texts,) is true, in the order of their keys."""
    keys = pa.chunked_array([pa.array(map(order_key, batch), pa.string()) for batch in texts.batches(wanted, _BATCH)],
                            pa.string())
    # Arrow compares bytes of UTF-8, which is the order of Python's strings, and keeps the order of equal ones.
    places: np.ndarray = np.flatnonzero(wanted).astype(np.int32)[pc.sort_indices(keys).to_numpy()]
    return places


def search(items: Items, split: np.ndarray, asked: np.ndarray, group: np.ndarray, texts: TextFile, way: str, seed: int,
           allowed: np.ndarray | None = None, embed: Embed | None = None,
           ceiling: float | None = None) -> np.ndarray:
    """Return a negative of each item at ``asked``, a text of the same split and of another component, (n,);
    ``NO_TEXT`` where the split has none.

    With ``allowed`` the negative is any allowed text; without it, an output of another item that is no input or output
    of the item's own component. ``retrieved`` returns the text of most overlap with the input, ``bm25`` the output of
    the most similar input by BM25, ``mined`` the nearest text or output by an encoder's cosine, but none above
    ``ceiling``; ties are broken by text key. ``random`` shuffles the items by the seed, and returns the first possible
    output from a place that is drawn by the seed and the item's texts.

    Args:
        split: (n_items,) index into ``SPLITS``.
        asked: (n,) places of the items that are kept among all ``items``, rising.
        group: (n_texts,) component of each text.
        allowed: (n_texts,) splits in which each text may be a negative, one bit each.
    """
    chosen, refused = np.empty(len(asked), dtype=np.int32), _component_texts(items, group)
    for which in np.unique(split[asked]).tolist():
        of_split = np.flatnonzero(split[asked] == which)
        if allowed is None:
            pool = _items_in_key_order(items, np.flatnonzero(split == which), texts)
            queries, inputs, outputs = _places(pool, asked[of_split]), items.source[pool], items.target[pool]
        else:
            pool = inputs = outputs = in_key_order(texts, (allowed >> which & 1).astype(bool))
            queries = _places(pool, items.source[asked[of_split]])
        if way == "random":
            ranked = _shuffled(items, pool, queries, texts, seed)
        elif way == "mined":
            assert embed is not None
            vectors = _vectors(texts, inputs, embed)
            others = vectors if outputs is inputs else _vectors(texts, outputs, embed)
            ranked = _ranked(cosines(vectors, others, ceiling), queries, group[inputs])
        elif way == "bm25":
            counts = word_counts((texts[number].replace(TURN, " ") for number in inputs.tolist()), terms)
            ranked = _ranked(bm25(counts), queries, group[inputs])
        else:
            ranked = _ranked(overlap(map(texts.__getitem__, inputs.tolist())), queries, group[inputs])
        chosen[of_split] = [_first((int(outputs[place]) for place in places), refused(int(item)))
                            for item, places in zip(asked[of_split], ranked, strict=True)]
    return chosen


def _places(pool: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the places of the numbers ``wanted`` in ``pool``."""
    order = np.argsort(pool)
    places: np.ndarray = order[np.searchsorted(pool, wanted, sorter=order)]
    return places


def from_candidates(items: Items, split: np.ndarray, asked: np.ndarray, group: np.ndarray,
                    candidates: TextLists) -> np.ndarray:
    """Return a negative of each item at ``asked``, as of ``search``: the first allowed one of its own ``candidates``.

    A training item takes no text that an evaluated item has as input or output. An evaluated item takes any candidate,
    since data sets sample those of the test from training.
    """
    refused, evaluated = _component_texts(items, group), np.isin(split, (VALIDATION, TEST))
    outputs, owners = items.outputs
    tested = {*items.source[evaluated].tolist(), *outputs[evaluated[owners]].tolist()}
    return np.array([_first((text for text in candidates.of(item) if evaluated[item] or text not in tested),
                            refused(item)) for item in asked.tolist()], np.int32)


def _vectors(texts: TextFile, numbers: np.ndarray, embed: Embed) -> np.ndarray:
    """Return the unit vectors of the texts ``numbers``, (n, d) in memory."""
    rows = {number: row for row, number in enumerate(dict.fromkeys(numbers.tolist()))}
    vectors = embed([texts[number].replace(TURN, " ") for number in rows])
    return vectors[[rows[number] for number in numbers.tolist()]]


def _ranked(scores: Scores, queries: np.ndarray, group: np.ndarray) -> Iterator[Iterator[int]]:
    """Yield for each query the places of other groups in the pool, best first; consume each before the next."""
    step = max(1, _CELLS // max(1, len(group)))
    for start in progress(range(0, len(queries), step), "ingest: negatives", unit="chunk"):
        rows = queries[start:start + step]
        similarity = scores(rows)
        similarity[group[rows][:, None] == group] = -np.inf
        yield from map(_falling, similarity)


def _falling(scores: np.ndarray) -> Iterator[int]:
    while not np.isneginf(scores[best := int(scores.argmax())]):
        yield best
        scores[best] = -np.inf


def _shuffled(items: Items, pool: np.ndarray, queries: np.ndarray, texts: TextFile,
              seed: int) -> Iterator[Iterator[int]]:
    order = generator(seed, "ingest", "random negatives").permutation(len(pool))
    for item in pool[queries].tolist():
        key = "\n".join(text_key(texts[int(number)]) for number in (items.source[item], items.target[item]))
        start = derived_seed(seed, "ingest", "random negative", key) % len(pool)
        yield (int(order[(start + step) % len(pool)]) for step in range(len(pool)))


def _first(outputs: Iterable[int], refused: set[int]) -> int:
    """Return the first of ``outputs`` that is not ``refused``, else ``NO_TEXT``."""
    return next((output for output in outputs if output not in refused), NO_TEXT)


def _component_texts(items: Items, group: np.ndarray) -> Callable[[int], set[int]]:
    """Return a function from an item to the inputs and outputs of its component."""
    of_item = group[items.source]
    outputs, owners = items.outputs
    members = grouped(np.concatenate([of_item, of_item[owners]]), np.concatenate([items.source, outputs]),
                      int(group.max(initial=-1)) + 1)

    def texts_of(item: int) -> set[int]:
        return set(members.of(int(of_item[item])))

    return texts_of


def _items_in_key_order(items: Items, pool: np.ndarray, texts: TextFile) -> np.ndarray:
    """Return the places in ``pool`` by rising text keys of inputs, those of one input by that of the output."""
    wanted = np.zeros(len(texts), dtype=bool)
    wanted[items.source[pool]] = wanted[items.target[pool]] = True
    ordered = in_key_order(texts, wanted)
    rank = np.empty(len(texts), dtype=np.int32)
    rank[ordered] = np.arange(len(ordered))
    places: np.ndarray = pool[np.lexsort((rank[items.target[pool]], rank[items.source[pool]]))]
    return places
