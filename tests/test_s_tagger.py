"""The S-Tagger: its loss and scores, padding, saving, what it learns from, its stage, and a resumed stage."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import yaml
from ingest_rows import token_rows
from memory_store import Killed
from table_files import bytes_of
from transformers import AutoTokenizer

from models.common.task import Step
from models.keywords.s_tagger import STagger, STaggerConfig, TaggedText, TagTask
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.psi import s_tagger
from stages.psi.s_tagger import labelled_sources, load_tagger, majority, tag, vocabulary, word_tokenizer
from stages.psi.texts import read_words

VALUES = {"min_count": 1, "embedding": 12, "hidden": 16, "layers": 2, "learning_rate": 1e-2, "batch_size": 4,
          "epochs": 2, "clip": 1.0}


def tiny(seed=0, words=20):
    torch.manual_seed(seed)
    return STagger(STaggerConfig(words, 12, 16, 2)).eval()


def some_texts(count=8, seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 9, count)
    return [TaggedText(random.integers(2, 20, n), random.integers(0, 2, n)) for n in lengths]


def make_task(texts=None):
    texts = texts or some_texts()
    return TagTask(tiny(), texts, texts, 2e-2, 3)


def test_loss_is_the_cross_entropy_of_the_words_of_the_batch():
    task = make_task()
    losses, right = [], []
    for text in task.train:
        with torch.no_grad():
            logits = task.module(torch.tensor([text.ids.tolist()]))[0].double()
        for (secondary, primary), label in zip(logits.tolist(), text.labels.tolist(), strict=True):
            probability = 1 / (1 + np.exp(secondary - primary))
            losses.append(-np.log(probability if label else 1 - probability))
            right.append((probability > 0.5) == bool(label))
    first = sum(len(text.ids) for text in task.train[:3])
    step = Step(0, 1, 0, range(8))
    share, parts = task.train_batch(task.load([0, 1, 2]), step)
    assert share.item() == pytest.approx(sum(losses[:first]) / len(losses), rel=1e-5)
    assert float(parts["accuracy"]) == pytest.approx(sum(right[:first]) / len(losses))
    rest, _ = task.train_batch(task.load([3, 4, 5, 6, 7]), step)
    with torch.no_grad():
        found = task.validate()
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5) == pytest.approx((share + rest).item(), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right))


def test_tags_do_not_depend_on_the_texts_beside_a_text():
    texts = [text.ids for text in some_texts(11)] + [np.zeros(0, np.int64)]
    found = tag(tiny(), texts, 4)
    for text, probability in zip(texts, found, strict=True):
        assert probability.dtype == np.float32 and len(probability) == len(text)
        # To rounding: another batch shape may sum in another order.
        np.testing.assert_allclose(tag(tiny(), [text], 4)[0], probability, rtol=1e-5, atol=1e-7)
        if len(text):
            with torch.no_grad():
                alone = tiny()(torch.from_numpy(text)[None]).softmax(-1)[0, :, 1].numpy()
            np.testing.assert_allclose(probability, alone, atol=1e-5)
    assert tag(tiny(), [], 4) == []


WORDS = [["How", "do", "I", "learn", "French", "?"], ["what", "is", "the", "best", "way"],
         ["why", "do", "dogs", "bark"], ["I", "like", "dogs"], ["how", "do", "I", "sing", "?"],
         ["is", "French", "hard", "?"], ["xyz", "dogs", "bark"], ["the", "way"], []]


def tables():
    sources, targets = [0, 2, 0, 4, 8, 5, 6], [1, 3, 4, 0, 0, 7, 7]
    examples = pd.DataFrame({
        "example_id": range(7), "split": ["train"] * 5 + ["validation", "test"], "source_id": sources,
        "target_id": targets, "negative_id": [None] * 7, "reference_ids": [[t] for t in targets], "group": range(7),
        "negative_origin": [None] * 7})
    rows = sorted({(s, mode, t) for s, t in zip(sources, targets, strict=True) for mode, t in (("xx", s), ("xy", t))})
    psi = pd.DataFrame(rows, columns=["text_id", "mode", "pair"])
    psi["word"] = [WORDS[text] for text in psi["text_id"]]
    psi["score"] = [[0.0] * len(WORDS[text]) for text in psi["text_id"]]
    # In mode xy words longer than three letters are primary (as against text 4 none is), in mode xx all are.
    psi["primary"] = [[mode == "xx" or (len(word) > 3 and pair != 4) for word in WORDS[text]]
                      for text, mode, pair in psi[["text_id", "mode", "pair"]].itertuples(index=False)]
    return examples, psi


def lower():
    return read_words([pa.table({"text_id": range(len(WORDS)), "token": WORDS})], str.lower)


def psi_table(psi):
    return pa.Table.from_pandas(psi, preserve_index=False)


def test_labels_are_those_of_mode_xy_of_the_split():
    examples, psi = tables()
    found = labelled_sources(examples, lower(), psi_table(psi), "train")
    assert [(source, labels.tolist()) for source, labels in found] == [
        (0, [0, 0, 0, 1, 1, 0]), (0, [0] * 6), (2, [0, 0, 1, 1]), (4, [0, 0, 0, 1, 0])]  # text 8 has no words
    assert [source for source, _ in labelled_sources(examples, lower(), psi_table(psi), "validation")] == [5]


def test_vocabulary_is_of_the_training_sources_the_most_frequent_first():
    assert vocabulary(lower(), [0, 2, 4], 2) == ["[PAD]", "[UNK]", "do", "?", "how", "i"]
    words = vocabulary(lower(), [0, 2, 4], 1)
    assert words[6:] == sorted(["learn", "french", "why", "dogs", "bark", "sing"])
    tokenizer = word_tokenizer(words)
    assert tokenizer(["How", "xyz", "DOGS"], is_split_into_words=True)["input_ids"] == [
        words.index("how"), 1, words.index("dogs")]


def test_the_majority_is_that_of_the_training_words():
    train, validation = np.array([0, 0, 0, 1, 0, 0]), np.array([1, 0, 0, 1])
    found = majority(train, validation)
    share = 2 / 8
    assert found["answer"] == "secondary" and found["accuracy"] == 0.5 and found["f1"] == 0.0
    assert found["loss"] == pytest.approx(-(np.log(share) + np.log(1 - share)) / 2)
    assert majority(1 - train, validation)["f1"] == pytest.approx(2 * 2 / (2 * 2 + 2))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples, psi = tables()
    paths = DatasetPaths("tiny")
    for kind, rows in (("examples", examples), ("psi", psi), ("tokens", token_rows(range(len(WORDS)), WORDS))):
        write_table(paths.table(kind), SCHEMAS[kind], rows,
                    Provenance("test", "0", {"word_vectors": {"origin": "here"}}))
    params = {"recipe": "test", "datasets": {"tiny": {"source": "x"}}, "keywords": {"datasets": ["tiny"]},
              "psi": {"datasets": ["tiny"]}, "s_tagger": {"datasets": ["tiny"], **VALUES}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return paths


def content(paths):
    files = [*paths.s_tagger.iterdir(), paths.metrics("s_tagger"), paths.table("s_tags")]
    return {file.name: bytes_of(file) for file in files}


def test_stage_writes_a_tagger_that_loads_tags_of_every_source_and_metrics(project):
    assert s_tagger.main(["tiny"]) == 0
    tagger, tokenizer = STagger.from_pretrained(project.s_tagger), AutoTokenizer.from_pretrained(project.s_tagger)
    tags = read_frame(project.table("s_tags"), SCHEMAS["s_tags"])
    assert tags["text_id"].tolist() == [0, 2, 4, 5, 6, 8]
    for text, words, probability, primary in tags.itertuples(index=False):
        assert list(words) == WORDS[text] and (primary == (probability > 0.5)).all()
        if len(words):
            ids = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                np.testing.assert_allclose(probability, tagger(ids).softmax(-1)[0, :, 1].numpy(), atol=1e-6)
    metrics = json.loads(project.metrics("s_tagger").read_text())
    assert metrics["training_texts"] == 4 and metrics["validation_texts"] == 1 and len(metrics["history"]) == 2
    assert metrics["primary_share"] == {"train": pytest.approx(5 / 21), "validation": 0.5}
    assert metrics["unknown_share"] == 0.5  # "is" and "hard" are in no training source
    best = min(metrics["history"], key=lambda row: row["validation_loss"])
    assert best["epoch"] == metrics["best_epoch"] and best["validation_f1"] == metrics["f1"]
    card = (project.s_tagger / "README.md").read_text()
    assert "data set tiny" in card and f"| tagger | {metrics['loss']:.4f} | {metrics['accuracy']:.4f} |" in card
    models = read_metadata(project.table("s_tags"))["models"]
    assert models["word_vectors"] == {"origin": "here"} and len(models["s_tagger"]["sha256"]) == 64
    assert read_metadata(project.table("s_tags"))["precision"] == computed_in("fp32", False)
    assert load_tagger(project.s_tagger)[0].config.computed_in == computed_in("fp32", False)


def test_a_stage_killed_in_training_and_run_again_writes_the_same_bytes(project, monkeypatch):
    assert s_tagger.main(["tiny"]) == 0
    whole = content(project)
    shutil.rmtree(project.s_tagger)
    shutil.rmtree(project.table("s_tags"))
    inner, steps = TagTask.train_batch, []

    def deadly(self, items, step):
        steps.append(step.number)
        if steps == [0, 1]:
            raise Killed
        return inner(self, items, step)

    monkeypatch.setattr(TagTask, "train_batch", deadly)
    with pytest.raises(Killed):
        s_tagger.main(["tiny"])
    assert not project.s_tagger.exists() and not project.table("s_tags").exists()
    assert s_tagger.main(["tiny"]) == 0
    assert steps == [0, 1, 1]  # the first epoch was not repeated
    assert content(project) == whole
    assert s_tagger.main(["tiny"]) == 0 and content(project) == whole  # and the checkpoint has gone
    assert steps == [0, 1, 1, 0, 1]
