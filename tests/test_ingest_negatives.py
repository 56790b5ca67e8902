"""Negatives in the leak report, and splits that data sets of the same files share."""

import numpy as np
import pytest
from ingest_rows import SHARES, by_key, corpus, dataset, ingested, raw

from keycontrast.errors import InputError
from stages.ingest.params import Ingest
from stages.ingest.splits import TEST, TRAIN, VALIDATION, split_by_hash


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


def test_hashed_splits_depend_on_seed_and_texts_alone(tmp_path):
    pairs = corpus(700, seed=6)
    rng = np.random.default_rng(0)
    turned = [pairs[place] for place in rng.permutation(len(pairs))]

    def homes(rows, seed):
        frame = by_key(made_of(rows, tmp_path, seed, neg_source="none", split_by="hashed"))
        return {frozenset((row.source, row.target)): row.split for row in frame.itertuples()}

    assert homes(pairs, 3) == homes(turned, 3)
    assert homes(pairs, 3) != homes(pairs, 4)


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


def test_published_splits_stay_under_hashing():
    marks = np.random.default_rng(0).integers(0, 2**63, 500, dtype=np.uint64)
    fixed = np.where(np.arange(500) < 100, TEST, TRAIN).astype(np.int8)
    split = split_by_hash(marks, np.full(500, 2), 0.1, 0.3, 1, fixed)
    assert (split[:100] == TEST).all()
    assert not (split[100:] == TEST).any()
    free = split_by_hash(marks, np.full(500, 2), 0.1, 0.3, 1)
    # What is drawn for validation does not depend on whether there is a published test split.
    assert ((split == VALIDATION) == (free == VALIDATION) & (fixed == TRAIN)).all()
    assert (split == VALIDATION).any()


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
