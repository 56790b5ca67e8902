"""The confusing_pairs stage: which pairs of classes a finished model confuses most, by hand."""

import numpy as np
import pytest
import tiny_classes

from pipeline.schemas import SCHEMAS
from stages.common.paths import ModelPaths
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.tracks.clld.confusing_pairs import main, run
from stages.tracks.clld.tables import class_table, confusion_table, counted


def pairs(counts, share=0.1, classes=None):
    """Pairs of a matrix (N, N) as indices, and those chosen."""
    names = classes or [f"{number:02d}" for number in range(len(counts))]
    table = as_table(SCHEMAS["confusing_pairs"], run(confusion_table(np.asarray(counts), names), share)).to_pandas()
    places = [(names.index(a), names.index(b)) for a, b in zip(table["class"], table["other"], strict=True)]
    return places, [place for place, chosen in zip(places, table["chosen"], strict=True) if chosen], table


def test_both_directions_count_and_ties_go_by_the_order_of_classes():
    found, chosen, table = pairs([[7, 2, 1], [1, 4, 0], [0, 0, 8]])
    assert found == [(0, 1), (0, 2)] and chosen == [(0, 1)]
    assert table[["as_other", "as_class", "confused"]].to_numpy().tolist() == [[2, 1, 3], [1, 0, 1]]
    assert table["rank"].tolist() == [1, 2]
    flat = np.ones((6, 6), dtype=int)
    assert pairs(flat)[1] == [(0, 1), (0, 2)]  # ceil(10 % of 15)
    flat[4, 5] = 9
    assert pairs(flat)[1] == [(4, 5), (0, 1)]


def test_a_share_is_rounded_up_of_the_pairs_that_are_confused_at_all():
    upper = np.triu_indices(9, 1)
    for confused, chosen in ((1, 1), (9, 1), (10, 1), (11, 2), (30, 3), (31, 4)):  # 0.1 * 30 is a little more than 3
        counts = np.zeros((9, 9), dtype=int)
        counts[upper[0][:confused], upper[1][:confused]] = 1
        found = pairs(counts)
        assert (len(found[0]), len(found[1])) == (confused, chosen)
    assert len(pairs(np.ones((4, 4), dtype=int), share=1.0)[1]) == 6
    assert pairs(np.diag([4, 4, 4]))[0] == []


def test_scores_of_classes_agree_with_scikit_learn():
    from sklearn.metrics import precision_recall_fscore_support

    random = np.random.default_rng(0)
    true, predicted = random.integers(0, 4, 60), random.integers(0, 5, 60)  # class 4 has no text, 5 nothing at all
    table = class_table(counted(true, predicted, 6), list("abcdef"))
    expected = precision_recall_fscore_support(true, predicted, labels=range(6), zero_division=0)
    for name, values in zip(("precision", "recall", "f1"), expected, strict=False):
        assert table[name][:5].tolist() == pytest.approx(values[:5].tolist()), name
    assert np.isnan(table["f1"][5]) and table["f1"][4] == 0
    assert table["texts"].tolist() == expected[3].tolist() and table["predicted"].sum() == 60


def test_stage_reads_the_validation_split_and_says_which_are_chosen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_classes.write_params(tmp_path)
    assert main(["ct"]) == 1
    assert "models/ct/13/validation_confusion.parquet: no such artifact" in capsys.readouterr().err
    paths = ModelPaths("ct", 13)
    counts = confusion_table(np.array([[2, 1, 0], [0, 1, 2], [0, 1, 2]]), tiny_classes.CLASSES)
    write_table(paths.table("validation_confusion"), SCHEMAS["validation_confusion"], counts,
                Provenance("train_clld@ct", "0"))
    assert main(["ct"]) == 0
    table = paths.confusing_pairs
    found = read_frame(table, SCHEMAS["confusing_pairs"])
    assert found[["class", "other", "confused", "chosen"]].to_numpy().tolist() == [
        ["person", "place", 3, True], ["number", "person", 1, False]]
    assert read_metadata(table)["counts"] == {"chosen": 1}
