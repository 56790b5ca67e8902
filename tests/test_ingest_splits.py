"""Splits by component, by pair, by class, by hash and as published; samples; what leaks."""

import numpy as np
import pytest
from ingest_rows import SHARES, by_key, corpus, dataset, ingested, raw

from keycontrast.errors import InputError
from stages.ingest.counts import leak_report
from stages.ingest.items import plain_items
from stages.ingest.params import Ingest
from stages.ingest.splits import TEST, TRAIN, VALIDATION, split_by_hash, split_groups
from stages.ingest.text_keys import text_key


def test_large_components_go_to_train_and_groups_without_items_everywhere():
    items = np.concatenate([np.zeros(300, dtype=int), np.arange(1, 301)])
    split = split_groups(items, 1301, validation=0.05, test=0.05, seed=1)
    assert split[0] == TRAIN
    counts = np.bincount(split[items], minlength=3)
    assert counts[VALIDATION] == counts[TEST] == 30
    empty = np.bincount(split[301:], minlength=3)
    assert 20 < empty[VALIDATION] < 90
    assert 20 < empty[TEST] < 90


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 1, 3], [5, 5, 5], [50, 1, 1]])
def test_no_split_stays_empty(sizes):
    split = split_groups(np.repeat(np.arange(3), sizes), 3, validation=0.4, test=0.4, seed=1)
    assert sorted(split.tolist()) == [0, 1, 2]


def test_leaks_of_a_case_made_by_hand():
    # Components: texts 0 to 3, 4 to 5, 6 to 8, 9 to 10, 11 to 12.
    group = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4])
    source, target, negative = (np.array(part) for part in zip(
        (0, 1, 2), (4, 5, 6),       # training
        (2, 3, 9), (9, 10, 11),     # validation: source 2 is a training negative; the other item is clean
        (7, 6, 9), (3, 1, 4), (0, 1, 4), (11, 12, -1),  # test: targets 6 and 1 are trained on; twice target 1
        strict=True))
    split = np.array([TRAIN, TRAIN, VALIDATION, VALIDATION, TEST, TEST, TEST, TEST])
    alike = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1])  # text 12, of a test item, is written as text 1 is
    report = leak_report(plain_items(source, target, np.zeros(8), negative[:, None]), split, group, alike)
    assert report["validation"] == {
        "items": 2, "targets": 2, "sources": 2, "targets_as_training_inputs": 0, "targets_as_training_targets": 0,
        "targets_as_training_negatives": 0, "sources_in_training": 1, "items_with_a_leak": 1, "share_with_a_leak": 0.5,
        "items_with_a_leak_by_letters_and_digits": 1, "items_of_a_component_in_two_splits": 1}
    assert report["test"] == {
        "items": 4, "targets": 3, "sources": 4, "targets_as_training_inputs": 0, "targets_as_training_targets": 1,
        "targets_as_training_negatives": 1, "sources_in_training": 1, "items_with_a_leak": 3,
        "share_with_a_leak": 0.75, "items_with_a_leak_by_letters_and_digits": 4,
        "items_of_a_component_in_two_splits": 2}


def brute_leak(frame, name):
    """Share of items of the split ``name`` with a source or target that training uses."""
    train, mine = frame[frame["split"] == "train"], frame[frame["split"] == name]
    seen = set(train[["source", "target", "negative"]].to_numpy().ravel())
    return sum(row.source in seen or row.target in seen for row in mine.itertuples())


@pytest.mark.parametrize("negatives", ["labelled", "retrieved"])
def test_pairs_drawn_at_random_leak_and_components_do_not(tmp_path, negatives):
    pairs = corpus(400, seed=2)
    by_pair, by_component = (ingested(raw(pairs), dataset(), Ingest(
        neg_source=negatives, split_by=way, **SHARES, max_rejected=1), 3, tmp_path) for way in ("pair", "component"))
    frame = by_key(by_pair)
    assert frame["split"].value_counts().to_dict() == {
        "train": len(frame) - 2 * round(0.2 * len(frame)), "validation": round(0.2 * len(frame)),
        "test": round(0.2 * len(frame))}
    for name in ("validation", "test"):
        report = by_pair.counts["leak"][name]
        assert report["items_with_a_leak"] == brute_leak(frame, name) > 0
        assert report["items_of_a_component_in_two_splits"] > 0
        assert by_component.counts["leak"][name]["items_with_a_leak"] == 0
        assert by_component.counts["leak"][name]["items_of_a_component_in_two_splits"] == 0
    if negatives == "retrieved":
        # A negative is a text of the item's own split, and of no item of another split alone.
        homes = {name: set(part[["source", "target"]].to_numpy().ravel()) for name, part in frame.groupby("split")}
        paired = {text_key(text) for one, other, _ in pairs for text in (one, other)}
        free = paired - set().union(*homes.values())
        assert all(row.negative in homes[row.split] | free for row in frame.itertuples())
        assert (frame["group"] != frame["negative_id"].map(dict(zip(
            frame["source_id"], frame["group"], strict=True)))).all()


def published(pairs):
    """The rows of ``pairs`` in three published files, five to three to two."""
    parts = {"train": pairs[0::2], "validation": pairs[1::4], "test": pairs[3::4]}
    return [row for split, part in parts.items() for row in raw(part, f"{split}.csv", split)]


@pytest.mark.parametrize("negatives", ["labelled", "retrieved", "none"])
def test_published_splits_by_component_lose_rows_of_training_never_of_test(tmp_path, negatives):
    rows = published(corpus(600, seed=6))
    params = Ingest(neg_source=negatives, max_rejected=1)
    made = ingested(rows, dataset(), params, 3, tmp_path)
    frame = by_key(made)
    for name in ("validation", "test"):
        assert made.counts["leak"][name]["items_with_a_leak"] == 0
    homes = frame.melt("split", ["source", "target", "negative"]).groupby("value")["split"].nunique()
    assert homes.max() == 1
    assert made.counts["published_splits"] == ["validation", "test"]
    away = made.rejected[made.rejected["reason"].str.startswith("other split: its texts")]
    assert set(away["file"]) <= {"train.csv", "validation.csv"}
    assert len(away) == made.counts["rows"]["not_taken_by_reason"]["other split"] > 0
    assert made.counts["rows"]["taken"] + len(made.refused) == len(rows)
    if negatives == "none":
        # Each row that was taken and is a paraphrase is an item of its own split.
        pairs = {frozenset(map(text_key, (row.content["source"], row.content["target"]))): row.split for row in rows}
        assert all(pairs[frozenset((row.source, row.target))] == row.split for row in frame.itertuples())
        tested = [row for row in rows if row.split == "test" and row.content["label"] == 1]
        refused = made.refused[made.refused["file"] == "test.csv"]["row"]
        assert len(frame[frame["split"] == "test"]) == len([row for row in tested if row.row not in set(refused)])


def test_published_splits_by_pair_stay_as_they_are(tmp_path):
    rows = published(corpus(600, seed=6))
    params = Ingest(neg_source="labelled", qqp_rule="undirected_all", split_by="pair", max_rejected=1)
    made = ingested(rows, dataset(), params, 3, tmp_path)
    frame = by_key(made)
    assert "other split" not in made.counts["rows"]["not_taken_by_reason"]
    # Triples are made of the pairs of one split.
    pairs = {(frozenset(map(text_key, (row.content["source"], row.content["target"]))), row.split) for row in rows}
    for row in frame.itertuples():
        assert (frozenset((row.source, row.target)), row.split) in pairs
        assert (frozenset((row.source, row.negative)), row.split) in pairs
    assert made.counts["labelled_triples_by_rule"]["undirected_all"] == len(frame)


def test_a_row_of_two_published_splits_is_kept_in_test(tmp_path):
    filler = [(f"p{n}", f"q{n}", 1) for n in range(20)]
    rows = [*raw([("a", "b", 1), ("b", "a", 1), *filler[:12]], "train", "train"),
            *raw([("A", "B", 1), ("a", "b!", 1), *filler[12:]], "test", "test")]
    made = ingested(rows, dataset(), Ingest(neg_source="none", split_by="pair"), 3, tmp_path)
    assert made.rejected[["file", "row", "reason"]].to_numpy().tolist() == [
        ["test", 2, "duplicate: of test row 1"],
        ["train", 1, "other split: kept as test row 1, of a stricter split"],
        ["train", 2, "other split: kept as test row 1, of a stricter split"]]
    assert made.counts["rows"]["rejected"] == 0
    frame = by_key(made).set_index("source")
    assert frame.loc["a", "split"] == "test"
    assert frame["split"].value_counts().to_dict() == {"train": 11, "test": 9, "validation": 1}


def made_of(pairs, folder, seed=3, **changes):
    return ingested(raw(pairs), dataset(), Ingest(**{**SHARES, "max_rejected": 1, **changes}), seed, folder)


VARIANTS = [
    {"neg_source": "retrieved", "max_train": 40, "max_test": 12}, {"neg_source": "none"},
    {"neg_source": "labelled", "qqp_rule": "undirected_all"}, {"neg_source": "labelled", "qqp_rule": "question1_one"}]


def texts_of(frame, names):
    part = frame[frame["split"].isin(names)]
    return set(part["source"]) | set(part["target"]) | set(part["negative"].dropna())


def test_data_sets_of_the_same_rows_agree_on_what_is_evaluated(tmp_path):
    pairs = corpus(2400, seed=6)
    frames = [by_key(made_of(pairs, tmp_path, split_by="hashed", **changes)) for changes in VARIANTS]
    trained, evaluated = zip(*((texts_of(frame, ["train"]), texts_of(frame, ["validation", "test"]))
                               for frame in frames), strict=True)
    for one in trained:
        for other in evaluated:
            assert one and other and not one & other
    # The same holds between validation and test.
    for one in frames:
        for other in frames:
            assert not texts_of(one, ["validation"]) & texts_of(other, ["test"])


def test_hashed_shares_hold_on_average_and_large_components_are_of_training():
    marks = np.random.default_rng(0).integers(0, 2**63, 20_000, dtype=np.uint64)
    sizes = np.full(20_000, 2)
    sizes[:5] = 700
    split = split_by_hash(marks, sizes, 0.05, 0.1, seed=1)
    shares = np.bincount(split, minlength=3) / len(split)
    assert abs(shares[VALIDATION] - 0.05) < 0.005
    assert abs(shares[TEST] - 0.1) < 0.007
    assert (split[:5] == TRAIN).all()
    drawn = split_by_hash(marks[5:], sizes[5:], 0.05, 0.1, seed=1)
    assert (drawn == split[5:]).all()


def test_parts_of_training_share_no_component_and_make_up_the_whole(tmp_path):
    pairs = corpus(700, seed=6)

    def made(**changes):
        return by_key(made_of(pairs, tmp_path, neg_source="none", split_by="hashed", **changes))

    whole, *parts = made(), made(train_part=[0, 0.3]), made(train_part=[0.3, 1])
    training = [set(frame[frame["split"] == "train"]["source"]) for frame in (whole, *parts)]
    assert training[1] | training[2] == training[0]
    assert 0.2 < len(training[1]) / len(training[0]) < 0.4
    assert not texts_of(parts[0], ["train"]) & texts_of(parts[1], ["train"])
    for frame in parts:
        for split in ("validation", "test"):
            assert set(frame[frame["split"] == split]["source"]) == set(whole[whole["split"] == split]["source"])
    limited = made(train_part=[0, 0.3], max_train=20)
    assert len(texts := set(limited[limited["split"] == "train"]["source"])) <= 20 and texts < training[1]


def test_a_part_split_by_pairs_shares_no_text_with_another_part(tmp_path):
    pairs = corpus(700, seed=6)
    frames = {name: by_key(made_of(pairs, tmp_path, neg_source="none", **changes)) for name, changes in (
        ("whole", {"split_by": "pair"}), ("part", {"split_by": "pair", "train_part": [0, 0.3]}),
        ("rest", {"split_by": "hashed", "train_part": [0.3, 1]}))}
    part, whole = frames["part"], frames["whole"]
    assert 0.2 < len(part) / len(whole) < 0.4
    assert not texts_of(part, ["train", "validation", "test"]) & texts_of(frames["rest"], ["train"])
    assert set(part["split"]) == {"train", "validation", "test"}  # its own shares, not those of the whole
    shares = part["split"].value_counts(normalize=True)
    assert abs(shares["test"] - SHARES["test"]) < 0.02 and abs(shares["validation"] - SHARES["validation"]) < 0.02


def test_a_part_of_training_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"lower and a higher share of \[0, 1\], found \[0.5, 0.2\]"):
        Ingest(split_by="hashed", train_part=[0.5, 0.2])
    with pytest.raises(ValueError, match="needs ingest.split_by: hashed or pair, found component"):
        Ingest(train_part=[0, 0.5])
    with pytest.raises(InputError, match="no example is left for train: .* widen ingest.train_part"):
        made_of(corpus(700, seed=6), tmp_path, neg_source="none", split_by="hashed", train_part=[0, 1e-9])
