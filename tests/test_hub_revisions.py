"""A revision of the hub that is pinned, one that is not, and artifacts of another one than the cache now holds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_encoders import ask_hub, cached, tiny

from keycontrast.files import sha256_of
from stages.params import parse_params

__all__ = ["tiny"]
ROOT = Path(__file__).resolve().parent.parent
OLD, NEW = "a" * 40, "b" * 40
REMARKS = """
import json, sys
from pipeline.sources import hub_warnings
print(json.dumps(list(hub_warnings(json.loads(sys.argv[1])))))
"""


@pytest.fixture
def home(tiny, tmp_path):
    """A cache whose main branch has moved from OLD to NEW, which has another tokenizer."""
    cached(tmp_path / "home", tiny, commit=OLD)
    folder = tmp_path / "home" / "hub" / "models--somebody--tiny-bert"
    shutil.copytree(tiny, folder / "snapshots" / NEW)
    tokenizer = folder / "snapshots" / NEW / "tokenizer_config.json"
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()) | {"do_lower_case": False}))
    (folder / "refs" / "main").write_text(NEW)
    return tmp_path / "home"


def remarks(home, params):
    done = subprocess.run([sys.executable, "-c", REMARKS, json.dumps(params)], capture_output=True,
                          text=True, check=True, cwd=ROOT, env={**os.environ, "HF_HOME": str(home)})
    return json.loads(done.stdout)


def test_a_revision_is_pinned_and_every_file_counts(home):
    newest = ask_hub(home, "hub:somebody/tiny-bert", HF_HUB_OFFLINE="1")
    pinned = ask_hub(home, f"hub:somebody/tiny-bert@{OLD}", HF_HUB_OFFLINE="1")
    assert (newest["version"], pinned["version"]) == (NEW, OLD)
    assert newest["name"] == pinned["name"] == "somebody/tiny-bert" and newest["sha256"] == pinned["sha256"]
    assert newest["sha256"] == sha256_of(next(home.rglob(f"{NEW}/model.safetensors")))
    assert newest["files"] != pinned["files"]
    gone = ask_hub(home, f"hub:somebody/tiny-bert@{'c' * 40}", HF_HUB_OFFLINE="1")["error"]
    assert f"hub:somebody/tiny-bert@{'c' * 40} is not available" in gone
    assert f"hf download somebody/tiny-bert --revision {'c' * 40}" in gone


def test_a_repository_without_a_revision_is_named_with_what_pins_it(home, tmp_path):
    source = "hub:somebody/tiny-bert"
    params = parse_params({"recipe": "r", "encoder": {"source": source}, "datasets": {
        "mine": {"source": "x.csv", "layout": "pairs", "columns": {"source": "a", "target": "b"}}},
        "evaluation": {"bertscore": {"encoder": f"hub:nobody/nothing@{OLD}"}},
        "models": {"hcl": {"t5": {"dataset": "mine", "overrides": {
            "architecture": "t5", "t5": {"source": "hub:nobody/nothing"}}}}},
        **{block: {"datasets": ["mine"]} for block in ("keywords", "graph", "node_vectors")}}, "params").plain()
    said = remarks(home, params)
    assert said == [f"encoder.source: {source} names no commit; the cache here holds {NEW}. To keep to it: "
                    f"{source}@{NEW}.",
                    "models.hcl.t5.overrides.t5.source: hub:nobody/nothing names no commit; the hub's newest will "
                    "be taken. To keep to it: hub:nobody/nothing@COMMIT."]
    pinned = params | {"encoder": {"source": f"{source}@{NEW}"}, "models": {}}
    assert remarks(home, pinned) == []
    branch = remarks(home, {"encoder": {"source": f"{source}@main"}})
    assert branch == [f"encoder.source: {source}@main names no commit; the cache here holds {NEW}. To keep to it: "
                      f"{source}@{NEW}."]
