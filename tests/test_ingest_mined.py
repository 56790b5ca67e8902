"""Mined negatives: the nearest texts by an encoder's cosine, outside the component, in the split, under a ceiling."""

from zlib import crc32

import numpy as np
import pytest
from ingest_rows import SHARES, by_key, corpus, dataset, ingested, raw

from keycontrast.errors import InputError
from stages.ingest.deduplication.text_keys import text_key
from stages.ingest.negatives.mined import Cosines, frozen
from stages.ingest.params import Dataset, Ingest
from stages.ingest.reading.rows import RawRow


def vectors_of(texts):
    """Unit vectors that know nothing but the text: its words, and a little of its own."""
    found = np.zeros((len(texts), 24), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            found[row] += np.random.default_rng(crc32(word.encode())).normal(size=24)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-9))


def embed(texts):
    """The vectors in two chunks."""
    for places in (range(0, len(texts), 2), range(1, len(texts), 2)):
        yield list(places), vectors_of([texts[place] for place in places])


def cosine(one, other):
    return float(np.round((vectors_of([one]) @ vectors_of([other]).T)[0, 0], 5))


def made_of(pairs, folder, seed=3, **changes):
    settings = Ingest(**{**SHARES, "max_rejected": 1, "neg_source": "mined", "neg_ceiling": None, **changes})
    return ingested(raw(pairs), dataset(), settings, seed, folder, embed)


def test_each_is_the_nearest_text_of_the_split_outside_the_component(tmp_path):
    made = made_of(corpus(), tmp_path)
    frame, surface = by_key(made), {text_key(text): text for text in made.texts["text"]}
    group = {key: row.group for row in frame.itertuples() for key in (row.source, row.target)}
    pools = {split: {key for row in rows.itertuples() for key in (row.source, row.target)}
             for split, rows in frame.groupby("split")}
    triples = made.counts["triples_by_negative_source"]
    assert triples["mined"] == triples["retrieved"] >= len(frame)
    assert len(frame) > 50 and set(frame["negative_origin"]) == {"mined"}
    for row in frame.itertuples():
        assert row.negative not in (row.source, row.target)
        assert group.get(row.negative) != row.group
        best = max(cosine(surface[row.source], surface[key]) for key in pools[row.split] if group[key] != row.group)
        assert cosine(surface[row.source], surface[row.negative]) >= best  # texts without an item are in the pool too


def test_the_order_of_rows_changes_nothing_and_samples_draw_on_the_whole_split(tmp_path):
    pairs, columns = corpus(), ["source", "target", "negative", "split"]
    frame, turned = (by_key(made_of(rows, tmp_path, split_by="hashed")) for rows in (pairs, pairs[::-1]))
    both = frame.merge(turned, on=["source", "target"])
    assert len(both) > 40 and (both["negative_x"] == both["negative_y"]).all()
    frame = by_key(made_of(pairs, tmp_path))
    few = by_key(made_of(pairs, tmp_path, max_train=10))
    assert set(few[columns].itertuples(index=False)) <= set(frame[columns].itertuples(index=False))


def test_a_ceiling_passes_over_what_may_be_a_paraphrase(tmp_path):
    free, under = (made_of(corpus(), tmp_path, neg_ceiling=ceiling) for ceiling in (None, 0.6))
    surface = {text_key(text): text for made in (free, under) for text in made.texts["text"]}
    cosines = [[cosine(surface[row.source], surface[row.negative]) for row in by_key(made).itertuples()]
               for made in (free, under)]
    assert max(cosines[0]) > 0.6 >= max(cosines[1])
    with pytest.raises(InputError, match="no negative can be found for train: .* ingest.neg_ceiling"):
        ingested(raw(corpus()), dataset(), Ingest(**SHARES, neg_source="mined", neg_ceiling=0.9, max_rejected=1), 3,
                 tmp_path, lambda texts: [(list(range(len(texts))), np.ones((len(texts), 1), dtype=np.float32))])


def test_several_come_by_falling_cosine(tmp_path):
    made = made_of(corpus(300, seed=2), tmp_path, negatives=3)
    surface = made.texts.set_index("text_id")["text"] if "text_id" in made.texts else made.texts["text"]
    for row in made.examples.itertuples():
        texts = [row.negative_id, *row.further_negative_ids]
        found = [cosine(surface[row.source_id], surface[number]) for number in texts]
        assert found == sorted(found, reverse=True) and len(set(texts)) == 3


def test_a_story_takes_the_nearest_ending_of_another_story(tmp_path):
    words = [f"w{n}" for n in range(40)]
    rng = np.random.default_rng(1)
    rows = [RawRow("s.jsonl", number, {"story": [f"{' '.join(rng.choice(words, 4))}." for _ in range(5)]})
            for number in range(1, 61)]
    data = Dataset(source="unused", layout="stories", columns={"story": "story"})
    made = ingested(rows, data, Ingest(**SHARES, neg_source="mined", neg_ceiling=None), 3, tmp_path, embed)
    text = dict(zip(made.texts["text_id"], made.texts["text"], strict=True))
    for _, mine in made.examples.groupby("split"):
        for row in mine.itertuples():
            others = mine[mine["example_id"] != row.example_id]["target_id"]
            best = max(cosine(text[row.source_id], text[number]) for number in others)
            assert cosine(text[row.source_id], text[row.negative_id]) == pytest.approx(best, abs=2e-5)
    assert made.counts["negatives_by"] == "mined" and set(made.examples["negative_origin"]) == {"mined"}


def test_how_many_an_untrained_encoder_tells_apart_is_counted_by_split(tmp_path):
    pairs = corpus()
    settings = Ingest(**SHARES, max_rejected=1, neg_source="retrieved", told_apart=True)
    made = [ingested(raw(pairs), dataset(), settings, 3, tmp_path, embed), made_of(pairs, tmp_path)]
    for one in made:
        frame, surface = by_key(one), {text_key(text): text for text in one.texts["text"]}
        for split, rows in frame.groupby("split"):
            right = [cosine(surface[row.source], surface[row.target]) for row in rows.itertuples()]
            wrong = [cosine(surface[row.source], surface[row.negative]) for row in rows.itertuples()]
            counts = one.counts["told_apart"][split]
            ahead = [one > other for one, other in zip(right, wrong, strict=True)]
            assert counts["share"] == pytest.approx(np.mean(ahead), abs=0.02)
            assert counts["cosine_of_negative"] == pytest.approx(np.mean(wrong), abs=1e-3)
    shares = [one.counts["told_apart"]["train"] for one in made]
    assert shares[1]["share"] <= shares[0]["share"]
    assert shares[1]["cosine_of_negative"] > shares[0]["cosine_of_negative"]
    assert "told_apart" not in ingested(raw(pairs), dataset(), Ingest(**SHARES, max_rejected=1), 3, tmp_path).counts


def test_chinese_needs_an_encoder_that_reads_it(tmp_path):
    data = dataset(language="zh")
    with pytest.raises(InputError, match="ingest.neg_encoder is bundled, which reads no Chinese"):
        ingested(raw(corpus()), data, Ingest(**SHARES, neg_source="mined"), 3, tmp_path, embed)
    settings = Ingest(**SHARES, neg_source="mined", neg_encoder="hub:bert-base-chinese", max_rejected=1)
    assert len(ingested(raw(corpus()), data, settings, 3, tmp_path, embed).examples)


def test_near_equal_cosines_are_equal():
    queries = np.array([[1.0, 0.0]], dtype=np.float32)
    pool = np.array([[0.6000001, 0.8], [0.6, 0.8]], dtype=np.float32)
    assert np.ptp(Cosines(queries, pool, None).scores(np.array([0]))) == 0
    assert Cosines(queries, pool, 0.5).scores(np.array([0])).tolist() == [[-np.inf, -np.inf]]


def bundled(texts):
    """The vectors of the bundled encoder, whatever the chunks."""
    found = np.empty((len(texts), 384), dtype=np.float32)
    for places, vectors in frozen("bundled")(texts):
        found[places] = vectors
    return found


@pytest.mark.whole
def test_the_bundled_encoder_is_nearer_to_meaning_than_to_words():
    found = bundled(["How can I lose weight quickly?", "What is the fastest way to get slim?",
                               "How can I lose a chess game quickly?"])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2]
    long = [f"{word} {'and so on ' * 60}we were tired at last" for word in ("cats", "bread")]
    assert np.array_equal(*bundled(long))  # cut on the left, as dialogues want it
    with pytest.raises(InputError, match=r"ingest.neg_encoder: path:nowhere: nowhere holds no config.json"):
        frozen("path:nowhere")
