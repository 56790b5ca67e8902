"""Rows of a recipe in pieces of limited time: order, the end of the time, failures, and what is finished."""

import sys

import pytest
import tiny_training

from keycontrast.errors import InputError
from stages.common.settings import read_params
from stages.tracks.common.frame import FINISHED
from tools import run_rows

# Stands for `python -m pipeline`: notes its target, then fails, takes long, or goes through.
PROGRAM = """
import pathlib, sys, time
target = sys.argv[2]
with open("targets.txt", "a") as file:
    file.write(target + "\\n")
if target.endswith("@bad"):
    sys.exit(7)
try:
    time.sleep(30 if target.endswith("@long") else 0)
except KeyboardInterrupt:
    pathlib.Path("interrupted.txt").write_text(target)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, str(tmp_path / "program.py")]


def rows(*names):
    return [run_rows.Row(name, "evaluate_hcl", [13, 14]) for name in names]


def test_rows_run_one_after_another(program, tmp_path, capfd):
    assert run_rows.run_piece(rows("a", "b"), 1.0, program) == run_rows.DONE
    assert (tmp_path / "targets.txt").read_text().split() == ["evaluate_hcl@a", "evaluate_hcl@b"]
    assert "a: up to date, seeds 13, 14" in capfd.readouterr().out


def test_the_end_of_the_time_interrupts_the_row_and_begins_no_other(program, tmp_path, capfd):
    assert run_rows.run_piece(rows("long", "b"), 6 / 60, program) == run_rows.TIME_OVER
    assert (tmp_path / "targets.txt").read_text().split() == ["evaluate_hcl@long"]
    assert (tmp_path / "interrupted.txt").read_text() == "evaluate_hcl@long"
    assert "Give the same command again" in capfd.readouterr().out
    assert run_rows.run_piece(rows("b"), 0.0, program) == run_rows.TIME_OVER


def test_a_row_that_fails_ends_the_piece(program, tmp_path, capfd):
    assert run_rows.run_piece(rows("bad", "b"), 1.0, program) == run_rows.FAILED
    assert (tmp_path / "targets.txt").read_text().split() == ["evaluate_hcl@bad"]
    assert "ended with status 7" in capfd.readouterr().out


def test_rows_come_from_the_params_and_say_what_is_finished(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_training.write_params(tmp_path, {"m": {"dataset": "tiny", "seeds": [13, 14]}})
    with (tmp_path / "params.yaml").open("a") as file:
        file.write("runs: {hcl: {m: {model: m}}}\n")
    (found,) = run_rows.rows_of(read_params(), [])
    assert (found.name, found.stage, found.seeds, found.finished) == ("m", "evaluate_hcl", [13, 14], [])
    place = FINISHED / "evaluate_hcl" / "m" / "14"
    place.mkdir(parents=True)
    (place / "finished.json").touch()
    assert run_rows.main(["--list"]) == 0 and "m: 1 of 2 seeds finished" in capsys.readouterr().out
    with pytest.raises(InputError, match="'n' is no run"):
        run_rows.rows_of(read_params(), ["n"])
    assert run_rows.main(["n"]) == 1 and "'n' is no run" in capsys.readouterr().err
