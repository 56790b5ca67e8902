"""Strata of evaluated items: their columns, what belongs to each, and where they are shown."""

import pandas as pd

from stages.tracks.common.schemas import STRATA, keyword_columns


def items():
    training = [("pan", "lid", "cat"), ("pan", "pan", None), ("pan", "oil", "cat"), ("<nokw>", "lid", None)]
    rows = [(number, "train", *keywords) for number, keywords in enumerate(training)]
    rows += [(number, "test", keyword, "new", "newer") for number, keyword in enumerate(
        ("pan", "lid", "cat", "dog", "new", "<nokw>", "oil"), 10)]
    return pd.DataFrame(rows, columns=["example_id", "split", "keyword", "target_keyword", "negative_keyword"])


def test_columns_count_training_items_alone():
    wanted = pd.Series([16, 10, 11, 12, 13, 14, 15])
    found = keyword_columns(items(), wanted)
    assert found["cluster"].tolist() == [0, 3, 0, 0, 0, 0, 0]      # <nokw> forms none
    assert found["known"].tolist() == [True, True, True, True, False, False, True]


def test_each_item_is_known_or_unseen_and_clusters_are_known():
    rows = pd.DataFrame(keyword_columns(items(), items()["example_id"]))
    masks = {name: stratum.holds(rows) for name, stratum in STRATA.items()}
    assert (masks["known"] ^ masks["unseen"]).all()
    assert masks["cluster3"].sum() == 4 and masks["known"][masks["cluster3"]].all()
    assert all(one.title and one.meaning for one in STRATA.values())
