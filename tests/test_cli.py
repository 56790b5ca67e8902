"""The command line: errors that end with a message and status 1, results, the report, the estimate of a run."""

import json
import re
import subprocess
import sys
import webbrowser

import pytest
from rich.console import Console
from small_project import keycontrast, make_project
from source_imports import ROOT
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline.cli import app
from pipeline.results import results_tables
from pipeline.run import duration, estimate_in_words
from stages.common.paths import REPORT_PAGE
from stages.common.tables import write_json
from stages.params import load_params, parse_params

OF_PAIRS = {**{block: {"datasets": ["d"]} for block in ("keywords", "attribution", "graph", "node_vectors")},
            "paraphrase_items": {"datasets": {"d": {}}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("cli") / "p")


def told(done):
    """The message of a command that a person has to mend something for."""
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr.startswith("keycontrast: ")
    return done.stderr


@pytest.mark.whole
def test_a_command_that_asks_duckdb_ends_without_a_word_of_its_binding(project):
    assert "leaked" not in keycontrast(project, "doctor").stderr


def test_wrong_params_and_missing_data_are_named_before_any_work(project):
    file, data = project / "params.yaml", project / "raw"
    params = file.read_text()
    try:
        file.write_text(params.replace("seed: 13", "sead: 13").replace("train_hcl: {}",
                                                                       "train_hcl: {training: {epochs: no}}"))
        message = told(keycontrast(project, "run"))
        assert "params.yaml: 2 problems" in message and "did you mean 'seed'?" in message
        assert "train_hcl.training.epochs" in message
        file.write_text(params)
        data.rename(project / "hidden")
        message = told(keycontrast(project, "run"))
        assert "datasets.d.source: raw does not exist" in message and "keycontrast use RECIPE --data FOLDER" in message
        assert not (project / ".keycontrast" / "logs").exists()
    finally:
        file.write_text(params)
        (project / "hidden").rename(data)


def test_a_folder_without_params(tmp_path):
    assert r"\x1b[2J" in told(keycontrast(tmp_path, "inspect", "\x1b[2J"))
    assert "params.yaml: not found" in told(keycontrast(tmp_path, "run"))
    assert "keycontrast use sample" in told(keycontrast(tmp_path, "run", "ingest"))


def test_use_lists_shows_and_writes(project):
    listed = keycontrast(project, "use").stdout
    assert re.search(r"^one +The first recipe\.$", listed, re.MULTILINE) and "outside" in listed
    before = (project / "params.yaml").read_text()
    shown = keycontrast(project, "use", "two", "--dry-run")
    assert shown.returncode == 0 and "+recipe: two" in shown.stdout
    assert (project / "params.yaml").read_text() == before
    assert "did you mean 'two'?" in told(keycontrast(project, "use", "tow"))
    assert "--data FOLDER" in told(keycontrast(project, "use", "outside"))
    assert "--data in here: no such folder" in told(keycontrast(project, "use", "outside", "--data", "in here"))
    (project / "in here").mkdir()
    assert keycontrast(project, "use", "outside", "--data", "in here").returncode == 0
    assert load_params(project / "params.yaml").datasets["far"].source == "in here/far"
    assert keycontrast(project, "use", "one").returncode == 0
    assert (project / "params.yaml").read_text() == before


def test_stage_and_inspect_name_the_nearest(project):
    assert "did you mean 'ingest'?" in told(keycontrast(project, "run", "ingset"))
    assert "did you mean 'train_x@m1'?" in told(keycontrast(project, "run", "train_x@m11"))
    assert "did you mean 'params.yaml'?" in told(keycontrast(project, "inspect", "param.yaml"))


def test_results_show_baselines_once_for_runs_on_the_same_examples(tmp_path):
    root = make_project(tmp_path / "p")
    params = load_params(root / "params.yaml")
    assert results_tables(params, {"m1", "m2"}, root) == []
    for run, seed, value in (("m1", 13, 0.25), ("m2", 2, 0.5)):
        write_json(root / f"artifacts/runs/{run}/{seed}/metrics.json", {
            "run": {"bleu_1": value}, "baselines": {"copy": {"bleu_1": 0.75}, "nearest": {"bleu_1": 0.125}},
            "counts": {"examples": 12}})
    assert results_tables(params, set(), root) == []
    table, = results_tables(params, {"m1", "m2"}, root)
    columns = {column.header: list(column.cells) for column in table.columns}
    assert columns["run"] == ["d: baseline copy", "d: baseline nearest", "m1", "m2"]
    assert columns["B-1"] == ["0.750", "0.125", "0.250", "0.500"] and columns["items"] == ["12"] * 4
    assert columns["Greed"] == ["-"] * 4


def test_results_have_a_table_per_track(tmp_path):
    models = {"hcl": {"a": {"dataset": "d"}}, "pgkpr": {"b": {"dataset": "d"}, "c": {"dataset": "d"}}}
    params = parse_params({"recipe": "r", "datasets": {"d": {"source": "x"}}, **OF_PAIRS, "models": models,
                           "runs": {track: {name: {"model": name} for name in names}
                                    for track, names in models.items()}}, "params")
    for name, key in (("a", "bleu_1"), ("b", "released_bleu_1")):
        write_json(tmp_path / f"artifacts/runs/{name}/13/metrics.json", {
            "run": {key: 0.5, "source_bleu": 0.25}, "baselines": {"copy": {key: 0.75}}, "counts": {"examples": 12}})
    first, second = results_tables(params, {"a", "b", "c"}, tmp_path)
    cells = [{column.header: list(column.cells) for column in table.columns} for table in (first, second)]
    assert [found["run"] for found in cells] == [["d: baseline copy", "a"], ["d: baseline copy", "b"]]
    assert [found["B-1"] for found in cells] == [["0.750", "0.500"]] * 2
    assert cells[1]["R-L"] == ["-", "-"] and cells[1]["src-B"] == ["-", "0.250"]
    # no wider than a log
    assert all(Console(width=200).measure(table).maximum <= 80 for table in (first, second))


def test_command_line_and_models_import_light():
    program = """
import sys
import pipeline.cli
heavy = {"torch", "prefect", "dvc", "pandas", "pyarrow", "spacy", "pydantic"} & set(sys.modules)
assert not heavy, heavy
import models.common.losses, models.hcl.monitors, models.common.training
heavy = {"pandas", "pyarrow", "spacy", "prefect", "dvc", "stages.params"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_report_is_named_and_opened_on_request_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) is None)
    error = CliRunner().invoke(app, ["report", "--open"]).exception
    assert isinstance(error, InputError) and "Make it with `keycontrast run`" in str(error) and opened == []
    REPORT_PAGE.parent.mkdir(parents=True)
    REPORT_PAGE.write_text("<p>here</p>")
    shown = CliRunner().invoke(app, ["report"])
    assert (shown.exit_code, shown.output, opened) == (0, f"Report: {REPORT_PAGE}\n", [])
    assert CliRunner().invoke(app, ["report", "--open"]).exit_code == 0
    assert opened == [(tmp_path / REPORT_PAGE).as_uri()]


def test_seconds_of_the_last_runs_are_added_up_and_a_stage_without_a_record_leaves_no_estimate(tmp_path):
    assert [duration(seconds) for seconds in (8.24, 185.4, 7440)] == ["8.2 s", "3 min 05 s", "2 h 04 min"]
    for name, seconds in (("ingest@d", 1.5), ("train_hcl@m", 62.0), ("report@all", 4.5)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"seconds": seconds}))
    (tmp_path / "ingest@cut.json").write_text('{"seconds": 1')
    assert estimate_in_words(["ingest@d", "train_hcl@m", "report"], tmp_path).startswith(
        "The last runs of these 3 stages took 1 min 08 s")
    for stage in ("ingest@e", "compare", "ingest@cut"):
        assert estimate_in_words(["ingest@d", stage], tmp_path) == (
            "No estimate yet: 1 of 2 stages have no record of a run here.")
