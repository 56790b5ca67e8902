"""Negatives that are searched for, against plain Python sets, sorts and sums: every place, ties and bits included."""

from collections import Counter

import numpy as np
import pytest
from ingest_rows import text_file

from stages.common.seeds import derived_seed, generator
from stages.ingest.deduplication.text_keys import jaccard, overlap_tokens, text_key
from stages.ingest.items.items import plain_items
from stages.ingest.negatives import mined, word_counts
from stages.ingest.negatives.bm25 import Bm25, terms
from stages.ingest.negatives.mined import Cosines, Vectors
from stages.ingest.negatives.outputs_of_others import from_other_items
from stages.ingest.negatives.overlapping import Overlap, retrieve
from stages.ingest.negatives.word_counts import in_key_order

# In the order of code points, in that of UTF-16 not: a Han character above 0xffff, and a full-width form below.
ODD = ["\U00020000", "\uff21\uff22", "\u1100", "\ud7a3", "\ufb1d", "\U0001d400\U0001d401", "e\u0301", "Z"]


@pytest.fixture(autouse=True, params=[7, 2**12], ids=["many batches", "one batch"])
def _batches(request, monkeypatch):
    monkeypatch.setattr(word_counts, "_BATCH", request.param)
    monkeypatch.setattr(mined, "_PIECE", request.param)


def surfaces(count, seed, words=90):
    """Texts of few words, so that many are equally near; all with other keys, some with letters of other planes."""
    rng = np.random.default_rng(seed)
    names = [f"w{n}" for n in range(words)]
    weights = 1 / np.arange(1, words + 1)
    found = [" ".join(rng.choice(names, size=rng.integers(1, 9), p=weights / weights.sum())) for _ in range(count)]
    return [f"{ODD[n % 40]} {text} id {n // 3} {n % 3}" if n % 40 < len(ODD) else f"{text} id {n // 3} {n % 3}"
            for n, text in enumerate(found)]


def test_texts_stand_in_the_order_of_their_keys(tmp_path):
    texts = [*ODD, *surfaces(200, 1), "Same", "same!", "SAME"]
    wanted = np.arange(len(texts)) % 5 != 0
    found = in_key_order(text_file(tmp_path, texts), wanted)
    assert found.tolist() == sorted(np.flatnonzero(wanted).tolist(), key=lambda n: text_key(texts[n]))
    assert len(in_key_order(text_file(tmp_path, texts), wanted & False)) == 0


# Retrieved


@pytest.mark.parametrize("seed", range(4))
def test_retrieved_negatives_are_the_most_overlapping_outside_the_component(tmp_path, seed):
    rng = np.random.default_rng(seed)
    texts = surfaces(220, seed)
    group = rng.integers(0, 40, len(texts))
    wanted = group % 3 != 0
    queries = rng.choice(np.flatnonzero(wanted), 90)
    pool = in_key_order(text_file(tmp_path, texts), wanted)
    found = retrieve(queries, pool, group, Overlap(text_file(tmp_path, texts), pool), 5)
    tokens = [overlap_tokens(text) for text in texts]
    for query, answers in zip(queries, found.tolist(), strict=True):
        others = [n for n in np.flatnonzero(wanted).tolist() if group[n] != group[query]]
        others.sort(key=lambda n: (-jaccard(tokens[query], tokens[n]), text_key(texts[n])))
        assert answers == others[:5]


def test_retrieval_says_where_there_is_nothing_to_find(tmp_path):
    def answer(query, texts, group, count=1):
        pool = in_key_order(text_file(tmp_path, texts), np.ones(len(texts), dtype=bool))
        return retrieve(np.array([query]), pool, group, Overlap(text_file(tmp_path, texts), pool), count).tolist()

    assert answer(0, ["a", "b"], np.array([0, 0])) == [[-1]]
    assert answer(0, ["a", "b", "c"], np.arange(3), 4) == [[1, 2, -1, -1]]
    # No shared token at all: every text ties, the smallest key wins; a text may have a key and odd tokens.
    assert answer(2, ["z", "b", "\u2103"], np.arange(3)) == [[1]]


# Outputs of others


def bm25_scores(documents):
    """BM25 of all documents for each other, added up term by term in the order in which these first appear."""
    counts = [Counter(document) for document in documents]
    number = {term: place for place, term in enumerate(dict.fromkeys(term for one in counts for term in one))}
    held, n = Counter(term for one in counts for term in one), len(documents)
    lengths = [float(len(document)) for document in documents]
    mean = sum(lengths) / n
    idf = {term: float(np.log1p((n - held[term] + 0.5) / (held[term] + 0.5))) for term in held}
    found = np.zeros((n, n))
    for q, query in enumerate(counts):
        for d, document in enumerate(counts):
            for term in sorted(query, key=number.__getitem__):
                tf = document[term]
                weight = idf[term] * tf * 2.2 / (tf + 1.2 * (1 - 0.75 + 0.75 * lengths[d] / mean))
                found[q, d] += query[term] * weight
    return found


def test_bm25_adds_up_in_the_order_of_the_texts_given(tmp_path):
    texts = [*surfaces(60, 3, words=30), "word " * 300]  # a sum of counts that needs more than a byte
    pool = np.random.default_rng(0).integers(0, len(texts), 100)
    pool[50] = len(texts) - 1
    found = Bm25(text_file(tmp_path, texts), pool).scores(np.arange(100))
    np.testing.assert_allclose(found, bm25_scores([terms(texts[n]) for n in pool]), rtol=1e-14)


def other_items(seed, inputs=45, outputs=70, count=160):
    """Texts, items of several splits over them, and their components: inputs and outputs recur, none together."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, (inputs, outputs), (count, 2)), axis=0)
    pairs = pairs[rng.permutation(len(pairs))]
    texts = surfaces(inputs + outputs, seed, words=25)
    group = np.append(rng.integers(0, 12, inputs), rng.integers(0, 12, outputs))
    return texts, plain_items(pairs[:, 0], pairs[:, 1] + inputs), group, rng.integers(0, 3, len(pairs))


def expected_outputs(texts, items, group, split, way, count, vector=None, ceiling=None):
    """What ``from_other_items`` says, in plain loops."""
    found = []
    source, target, of_item = items.source.tolist(), items.target.tolist(), group[items.source].tolist()
    for item in range(len(items)):
        pool = [other for other in range(len(items)) if split[other] == split[item]]
        key = {n: f"{text_key(texts[source[n]])}\n{text_key(texts[target[n]])}" for n in pool}
        pool.sort(key=key.__getitem__)
        at = pool.index(item)
        if way == "random":
            order = generator(5, "ingest", "random negatives").permutation(len(pool)).tolist()
            start = derived_seed(5, "ingest", "random negative", key[item]) % len(pool)
            ranked = [pool[place] for place in order[start:] + order[:start]]
        else:
            if way == "bm25":
                scores = bm25_scores([terms(texts[source[n]]) for n in pool])[at]
            else:
                scores = np.array([np.round(np.float32(vector(texts[source[item]]) @ vector(texts[target[n]])), 5)
                                   for n in pool])
            ranked = [pool[place] for place in sorted(range(len(pool)), key=lambda place: (-scores[place], place))
                      if ceiling is None or scores[place] <= ceiling]
        said = {text for n in range(len(items)) if of_item[n] == of_item[item] for text in (source[n], target[n])}
        allowed = [target[n] for n in ranked if of_item[n] != of_item[item] and target[n] not in said]
        best = list(dict.fromkeys(allowed))[:count]
        found.append(best + [-1] * (count - len(best)))
    return found


@pytest.mark.parametrize("way", ["bm25", "random"])
def test_outputs_of_others_are_the_first_that_an_item_may_have(tmp_path, way):
    texts, items, group, split = other_items(2)
    found = from_other_items(items, split, np.arange(len(items)), group, text_file(tmp_path, texts), way, 4, 5)
    assert found.tolist() == expected_outputs(texts, items, group, split, way, 4)
    asked = np.flatnonzero(np.arange(len(items)) % 7 == 0)
    few = from_other_items(items, split, asked, group, text_file(tmp_path, texts), way, 4, 5)
    assert few.tolist() == found[asked].tolist()


# Mined


def coarse(text):
    """A unit vector of few values, so that many texts are equally near."""
    return np.eye(6, dtype=np.float32)[[len(text) % 6, len(text.split()) % 6]].sum(0) / np.float32(2)


def embed(texts):
    for places in (range(1, len(texts), 2), range(0, len(texts), 2)):
        yield list(places), np.array([coarse(texts[place]) for place in places]).reshape(-1, 6)


def test_mined_outputs_are_the_nearest_and_equal_ones_go_by_key(tmp_path):
    texts, items, group, split = other_items(4)
    vectors = Vectors(text_file(tmp_path, texts), embed, tmp_path / "vectors")
    found = from_other_items(items, split, np.arange(len(items)), group, text_file(tmp_path, texts), "mined", 3, 5,
                             vectors, 0.6)
    assert found.tolist() == expected_outputs(texts, items, group, split, "mined", 3, coarse, 0.6)


def test_vectors_are_those_of_the_texts_in_whatever_order_they_are_asked_for(tmp_path):
    texts = surfaces(60, 1)
    vectors = Vectors(text_file(tmp_path, texts), embed, tmp_path / "vectors")
    ordered = in_key_order(text_file(tmp_path, texts), np.arange(60) > 9)
    for numbers in (np.array([7, 3, 3, 50]), np.arange(20, 40), ordered):
        wanted = np.array([coarse(texts[number]) for number in numbers])
        assert np.array_equal(vectors.mapped(numbers), wanted) and np.array_equal(vectors.of(numbers), wanted)
    scores = Cosines(vectors.mapped(np.arange(60)), vectors.mapped(np.arange(60)), None).scores(np.array([1, 5]))
    assert scores.shape == (2, 60)
