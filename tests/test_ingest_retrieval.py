"""Negatives that are searched for, against plain Python sets, sorts and sums: every place, ties and bits included."""

from collections import Counter
from zlib import crc32

import numpy as np
import pytest
from ingest_rows import SHARES, by_key, corpus, dataset, ingested, raw, text_file

from keycontrast.errors import InputError
from stages.common.retrieval import bm25, word_counts
from stages.common.seeds import derived_seed, generator
from stages.ingest import negatives
from stages.ingest.items import plain_items
from stages.ingest.negatives import frozen, in_key_order, search, terms
from stages.ingest.params import Ingest
from stages.ingest.text_keys import jaccard, overlap_tokens, text_key

# In the order of code points, in that of UTF-16 not: a Han character above 0xffff, and a full-width form below.
ODD = ["\U00020000", "\uff21\uff22", "\u1100", "\ud7a3", "\ufb1d", "\U0001d400\U0001d401", "e\u0301", "Z"]


def surfaces(count, seed, words=90):
    """Texts of few words, so that many are equally near; all with other keys, some with letters of other planes."""
    rng = np.random.default_rng(seed)
    names = [f"w{n}" for n in range(words)]
    weights = 1 / np.arange(1, words + 1)
    found = [" ".join(rng.choice(names, size=rng.integers(1, 9), p=weights / weights.sum())) for _ in range(count)]
    return [f"{ODD[n % 40]} {text} id {n // 3} {n % 3}" if n % 40 < len(ODD) else f"{text} id {n // 3} {n % 3}"
            for n, text in enumerate(found)]


@pytest.mark.parametrize("batch", [7, 2**12])
def test_texts_stand_in_the_order_of_their_keys(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(negatives, "_BATCH", batch)
    texts = [*ODD, *surfaces(200, 1), "Same", "same!", "SAME"]
    wanted = np.arange(len(texts)) % 5 != 0
    found = in_key_order(text_file(tmp_path, texts), wanted)
    assert found.tolist() == sorted(np.flatnonzero(wanted).tolist(), key=lambda n: text_key(texts[n]))
    assert len(in_key_order(text_file(tmp_path, texts), wanted & False)) == 0


def vectors_of(texts):
    """Unit vectors that know nothing but the words of a text."""
    found = np.zeros((len(texts), 24), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            found[row] += np.random.default_rng(crc32(word.encode())).normal(size=24)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-9))


def cosine(one, other):
    return float(np.round((vectors_of([one]) @ vectors_of([other]).T)[0, 0], 5))


@pytest.mark.parametrize("embed", [None, vectors_of], ids=["retrieved", "mined"])
@pytest.mark.parametrize("seed", range(2))
def test_retrieved_texts_are_the_most_similar_outside_the_component(tmp_path, monkeypatch, seed, embed):
    monkeypatch.setattr(negatives, "_CELLS", 2000)  # several chunks of queries
    rng = np.random.default_rng(seed)
    texts = surfaces(220, seed)
    group = rng.integers(0, 40, len(texts))
    wanted = group % 3 != 0
    queries, way = rng.choice(np.flatnonzero(wanted), 90), "mined" if embed else "retrieved"
    items, split = plain_items(queries, queries, np.zeros(90)), np.ones(90, dtype=int)
    found = search(items, split, np.arange(90), group, text_file(tmp_path, texts), way, 1, 2 * wanted, embed, 0.7)
    tokens, vectors = [overlap_tokens(text) for text in texts], vectors_of(texts)
    near = np.round(vectors @ vectors.T, 5)
    for query, answer in zip(queries, found.tolist(), strict=True):
        others = [n for n in np.flatnonzero(wanted).tolist() if group[n] != group[query]]
        if embed is None:
            others.sort(key=lambda n: (-jaccard(tokens[query], tokens[n]), text_key(texts[n])))
            assert answer == others[0]
        else:  # products of other shapes differ in their last bits
            assert answer in others
            assert np.isclose(near[query, answer], max(near[query, n] for n in others if near[query, n] <= 0.7),
                              atol=2e-5)


def bm25_scores(documents):
    """BM25 of all documents for each other, added up term by term in alphabetical order."""
    counts, n = [Counter(document) for document in documents], len(documents)
    held = Counter(term for one in counts for term in one)
    lengths = [float(len(document)) for document in documents]
    mean = sum(lengths) / n
    idf = {term: float(np.log1p((n - held[term] + 0.5) / (held[term] + 0.5))) for term in held}
    found = np.zeros((n, n))
    for q, query in enumerate(counts):
        for d, document in enumerate(counts):
            for term in sorted(query):
                tf = document[term]
                weight = idf[term] * tf * 2.2 / (tf + 1.2 * (1 - 0.75 + 0.75 * lengths[d] / mean))
                found[q, d] += query[term] * weight
    return found


def test_bm25_is_the_sum_over_the_terms_of_the_query():
    assert terms("red Red mat 你好吗 x 好") == ["red", "red", "mat", "你好", "好吗", "x", "好"]
    texts = [*surfaces(60, 3, words=30), "word " * 300, "", "red red mat 你好吗 x 好", "a dog saw the red dog"]
    counts = word_counts(texts, terms)
    found = bm25(counts)(np.arange(len(texts)))
    np.testing.assert_allclose(found, bm25_scores([terms(text) for text in texts]), rtol=1e-14)
    np.testing.assert_array_equal(bm25(counts)(np.array([2, 0])), found[[2, 0]])


def other_items(seed, inputs=45, outputs=70, count=160):
    """Texts, items of several splits over them, and their components: inputs and outputs recur, none together."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, (inputs, outputs), (count, 2)), axis=0)
    pairs = pairs[rng.permutation(len(pairs))]
    texts = surfaces(inputs + outputs, seed, words=25)
    group = np.append(rng.integers(0, 12, inputs), rng.integers(0, 12, outputs))
    items = plain_items(pairs[:, 0], pairs[:, 1] + inputs, np.zeros(len(pairs)))
    return texts, items, group, rng.integers(0, 3, len(pairs))


def coarse(texts):
    """Unit vectors of few values, so that many texts are equally near."""
    return np.array([np.eye(6, dtype=np.float32)[[len(text) % 6, len(text.split()) % 6]].sum(0) / np.float32(2)
                     for text in texts])


def expected_outputs(texts, items, group, split, way, ceiling):
    """What ``search`` says, in plain loops."""
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
                scores = np.round(coarse([texts[target[n]] for n in pool]) @ coarse([texts[source[item]]])[0], 5)
            ranked = [pool[place] for place in sorted(range(len(pool)), key=lambda place: (-scores[place], place))
                      if ceiling is None or scores[place] <= ceiling]
        said = {text for n in range(len(items)) if of_item[n] == of_item[item] for text in (source[n], target[n])}
        allowed = [target[n] for n in ranked if of_item[n] != of_item[item] and target[n] not in said]
        found.append(allowed[0] if allowed else -1)
    return found


@pytest.mark.parametrize(("way", "ceiling"), [("bm25", None), ("random", None), ("mined", 0.6)])
def test_outputs_of_others_are_the_first_that_an_item_may_have(tmp_path, way, ceiling):
    texts, items, group, split = other_items(2)
    file, every = text_file(tmp_path, texts), np.arange(len(items))
    found = search(items, split, every, group, file, way, 5, None, coarse, ceiling)
    assert found.tolist() == expected_outputs(texts, items, group, split, way, ceiling)
    asked = np.flatnonzero(every % 7 == 0)
    few = search(items, split, asked, group, file, way, 5, None, coarse, ceiling)
    assert few.tolist() == found[asked].tolist()


def made_of(pairs, folder, seed=3, **changes):
    settings = Ingest(**{**SHARES, "max_rejected": 1, "neg_source": "mined", "neg_ceiling": None, **changes})
    return ingested(raw(pairs), dataset(), settings, seed, folder, vectors_of)


def test_mined_negatives_are_counted_and_independent_of_the_order_of_rows(tmp_path):
    pairs, columns = corpus(), ["source", "target", "negative", "split"]
    made = made_of(pairs, tmp_path)
    triples = made.counts["triples_by_negative_source"]
    assert triples["mined"] == triples["retrieved"] >= len(made.examples) > 50
    assert set(made.examples["negative_origin"]) == {"mined"}
    few = by_key(made_of(pairs, tmp_path, max_train=10))  # a sample draws on the whole split
    assert set(few[columns].itertuples(index=False)) <= set(by_key(made)[columns].itertuples(index=False))
    frame, turned = (by_key(made_of(rows, tmp_path, split_by="hashed")) for rows in (pairs, pairs[::-1]))
    both = frame.merge(turned, on=["source", "target"])
    assert len(both) > 40 and (both["negative_x"] == both["negative_y"]).all()


def test_a_ceiling_passes_over_what_may_be_a_paraphrase(tmp_path):
    free, under = (made_of(corpus(), tmp_path, neg_ceiling=ceiling) for ceiling in (None, 0.6))
    surface = {text_key(text): text for made in (free, under) for text in made.texts["text"]}
    nearest = [max(cosine(surface[row.source], surface[row.negative]) for row in by_key(made).itertuples())
               for made in (free, under)]
    assert nearest[0] > 0.6 >= nearest[1]
    with pytest.raises(InputError, match="no negative can be found for train: .* ingest.neg_ceiling"):
        ingested(raw(corpus()), dataset(), Ingest(**SHARES, neg_source="mined", neg_ceiling=0.9, max_rejected=1), 3,
                 tmp_path, lambda texts: np.ones((len(texts), 1), dtype=np.float32))


@pytest.mark.whole
def test_the_bundled_encoder_is_nearer_to_meaning_than_to_words():
    found = frozen("bundled")(["How can I lose weight quickly?", "What is the fastest way to get slim?",
                               "How can I lose a chess game quickly?"])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2]
    with pytest.raises(InputError, match=r"ingest.neg_encoder: path:nowhere: nowhere holds no config.json"):
        frozen("path:nowhere")
