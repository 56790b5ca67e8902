"""Labelled texts: one example per text, published splits honoured (CLLD section IV-A)."""

import pytest
from ingest_rows import dataset, ingested

from keycontrast.errors import InputError
from stages.ingest import deduplicate as pairs
from stages.ingest.params import Ingest
from stages.ingest.rows import RawRow

COLUMNS = {"text": "t", "label": "c"}


def labelled(texts, file="f", split=None):
    """Rows of (text, label)."""
    return [RawRow(file, number, {"text": text, "label": label}, split=split)
            for number, (text, label) in enumerate(texts, start=1)]


def made_of(rows, folder, seed=1, **changes):
    return ingested(rows, dataset(layout="labelled", columns=COLUMNS), Ingest(**changes), seed, folder)


def classes(sizes):
    return [(f"text {n} of {name}", name) for name, size in sizes.items() for n in range(size)]


def test_labelled_texts_are_drawn_class_by_class(tmp_path):
    texts = classes({"good": 100, "bad": 50, "odd": 10})
    made = made_of(labelled(texts), tmp_path, validation=0.1, test=0.2)
    assert made.texts["text"].tolist() == [text for text, _ in texts]
    assert made.examples["text_id"].tolist() == list(range(160))
    assert made.examples["label"].tolist() == [label for _, label in texts]
    table = made.examples.groupby(["split", "label"]).size()
    assert table.to_dict() == {
        ("train", "good"): 70, ("train", "bad"): 35, ("train", "odd"): 7, ("validation", "good"): 10,
        ("validation", "bad"): 5, ("validation", "odd"): 1, ("test", "good"): 20, ("test", "bad"): 10,
        ("test", "odd"): 2}
    assert made.counts["classes"]["test"] == {"good": 20, "bad": 10, "odd": 2}
    again, other = (made_of(labelled(texts), tmp_path, seed, validation=0.1, test=0.2) for seed in (1, 2))
    assert made.examples.equals(again.examples)
    assert not made.examples.equals(other.examples)


def test_published_splits_stay_and_the_missing_one_is_drawn_from_training(tmp_path):
    rows = labelled(classes({"a": 40, "b": 20}), "train", "train")
    rows += labelled([(f"test {n}", "ab"[n % 2]) for n in range(30)], "test", "test")
    made = made_of(rows, tmp_path, validation=0.1)
    frame = made.examples.merge(made.texts)
    tested = frame["text"].str.startswith("test")
    assert (frame[tested]["split"] == "test").all()
    assert frame[~tested].groupby(["split", "label"]).size().to_dict() == {
        ("train", "a"): 36, ("train", "b"): 18, ("validation", "a"): 4, ("validation", "b"): 2}
    assert made.counts["published_splits"] == ["test"]
    everything = rows + labelled([("held out", "a")], "dev", "validation")
    frame = made_of(everything, tmp_path, validation=0.1).examples
    assert frame["split"].value_counts().to_dict() == {"train": 60, "test": 30, "validation": 1}


def test_repetitions_contradictions_and_texts_of_two_splits(tmp_path):
    rows = labelled([*classes({"a": 20, "b": 20}), ("Same.", "a"), ("same", "a"), ("In both", "b"), ("torn", "a")],
                    "train", "train")
    rows += labelled([("in both!", "b"), ("Torn", "b"), ("test", "a")], "test", "test")
    made = made_of(rows, tmp_path, max_rejected=0.1)
    assert made.rejected[["file", "row", "reason"]].to_numpy().tolist() == [
        ["test", 2, "both labels: the text occurs as 'a' and as 'b'"],
        ["train", 42, "duplicate: of train row 41"],
        ["train", 43, "other split: kept as test row 1, of a stricter split"],
        ["train", 44, "both labels: the text occurs as 'a' and as 'b'"]]
    assert made.counts["rows"] == {"read": 47, "taken": 43, "rejected": 2, "duplicates": 1, "not_taken_by_reason": {
        "both labels": 2, "duplicate": 1, "other split": 1}, "in_items": 43, "in_no_item_by_reason": {}}
    assert made.counts["leak"]["rows_left_out_for_an_evaluated_split"] == 1
    none = {"repeated_within": 0, "text_also_in_training": 0, "text_in_training_as_another_class": 0,
            "letters_and_digits_also_in_training": 0}
    assert made.counts["leak"]["test"] == {"items": 2, **none}
    frame = made.examples.merge(made.texts)
    assert sorted(frame[frame["split"] == "test"]["text"]) == ["In both", "test"]
    with pytest.raises(InputError, match="2 of 47 rows cannot be used"):
        made_of(rows, tmp_path)


def test_a_column_of_texts_is_no_label(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "_CLASSES", 10)
    with pytest.raises(InputError, match="f: the labels have more than 10 different values.*columns.label"):
        made_of(labelled([(f"text {n}", f"class {n}") for n in range(20)]), tmp_path)


def copied():
    """Rows with every kind of copy: within a split, in two splits, as two classes."""
    rows = labelled([*classes({"a": 40, "b": 40}), ("Same.", "a"), ("same", "a"), ("In both", "b"), ("torn", "a")],
                    "train", "train")
    return rows + labelled([("in both!", "b"), ("Torn", "b"), ("test", "a"), ("Test?", "a")], "test", "test")


def test_published_counts_stay_if_copies_are_kept(tmp_path):
    made = made_of(copied(), tmp_path, validation=0.1, labelled_copies="keep")
    assert made.counts["examples"] == {"train": 76, "validation": 8, "test": 4}
    assert len(made.rejected) == 0
    assert made.counts["texts"] == {"distinct": 84, "used": 84} and len(made.texts) == 84
    leak = made.counts["leak"]
    assert leak["test"] == {"items": 4, "repeated_within": 1, "text_also_in_training": 2,
                            "text_in_training_as_another_class": 1, "letters_and_digits_also_in_training": 2}
    assert leak["train"] == {"items": 76, "repeated_within": 1, "text_also_in_training": 2,
                             "text_in_training_as_another_class": 0, "letters_and_digits_also_in_training": 2}
    frame = made.examples.merge(made.texts)
    assert frame[frame["split"] == "test"]["text"].str.lower().str.strip(".!?").tolist() == [
        "in both", "torn", "test", "test"]


@pytest.mark.parametrize("seed", range(4))
def test_validation_takes_no_text_of_which_training_or_test_has_a_copy(tmp_path, seed):
    rows = copied() + labelled([(f"Twice {n}", "a") for n in range(20)] * 2, "more", "train")
    made = made_of(rows, tmp_path, seed, validation=0.1, labelled_copies="keep")
    assert made.counts["leak"]["validation"] == {"items": 12, "repeated_within": 0, "text_also_in_training": 0,
                                                 "text_in_training_as_another_class": 0,
                                                 "letters_and_digits_also_in_training": 0}
    assert made.counts["classes"]["validation"] == {"a": 8, "b": 4}


def test_classes_of_few_texts_stay_in_training(tmp_path):
    sizes = {"one": 1, "two": 2, "three": 3, "nine": 9} | {f"lonely {n}": 1 for n in range(8)}
    made = made_of(labelled(classes(sizes), split=None), tmp_path, validation=0.3, test=0.3)
    assert min(made.counts["classes"]["train"].values()) >= 1
    assert made.counts["classes_without_a_text"]["train"] == []
    assert "one" in made.counts["classes_without_a_text"]["validation"]
    assert sum(made.counts["examples"].values()) == sum(sizes.values())
    with pytest.raises(InputError, match="no class has a text to spare for test: each keeps one for training"):
        made_of(labelled(classes({"one": 1, "other": 1, "third": 1})), tmp_path)
