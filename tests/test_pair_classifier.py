"""The pair classifier: its points, its loss, its stage from tables to a folder, and a resumed stage."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import torch
import yaml
from memory_store import Memory
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.common.task import Step
from models.common.training import Settings, fit
from models.keywords.pair_classifier import PairExample, PairTask, build_pair_classifier, pair_examples
from pipeline.schemas import SCHEMAS
from stages.attribution import pair_classifier
from stages.attribution.pair_classifier import split_points
from stages.common.device import computed_in
from stages.common.paths import DatasetPaths
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, write_table

TEXTS = ["how do i learn a new language ?", "what is the best way to learn a language ?", "how do i lose weight fast",
         "what is a good way to lose weight ?", "where can i find a good school", "find a good school for me",
         "why dog eat cat", "tell me why dog eat cat", "who can run fast", "you run fast", "can you play", "i play"]
VALUES = {"stage1_neg": "random2", "max_sources": None, "max_length": 24, "learning_rate": 1e-3, "batch_size": 8,
          "epochs": 2, "clip": 1.0, "freeze_layers": 0}


def tables(train=4, validation=2):
    count = train + validation
    split = ["train"] * train + ["validation"] * validation
    examples = pd.DataFrame({
        "example_id": range(count), "split": split, "source_id": range(0, 2 * count, 2),
        "target_id": range(1, 2 * count, 2), "negative_id": [None] * count,
        "reference_ids": [[2 * i + 1] for i in range(count)], "group": range(count),
        "negative_origin": [None] * count})
    texts = pd.DataFrame({"text_id": range(len(TEXTS)), "text": TEXTS, "language": "en"})
    return examples, texts


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    return tiny_bert.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def test_points_are_a_quarter_pairs_a_quarter_repeats_and_half_random():
    pairs = [(10 + i, 50 + i) for i in range(20)]
    points = pair_examples(pairs, np.random.default_rng(0))
    assert len(points) == 80
    for number, (source, target) in enumerate(pairs):
        positive, repeat, first, second = points[4 * number:4 * number + 4]
        assert positive == (source, target, 1) and repeat == (source, source, 1)
        for negative in (first, second):
            assert negative.first == source and negative.label == 0
            assert negative.second in {t for _, t in pairs} - {target}
    assert points == pair_examples(pairs, np.random.default_rng(0)) != pair_examples(pairs, np.random.default_rng(1))
    drawn = {point.second for point in points if point.label == 0}
    assert len(drawn) > 10  # spread over the targets


def test_known_partners_and_the_source_itself_are_never_negatives():
    # 1 is paired with 2 and 3, in either direction; 4 has the source 1 as its target
    pairs = [(1, 2), (3, 1), (4, 1), (5, 6), (1, 7)]
    for seed in range(50):
        negatives = {(p.first, p.second) for p in pair_examples(pairs, np.random.default_rng(seed)) if p.label == 0}
        assert not negatives & {(1, 1), (1, 2), (1, 7), (3, 1), (4, 1), (5, 6)}
        assert {second for first, second in negatives if first == 1} == {6}
    with pytest.raises(ValueError, match="no negative for text 1: it is paired with all of the 2 targets"):
        pair_examples([(1, 2), (1, 3)], np.random.default_rng(0))


def test_released_rule_for_groups_draws_four_negatives_per_pair():
    """Ratio 2N : 4N, as in the released code, in validation 2N : 2N, and no reference of a source is its negative."""
    examples, _ = tables(train=8, validation=4)
    examples["reference_ids"] = [[target, (target + 2) % 24] for target in examples["target_id"]]
    for seed in range(20):
        points = split_points(examples, "train", seed, rule="released")
        labels = [point.label for point in points]
        assert (labels.count(1), labels.count(0)) == (16, 32)
        drawn = {(p.first, p.second) for p in points if p.label == 0}
        assert not drawn & {(2 * i, 2 * i + 3) for i in range(8)}
        assert {text for point in points for text in point[:2]} <= set(range(16))  # its own split
    validation = [point.label for point in split_points(examples, "validation", 0, rule="released")]
    assert (validation.count(1), validation.count(0)) == (8, 8)
    paper = split_points(examples, "train", 0)
    assert [point.label for point in paper].count(0) == 16
    assert not {(p.first, p.second) for p in paper if p.label == 0} & {(2 * i, 2 * i + 3) for i in range(8)}


def test_released_rule_for_labelled_pairs_takes_the_splits_own_non_duplicates():
    examples, _ = tables()
    examples["negative_id"] = [11, 9, 11, 1, 5, 3]
    examples["negative_origin"] = ["labelled", "labelled", "retrieved", "labelled", "labelled", "labelled"]
    twice = pd.concat([examples, examples.iloc[:1].assign(target_id=5)])
    points = split_points(twice, "train", 0, rule="released")
    assert [tuple(p) for p in points if p.label == 0] == [(0, 11, 0), (2, 9, 0), (6, 1, 0)]
    assert {tuple(p) for p in points if p.label} == {
        (0, 1, 1), (0, 5, 1), (2, 3, 1), (4, 5, 1), (6, 7, 1)}  # and no source with itself
    validation = split_points(twice, "validation", 0, rule="released")
    assert [tuple(p) for p in validation if p.label == 0] == [(8, 5, 0), (10, 3, 0)]
    few = split_points(twice, "train", 0, max_sources=1, rule="released")
    assert len({point.first for point in few}) == 1


def make_task(folder, **changes):
    torch.manual_seed(0)
    points = [PairExample(*values) for values in (
        (0, 1, 1), (0, 0, 1), (0, 3, 0), (0, 7, 0), (2, 3, 1), (2, 2, 1), (2, 1, 0), (2, 5, 0))]
    given = {"module": build_pair_classifier(folder), "tokenizer": AutoTokenizer.from_pretrained(folder),
             "texts": dict(enumerate(TEXTS)), "train": points, "validation": points, "max_length": 24,
             "learning_rate": 5e-3, "batch_size": 3}
    return PairTask(**{**given, **changes})


def test_loss_is_the_binary_cross_entropy_of_the_logit_difference(encoder_folder):
    task = make_task(encoder_folder)
    losses, right = [], []
    for first, second, label in task.train:
        encoded = task.tokenizer(TEXTS[first], TEXTS[second], return_tensors="pt")
        with torch.no_grad():
            negative, positive = task.module.eval()(**encoded).logits[0].tolist()
        probability = 1 / (1 + np.exp(-(positive - negative)))
        losses.append(-np.log(probability if label else 1 - probability))
        right.append((probability > 0.5) == bool(label))
    step = Step(0, 1, 0, range(8))
    share, parts = task.train_batch(task.load([0, 1, 2]), step)
    assert share.item() == pytest.approx(sum(losses[:3]) / 8, rel=1e-4)
    assert float(parts["accuracy"]) == pytest.approx(sum(right[:3]) / 8)
    with torch.no_grad():
        values = task.validate()
    assert values == pytest.approx({"loss": np.mean(losses), "accuracy": np.mean(right)}, rel=1e-4)


def test_a_length_beyond_the_encoders_positions_is_an_error(encoder_folder):
    examples, texts = tables()
    with pytest.raises(InputError, match="pair_classifier.max_length: 999 tokens are more than the"):
        pair_classifier.run(examples, texts, {**VALUES, "max_length": 999},
                            ResolvedEncoder(encoder_folder, True, {}), 1, Memory())


def test_frozen_layers_keep_their_weights(encoder_folder):
    task = make_task(encoder_folder, module=build_pair_classifier(encoder_folder, freeze_layers=1))
    before = {name: p.clone() for name, p in task.module.named_parameters()}
    fit(task, Settings(epochs=2, batch_size=8), Memory(), partial(derived_seed, 1))
    moved = {name for name, p in task.module.named_parameters() if not torch.equal(p, before[name])}
    assert "classifier.weight" in moved and any("layer.1" in name for name in moved)
    assert not any("layer.0" in name or "embeddings" in name for name in moved)


@pytest.fixture
def project(tmp_path, monkeypatch, encoder_folder):
    monkeypatch.chdir(tmp_path)
    examples, texts = tables()
    paths = DatasetPaths("tiny")
    for kind, rows in (("examples", examples), ("texts", texts)):
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance("ingest@tiny", "0"))
    params = {"recipe": "test", "encoder": {"source": "path", "path": str(encoder_folder)},
              "datasets": {"tiny": {"source": "data.jsonl"}}, "pair_classifier": VALUES}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return paths


def content(paths):
    files = [*paths.pair_classifier.iterdir(), paths.metrics("pair_classifier")]
    return {file.name: file.read_bytes() for file in files}


def test_stage_writes_a_classifier_that_loads_and_metrics(project, encoder_folder):
    assert pair_classifier.main(["tiny"]) == 0
    classifier = AutoModelForSequenceClassification.from_pretrained(project.pair_classifier)
    assert classifier.config.id2label == {0: "different", 1: "paraphrase"}
    assert classifier.config.computed_in == computed_in("fp32", False)
    assert AutoTokenizer.from_pretrained(project.pair_classifier).model_max_length == 24
    metrics = json.loads(project.metrics("pair_classifier").read_text())
    assert metrics["training_points"] == 16 and metrics["validation_points"] == 8
    assert metrics["training_negatives"] == 8 and metrics["validation_negatives"] == 4
    assert 0 <= metrics["validation_accuracy"] <= 1 and len(metrics["history"]) == 2
    best = max(metrics["history"], key=lambda r: (r["validation_accuracy"], -r["validation_loss"]))
    assert best["epoch"] == metrics["best_epoch"] and best["validation_loss"] == metrics["validation_loss"]
    card = (project.pair_classifier / "README.md").read_text()
    assert "each source with two random other targets" in card
    assert "data set tiny" in card and f"{metrics['validation_accuracy']:.4f}" in card
    # What is saved says nothing of the machine, and the metrics nothing of time.
    assert str(encoder_folder.parent).encode() not in b"".join(content(project).values())
    assert not any("second" in name for row in metrics["history"] for name in row)
