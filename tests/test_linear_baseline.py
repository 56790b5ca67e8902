"""The linear_baseline stage: a linear classifier on TF-IDF that learns from the training split alone."""

import json

import numpy as np
import pytest
import tiny_classes
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from table_files import bytes_of
from tiny_classes import CLASSES

from keycontrast.errors import InputError
from models.clld.textcnn import word_tokenizer
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.tables import read_frame
from stages.tracks.clld import linear_baseline
from stages.tracks.clld.evaluate import nll
from stages.tracks.clld.linear_baseline import WORD, main, run


def baseline(items=None, min_count=1):
    return run(tiny_classes.items() if items is None else items, min_count)


@pytest.fixture
def one_strength(monkeypatch):
    monkeypatch.setattr(linear_baseline, "STRENGTHS", (3.0,))


@pytest.mark.usefixtures("one_strength")
def test_probabilities_are_those_of_scikit_learn():
    items = tiny_classes.items()
    train, test = (items[items["split"] == split] for split in ("train", "test"))
    model = make_pipeline(TfidfVectorizer(token_pattern=WORD, sublinear_tf=True),
                          LogisticRegression(C=3.0, max_iter=1000)).fit(train["text"], train["label"])
    predictions, metrics = baseline()
    rows = predictions[predictions["split"] == "test"]
    expected = (len(train) * model.predict_proba(test["text"]) + 1) / (len(train) + len(CLASSES))
    assert np.allclose(np.stack(rows["probabilities"]), expected, atol=1e-9)
    assert rows["predicted"].tolist() == model.predict(test["text"]).tolist()
    assert metrics["test"]["accuracy"] == pytest.approx(model.score(test["text"], test["label"]), abs=1e-6)
    assert metrics["features"] == len(model[0].vocabulary_) and metrics["strength"] == 3.0


def test_words_are_those_of_textcnn():
    texts = ["The 'new' dog-food isn't   GOOD, it’s e.g. 3.5 % x_1 ?!", "école 你好 a"]
    own = TfidfVectorizer(token_pattern=WORD).fit(texts).vocabulary_
    assert set(own) == set(word_tokenizer(texts, min_count=1).get_vocab()) - {"[PAD]", "[UNK]"}


def test_the_strength_is_chosen_on_the_validation_split_and_of_equals_the_strongest_regularisation(monkeypatch):
    items = tiny_classes.items()
    monkeypatch.setattr(linear_baseline, "STRENGTHS", (1e-6, 1.0, 100.0))
    _, metrics = baseline(items)
    accuracies = metrics["validation_accuracy"]
    best = max(accuracies.values())
    assert metrics["strength"] == min(float(name) for name, value in accuracies.items() if value == best)
    assert accuracies["1e-06"] < best
    wrong = items.assign(label=items["label"].where(items["split"] != "test", "place"))
    assert baseline(wrong)[1]["strength"] == metrics["strength"]


@pytest.mark.usefixtures("one_strength")
def test_nothing_is_learned_from_what_is_evaluated():
    items = tiny_classes.items()
    held = items["split"] != "train"
    other = items.assign(text=items["text"].where(~held, items["text"] + " secret"))
    one, two = baseline(items), baseline(other)
    assert one[1]["features"] == two[1]["features"]
    assert np.array_equal(np.stack(one[0]["probabilities"]), np.stack(two[0]["probabilities"]))


@pytest.mark.usefixtures("one_strength")
def test_a_class_without_a_training_text_costs_the_logarithm_of_texts_and_classes():
    items = tiny_classes.items()
    known = np.stack(baseline(items)[0]["probabilities"])
    items.loc[items["split"] == "test", "label"] = "zz unseen"
    predictions, metrics = baseline(items)
    rows, train = np.stack(predictions["probabilities"]), int((items["split"] == "train").sum())
    # As a plain computation on scikit-learn's probabilities of the three classes, which smoothing has not reordered.
    plain = (known * (train + 3) - 1) / train
    assert np.allclose(rows, (train * np.column_stack([plain, np.zeros(18)]) + 1) / (train + 4), atol=1e-12)
    assert rows.sum(1) == pytest.approx(np.ones(18)) and rows.argmax(1).tolist() == plain.argmax(1).tolist()
    assert nll(np.full(18, 3), rows) == pytest.approx(np.full(18, np.log(train + 4)))
    assert set(predictions["predicted"]) <= set(CLASSES) and metrics["test"]["accuracy"] == 0


def test_words_that_are_too_rare_leave_nothing():
    with pytest.raises(InputError, match="linear_baseline.min_count: 30: no word is in so many training texts"):
        baseline(min_count=30)


def test_stage_writes_held_out_texts_with_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_classes.write_project(tmp_path)
    assert main(["tiny"]) == 0
    paths = DatasetPaths("tiny")
    files = [paths.table("linear_baseline"), paths.metrics("linear_baseline")]
    before = [bytes_of(path) for path in files]
    rows, metrics = read_frame(files[0], SCHEMAS["linear_baseline"]), json.loads(before[1])
    assert rows["split"].value_counts().to_dict() == {"validation": 9, "test": 9}
    right = (rows["predicted"] == rows["label"])[rows["split"] == "test"].mean()
    assert metrics["test"]["accuracy"] == pytest.approx(right, abs=1e-6) and metrics["unfinished"] == []
    assert main(["tiny"]) == 0 and [bytes_of(path) for path in files] == before
