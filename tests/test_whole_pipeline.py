"""The whole pipeline, tiny: both orchestrators, twice, and given bad input."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiny_project

from stages.common.settings import hash_files

DVC = (sys.executable, "-m", "dvc")
# Two projects of two dozen stages, each a process of its own, while other tests run beside.
pytestmark = [pytest.mark.timeout(1500), pytest.mark.nightly]


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two projects made alike: one run by the flow, one by DVC alone with other worker counts and hash seed.

    DVC alone finds its environment without having it on PATH.
    """
    home = tmp_path_factory.mktemp("whole pipeline")
    flow, alone = (tiny_project.make(home / name) for name in ("flow", "dvc alone"))
    tiny_project.write_params(alone, runtime={"workers": 1})
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(tiny_project.call, flow, *tiny_project.command("run"), PYTHONHASHSEED="1"),
                pool.submit(tiny_project.call, alone, *DVC, "repro", PYTHONHASHSEED="2", PATH=os.defpath)]
    for run in runs:
        assert run.result().returncode == 0, run.result().stdout[-3000:] + run.result().stderr[-3000:]
    return flow, alone, runs[0].result()


def test_flow_and_dvc_leave_the_same_lock_and_a_second_time_nothing_happens(twins):
    flow, alone, _ = twins
    one, two = tiny_project.lock(flow), tiny_project.lock(alone)
    assert len(one["stages"]) >= 20
    assert one == two
    again = tiny_project.call(flow, *tiny_project.command("run"))
    assert again.returncode == 0, again.stderr
    assert tiny_project.lock(flow) == one
    assert "up to date" in tiny_project.call(alone, *DVC, "repro").stdout


def test_every_artifact_is_there_and_the_last_lines_say_where(twins):
    flow, _, run = twins
    for path in ("data/tiny/keywords", "data/tiny/graph/edges", "models/hcl/13/model/model.safetensors",
                 "runs/hcl/13/metrics.json", "data/tiny/paraphrase_items",
                 "models/pgkpr/13/model/model.safetensors", "runs/pgkpr/13/metrics.json",
                 "data/questions/linear_baseline",
                 "confusing_pairs/ct/13/confusing_pairs.parquet", "models/clsled/13/label_distance.parquet",
                 "runs/clsled/13/calibration.parquet", "corpus_pages/tiny.html", "report/index.html"):
        assert (flow / "artifacts" / path).exists(), path
    assert "artifacts/report/index.html" in run.stdout
    assert "copy" in run.stdout
    assert not [path for path in (flow / "artifacts").rglob("*") if path.suffix == ".tmp"]


def test_a_new_text_is_rewritten_with_its_keyword_or_another(twins):
    line = tiny_project.command("predict", "hcl", "A woman slices a pizza in the kitchen.")
    own = tiny_project.call(twins[0], *line)
    assert own.returncode == 0, own.stderr
    assert '"keyword_from": "textrank"' in own.stdout
    given = tiny_project.call(twins[0], *line, "--keyword", "Oven")
    assert '"keyword": "oven"' in given.stdout
    assert '"keyword_from": "given"' in given.stdout
    (twins[0] / "rows.csv").write_text("id;text\n1;\n2;A dog runs.\n")
    rows = ("--file", "rows.csv", "--separator", ";", "--skip-empty")
    (kept,) = tiny_project.call(twins[0], *line[:-1], *rows).stdout.splitlines()
    assert kept.startswith('{"row": 1, ')
    wrong = tiny_project.call(twins[0], *tiny_project.command("predict", "hlc", "x"))
    assert wrong.returncode == 1
    assert wrong.stderr == "keycontrast: no run is called 'hlc'; did you mean 'hcl'?\n"


def broken_texts(folder: Path) -> None:
    """Break the texts in use, and add data sets whose column has another name, or whose file is empty."""
    questions = (folder / "questions.jsonl").read_text(encoding="utf-8")
    (folder / "renamed.jsonl").write_text(questions.replace('"label":', '"labels":'), encoding="utf-8")
    (folder / "empty.jsonl").write_text("")
    with (folder / "triples.jsonl").open("a") as handle:
        handle.write('{"source": "no end\n' * 3)
    datasets = tiny_project.params()["datasets"]
    more = {name: {**datasets["questions"], "source": f"{name}.jsonl"} for name in ("renamed", "empty")}
    tiny_project.write_params(folder, datasets={**datasets, **more})


def test_bad_input_is_named_and_harms_nothing(twins):
    flow = twins[0]
    kept = {file: (flow / file).read_bytes() for file in ("triples.jsonl", "params.yaml", "dvc.lock")}
    before = hash_files([flow / "artifacts"])
    try:
        broken_texts(flow)
        run = tiny_project.call(flow, *tiny_project.command("run"))
    finally:
        for file, content in kept.items():
            (flow / file).write_bytes(content)
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode == 1 and "Traceback" not in said
    for words in ("triples.jsonl", "row 51", "renamed.jsonl", "'label'", "labels", "empty.jsonl", "is empty"):
        assert words in said
    # What a failed stage had made before is in the cache.
    assert tiny_project.call(flow, *DVC, "checkout", "--force").returncode == 0
    assert hash_files([flow / "artifacts"]) == before
