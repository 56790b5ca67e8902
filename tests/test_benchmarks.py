"""The harness: turns, ratios, memory, what is printed and what is refused. That benchmarks run, at sizes that measure
nothing; no test asserts a time."""

import json
from importlib import import_module
from itertools import count

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import harness, repro
from benchmarks.__main__ import NAMES, main
from benchmarks.harness import Context, Disagreement, Row, Section, compare, peak_memory
from benchmarks.reporting import as_markdown, as_text, machine
from benchmarks.trainings import Ran, same_training

SECTION = Section("A | B", "10 texts", "10 of 10", [Row("ours", 0.5, 0.4, 0.6, 20.0, "texts", 1.0),
                                                    Row("peer", 2.0, 1.9, 2.5, 5.0, "texts", 4.0)],
                  ["A note."], [{"rows": 1000, "MiB": 12.345}])


def take(size):
    return len(bytearray(size))


def test_contenders_take_turns_and_are_set_against_the_first(monkeypatch):
    ticks = count()
    monkeypatch.setattr(harness.time, "perf_counter", lambda: float(next(ticks)) ** 2)
    turns = []
    rows = compare({"ours": lambda: turns.append("a"), "peer": lambda: turns.append("b")}, repeats=2, warmup=1,
                   items=100, unit="pairs")
    assert turns == ["a", "b"] * 3
    # The clock shows squares: runs of the counted turns last 2n + 1 with n = 4, 6, 8, 10 (two in the warm-up).
    assert [row.name for row in rows] == ["ours", "peer"]
    assert rows[0].ratio == 1 and rows[1].ratio == pytest.approx(rows[1].median / rows[0].median)
    assert rows[0].rate == pytest.approx(100 / rows[0].median) and rows[0].unit == "pairs"
    assert rows[0].minimum <= rows[0].median <= rows[0].maximum


@pytest.mark.whole
def test_peak_memory_is_that_of_the_work_alone():
    assert peak_memory(take, 64 * 2**20) == pytest.approx(64, abs=16)
    assert peak_memory(take, 1) < 16


def test_what_was_measured_is_shown_as_lines_and_as_a_document():
    text = as_text({"textrank": [SECTION]})
    assert "textrank: A | B" in text and "x 4.00" in text and "500.0 ms" in text and "rows 1,000, MiB 12.3" in text
    page = as_markdown({"textrank": [SECTION]}, machine())
    assert "| peer | 2.00 s | 1.90 s | 2.50 s | 5 texts | 4.00 |" in page
    assert "| 1,000 | 12.3 |" in page and "Same answers: 10 of 10." in page
    assert "`python -m benchmarks textrank`" in page


def test_a_document_keeps_what_was_not_measured_now():
    first = as_markdown({"textrank": [SECTION], "psi": [SECTION]}, machine(), "", ("textrank", "psi"))
    other = Section("C", "8 pairs", "equal", [Row("ours", 1.0, 1.0, 1.0, None, "", 1.0)])
    second = as_markdown({"psi": [other]}, machine() | {"processor": "another"}, first, ("psi", "textrank"))
    kept, made = second.index("## textrank"), second.index("## psi")
    assert made < kept and second.count("# Performance") == 1
    assert second[kept:].strip() == first[first.index("## textrank"):first.index("## psi")].strip()
    assert "### C" in second and "another" in second[made:kept] and "another" not in second[kept:]
    assert "## psi" not in as_markdown({}, machine(), second, ("textrank",))


def test_machine_says_what_decides_times():
    where = machine()
    assert where["cores"] >= 1 and where["memory_gib"] > 0 and "torch" in where["versions"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["textrnk"], "no benchmark is called 'textrnk'; did you mean 'textrank'"),
    (["--repeats", "0"], "--repeats: 0 is less than 1"),
    (["--quick", "--write"], "--write: the document holds what is measured at full size")])
def test_wrong_arguments_are_named(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.whole
def test_json_holds_machine_and_rows(capsys):
    assert main(["textrank", "--quick", "--repeats", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["machine"]["cores"] >= 1
    assert printed["benchmarks"]["textrank"][0]["rows"][0]["ratio"] == 1.0


def test_one_that_disagrees_is_named_and_the_others_are_shown(monkeypatch, capsys):
    def measured(name, context):
        if name == "textrank":
            raise Disagreement("0.5 apart")
        return [SECTION]

    monkeypatch.setattr(command, "run_apart", measured)
    assert main(["textrank", "graph"]) == 1
    shown = capsys.readouterr()
    assert "textrank: 0.5 apart" in shown.err and "graph: A | B" in shown.out


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly if name == "repro" else pytest.mark.whole)
    for name in NAMES if name != "pgkpr_parity"])
def test_benchmarks_run_and_agree_at_sizes_that_measure_nothing(name):
    sections = import_module(f"benchmarks.{name}").run(Context(repeats=1, quick=True))
    assert sections and all(section.agreement and section.workload for section in sections)
    assert all(row.median > 0 for section in sections for row in section.rows)


@pytest.mark.parametrize("program", ["keyphrases", "keyword_peers", "scale", "__main__", "gpu.command"])
def test_every_program_starts(program, capsys):
    with pytest.raises(SystemExit) as ended:
        import_module(f"benchmarks.{program}").main(["--help"])
    assert ended.value.code == 0 and "usage: " in capsys.readouterr().out


@pytest.mark.parametrize(("loss", "weight", "said"), [
    (2.5, 1.0, "losses differ by up to 0.5 and the weights after 1 steps by up to 0"),
    (2.0, 1.25, "losses differ by up to 0 and the weights after 1 steps by up to 0.25")])
def test_the_benchmark_times_nothing_that_trains_another_model(loss, weight, said):
    def ran(loss, weight):
        return Ran(losses=[torch.tensor(loss)], weights={"w": torch.tensor([weight])})

    with pytest.raises(Disagreement, match=said):
        same_training("tiny", ran(2.0, 1.0), ran(loss, weight))
    assert "by at most 0" in same_training("tiny", ran(2.0, 1.0), ran(2.0, 1.0))


def test_artifacts_that_differ_are_named(tmp_path):
    plan = repro._Plan([], ["artifacts/a", "artifacts/b.parquet", "artifacts/log.txt"])
    projects = {name: tmp_path / name for name in ("run", "repro", "hand")}
    for project in projects.values():
        (project / "artifacts" / "a").mkdir(parents=True)
        (project / "artifacts" / "a" / "1.parquet").write_bytes(b"1")
        (project / "artifacts" / "b.parquet").write_bytes(b"2")
        (project / "artifacts" / "log.txt").write_text(project.name)     # no table: it may differ
        (project / "dvc.lock").write_text("stages: {}")
    assert repro._same_tables(projects, plan) == 2
    (projects["hand"] / "artifacts" / "a" / "1.parquet").write_bytes(b"3")
    with pytest.raises(Disagreement, match="hand gives other artifacts: artifacts/a/1.parquet"):
        repro._same_tables(projects, plan)
    with pytest.raises(Disagreement, match="no Parquet file among artifacts/log.txt"):
        repro._same_tables(projects, repro._Plan([], ["artifacts/log.txt"]))
