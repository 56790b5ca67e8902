"""Layout ``nli``: entailed hypotheses are positives, contradicted ones negatives, neutral ones are set aside."""

import csv
import io
import json

import pytest
from ingest_rows import SHARES, by_key, ingested

from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest

TOPICS = ("river", "market", "garden", "engine", "harbour", "violin", "bakery", "library", "glacier", "museum",
          "orchard", "tunnel")
SNLI = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}


def corpus(labels=("entailment", "neutral", "contradiction")):
    """A premise of each topic with a hypothesis of each label."""
    return [{"sentence1": f"People stand near the {topic}.", "sentence2": f"{what} the {topic}", "gold_label": label}
            for topic in TOPICS for label, what in zip(labels, ("Somebody is near", "Friends visit", "Nobody is near"),
                                                       strict=True)]


def written(folder, form, rows):
    path = folder / f"nli.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    table = io.StringIO()
    writer = csv.DictWriter(table, list(SNLI.values()), delimiter="," if form == "csv" else "\t")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(table.getvalue())
    return path


def made_of(path, folder, **changes):
    data = Dataset(source=str(path), layout="nli", columns=SNLI)
    params = Ingest(qqp_rule="question1_one", **SHARES, **changes)
    return ingested(read_rows(data), data, params, 1, folder)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("labels", [("entailment", "neutral", "contradiction"), ("e", "n", "c"), (0, 1, 2)])
def test_a_premise_with_what_it_entails_and_contradicts_is_a_triple(tmp_path, form, labels):
    made = made_of(written(tmp_path, form, corpus(labels)), tmp_path)
    found = by_key(made)[["source", "target", "negative"]].to_numpy().tolist()
    assert sorted(found) == sorted([f"{who}nearthe{topic}" for who in ("peoplestand", "somebodyis", "nobodyis")]
                                   for topic in TOPICS)
    assert made.counts["rows"] == {"read": 36, "taken": 24, "rejected": 0, "duplicates": 0,
                                   "not_taken_by_reason": {"neutral": 12}, "in_items": 24, "in_no_item_by_reason": {}}
    assert set(made.rejected["reason"]) == {"neutral: neither entails nor contradicts"}
    assert json.loads(made.rejected["raw"][0])["sentence2"] == "Friends visit the river"
    assert set(made.examples["split"]) == {"train", "validation", "test"}
