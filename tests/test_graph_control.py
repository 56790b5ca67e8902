"""The control corpus of the graph: what training and graph know of it, and a small HCL that has to read the graph."""

import json
import os
import subprocess
import sys

import pytest

from stages.common.paths import RunPaths
from tests.sample_run import ROOT
from tools.graph_control import Corpus, nouns


def test_only_the_graph_knows_what_is_asked_for():
    rows = list(Corpus(1, [f"word{n}" for n in range(40)], 30, 10, 10).rows(among=2, validation=2, test=3))
    keyword = {split: {row["source"].split(" the ")[1].split()[0] for row in rows if row["split"] == split}
               for split in ("train", "graph", "validation", "test")}
    asked = keyword["validation"] | keyword["test"]
    assert len(asked) == 5 and asked <= keyword["graph"] and not asked & keyword["train"]
    assert len({text for row in rows for text in (row["source"], row["target"], row["negative"])}) == 3 * len(rows)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_hcl_shows_what_the_graph_alone_can_tell(tmp_path, monkeypatch):
    triples = Corpus(13, nouns(), 300, 20, 100).rows(validation=10, test=40)
    lines = "".join(json.dumps(triple) + "\n" for triple in triples)
    for name in ("among1", "among4", "among16", "shuffled"):  # the first is read, the others have to be there
        (tmp_path / f"{name}.jsonl").write_text(lines)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    rows = "graph", "no-graph"
    settings = [f"models.hcl.{row}.seeds=[13]" for row in rows] + ["train_hcl.training.epochs=16"]
    for command in (["use", "cpu-hcl-control", "--data", tmp_path, *(f"--set={setting}" for setting in settings)],
                    *(["run", f"evaluate_hcl@{row}"] for row in rows)):
        subprocess.run([sys.executable, "-m", "pipeline", *command], cwd=clone, check=True,
                       env={**os.environ, "PYTHONPATH": str(clone)})
    monkeypatch.chdir(clone)
    shown = {row: json.loads(RunPaths(row, 13).metrics.read_text())["run"]["target_keyword_kept"] for row in rows}
    assert shown["graph"] > 0.8 and shown["no-graph"] < 0.2
