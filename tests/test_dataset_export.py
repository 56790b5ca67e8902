"""``keycontrast export --texts``: items with their texts, and a card that the hub's own reader takes."""

import json

import pandas as pd
import pytest
import yaml
from huggingface_hub import DatasetCard
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline import export
from pipeline.cli import app
from stages.ingest import ingest
from stages.ingest.layouts import LAYOUTS

PAIRS = [{"source": f"The {n} dogs bark | loudly", "target": f"{n} dogs are loud", "negative": f"{n} cats sleep"}
         for n in range(40)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [*PAIRS, PAIRS[0], {"source": "same", "target": "Same!", "negative": "another"}]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(
        f"a question of kind {n % 2} and number {n},kind {n % 2}\n" for n in range(40)))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"recipe": "t", "datasets": {
        "pairs": {"source": "pairs.jsonl", "layout": "triples", "columns": {
            role: role for role in ("source", "target", "negative")}, "ingest": {"max_rejected": 0.5}},
        "kinds": {"source": "texts.csv", "layout": "labelled", "columns": {
            "text": "text", "label": "label"}}}}))
    for name in ("pairs", "kinds"):
        assert ingest.main([name]) == 0
    return tmp_path


def called(*words):
    return CliRunner().invoke(app, ["export", *words])


def test_pairs_come_with_their_texts_and_a_card(project):
    done = called("out", "--dataset", "pairs", "--texts", "--license", "cc-by-4.0")
    assert done.exit_code == 0, done.output
    frames = {name: pd.read_parquet(f"out/{name}.parquet") for name in ("train", "validation", "test")}
    found = pd.concat(frames.values())
    assert list(found) == ["example_id", "source", "target", "negative", "references"]
    assert sorted(found["source"]) == sorted(row["source"] for row in PAIRS)
    by_source = {row["source"]: row for row in PAIRS}
    assert all(by_source[row.source]["target"] == row.target == row.references[0] and
               by_source[row.source]["negative"] == row.negative for row in found.itertuples())
    card = DatasetCard.load("out/README.md")
    assert card.data.license == "cc-by-4.0" and card.data.language == "en"
    assert [one["split"] for one in card.data.configs[0]["data_files"]] == ["train", "validation", "test"]
    assert "42 rows were read and 40 taken." in card.text and "same text" in card.text and "pairs.jsonl" in card.text
    assert done.stdout.startswith("out: pairs, items: train") and done.stdout.count("\n") == 2


def test_labelled_texts_come_with_their_classes_and_the_same_bytes(project):
    for name in ("one", "two"):
        assert called(name, "--dataset", "kinds", "--texts").exit_code == 0
    found = pd.read_parquet("one/train.parquet")
    assert list(found) == ["example_id", "text", "label"] and all(
        text.split()[4] == label.split()[1] for text, label in zip(found["text"], found["label"], strict=True))
    for file in (project / "one").iterdir():
        assert file.read_bytes() == (project / "two" / file.name).read_bytes()
    text = (project / "one" / "README.md").read_text()
    assert "text-classification" in text and "No licence is stated" in text


def test_every_task_is_that_of_a_structure():
    """A name that no layout has would leave its data sets with the tasks of pairs."""
    assert {layout.structure for layout in LAYOUTS.values()} >= set(export._TASKS)


def test_what_cannot_be_written_is_said(project):
    (project / "full").mkdir()
    (project / "full" / "mine").write_text("x")
    for words, message in ((["full", "--texts", "--dataset", "pairs"], "full: exists already"),
                           (["out", "--texts", "--dataset", "pears"], "pears"),
                           (["out", "--texts", "--model", "m"], "--texts writes a data set; leave out --model")):
        done = called(*words)
        assert isinstance(done.exception, InputError) and message in str(done.exception)
    assert not (project / "out").exists()
