"""The control corpus of the graph: what training and graph know of it, and a small HCL that has to read the graph."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stages.common.paths import RunPaths
from tests.sample_run import ROOT, finish
from tools.graph_control import Corpus, nouns


def test_only_the_graph_knows_what_is_asked_for():
    rows = list(Corpus(1, [f"word{n}" for n in range(40)], 30, 10, 10).rows(among=2, validation=2, test=3))
    keyword = {split: {row["source"].split(" the ")[1].split()[0] for row in rows if row["split"] == split}
               for split in ("train", "graph", "validation", "test")}
    asked = keyword["validation"] | keyword["test"]
    assert len(asked) == 5 and asked <= keyword["graph"] and not asked & keyword["train"]
    assert len({text for row in rows for text in (row["source"], row["target"], row["negative"])}) == 3 * len(rows)


@pytest.mark.nightly
def test_hcl_shows_what_the_graph_alone_can_tell(tmp_path, monkeypatch):
    rows = Corpus(13, nouns(), 300, 20, 100).rows(validation=10, test=40)
    (tmp_path / "among1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    settings = ["models.hcl.graph.seeds=[13]", "models.hcl.no-graph.seeds=[13]", "train_hcl.training.epochs=16"]
    subprocess.run([sys.executable, "-m", "pipeline", "use", "cpu-hcl-control", "--data", tmp_path,
                    "--model", "graph", "--model", "no-graph", *(f"--set={setting}" for setting in settings)],
                   cwd=clone, check=True)
    finish(clone)
    monkeypatch.chdir(clone)
    shown = {row: json.loads(Path(RunPaths(row, 13).metrics).read_text())["run"]["target_keyword_kept"]
             for row in ("graph", "no-graph")}
    assert shown["graph"] > 0.8 and shown["no-graph"] < 0.2
