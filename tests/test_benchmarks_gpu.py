"""The benchmark of a GPU, on a CPU at sizes that measure nothing: every part runs, faults are told and lose nothing,
and what is apart is seen."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu import agreement, command, parts, runner
from benchmarks.gpu.command import main
from benchmarks.gpu.runner import Ended, Part, Runner, as_json, parts_of, plan
from benchmarks.gpu.sizes import TRACKS, Job
from benchmarks.gpu.subjects import subject_of
from benchmarks.gpu.table import NO_GPU, report

TINY = Job("hcl", "fp32", "cpu", "tiny", seconds=1.0, steps=4)
ABOUT = {"machine": {"device": "H", "cuda": "13.0", "cores": 4, "python": "3.12", "torch": "2.11", "devices": 1,
                     "device GiB": 100}, "minutes": 8.5, "encoder": None, "sizes": "such", "precisions": ""}


@pytest.mark.parametrize("track", TRACKS)
def test_losses_gradients_and_outputs_are_compared_with_the_cpu(track, monkeypatch):
    job = replace(TINY, track=track)
    found = parts.agreement(job)
    assert "problem" not in found and found["gradient apart"] == 0 and found["equal outputs"] == found["items"]
    kind = type(subject_of(job))
    whole, built = kind.model, []

    def model(self, dropout=True):
        made = whole(self, dropout)
        built.append(made)
        if len(built) == 1:     # as if the device computed something else
            with torch.no_grad():
                for parameter in made.parameters():
                    parameter.mul_(1.5)
        return made

    monkeypatch.setattr(kind, "model", model)
    found = parts.agreement(job)
    assert "loss apart" in found["problem"] and "gradient apart" in found["problem"]


def test_a_tie_is_told_from_a_difference():
    logits = torch.tensor([[0.0, 3.0, 2.0], [0.0, 1.0, 1.0]])
    steps = SimpleNamespace(step=lambda tokens: tokens, logits=lambda states: logits.clone().unsqueeze(1))
    mine, other = torch.tensor([[1, 1], [1, 1]]), torch.tensor([[1, 2], [2, 0]])
    assert sorted(agreement.first_margins(steps, torch.zeros(2, dtype=torch.int64), mine, other)) == [0.0, 1.0]
    assert agreement.first_margins(steps, torch.zeros(2, dtype=torch.int64), mine, mine) == []


@pytest.mark.whole
def test_one_command_trains_kills_and_goes_on_and_writes_what_it_knows(tmp_path, capsys):
    out = tmp_path / "gpu.json"
    given = ["--device", "cpu", "--sizes", "tiny", "--precisions", "fp32", "--out", str(out), "--only", "training",
             "resume"]
    # An encoder that cannot be read: the parts of two tracks fail, and the third is measured all the same.
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text("{}")
    assert main([*given, "--encoder", str(tmp_path / "encoder")]) == 1
    shown = capsys.readouterr()
    assert NO_GPU in shown.err and NO_GPU in shown.out
    found = {(part.kind, part.track): part for part in parts_of(json.loads(out.read_text()))}
    assert {name: part.state for name, part in found.items()} == {
        ("training", "hcl"): "failed", ("training", "pgkpr"): "done", ("training", "clld"): "failed",
        ("resume", "hcl"): "left out", ("resume", "pgkpr"): "done", ("resume", "clld"): "left out"}
    resumed = found["resume", "pgkpr"].figures
    assert resumed["equal bytes"] and 0 < resumed["resumed at"] <= resumed["killed at"] < resumed["steps"]
    assert "its process ended with status 1" in found["training", "hcl"].problem
    assert "**failed**" in out.with_suffix(".md").read_text()
    assert main(["--read", str(out), "--write"]) == 1
    assert "these results are of no GPU; nothing is written" in capsys.readouterr().err


def runner_of(kinds, ended, seconds=60.0):
    """A runner whose processes end as ``ended`` says, given kind and job."""
    made = Runner(plan(kinds, ["clld"], ["fp32"]), TINY, seconds / 60, lambda parts: None, lambda line: None)
    made._child = lambda kind, job, share: ended(kind, job)
    made.run()
    return {part.kind: part for part in made.parts}


def test_a_resumed_training_that_differs_or_begins_anew_is_wrong():
    def training(digest, at):
        def ended(kind, job):
            if "kill_at" in job.more:
                return Ended(-9, None, "")
            again = bool(job.more)
            return Ended(0, {"digest": digest if again else "a", "steps": 10, "resumed at": at if again else 0,
                             "checkpoints": 1, "checkpoint MiB": 1.0, "seconds per checkpoint": 1.0}, "")
        return runner_of(["training", "resume"], ended)["resume"]

    assert training("a", 6).state == "done"
    assert (training("b", 6).state, training("b", 6).problem[:7]) == ("wrong", "weights")
    assert training("a", 0).state == "wrong" and "went on from step 0" in training("a", 0).problem
    never_killed = runner_of(["training", "resume"], lambda kind, job: Ended(0, {"steps": 10, "digest": "a"}, ""))
    assert never_killed["resume"].state == "failed"


def test_what_there_is_no_time_for_is_told():
    assert runner_of(["training"], lambda kind, job: Ended(0, {}, ""), seconds=0)["training"].state == "left out"
    one = runner_of(["training"], lambda kind, job: Ended(None, None, "step 3 of 9"))["training"]
    assert one.state == "failed" and "far longer than its share" in one.problem and "step 3 of 9" in one.problem


@pytest.mark.whole
def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(runner, "_GRACE_SECONDS", 0.0)
    made = Runner([], TINY, 1.0, lambda parts: None, lambda line: None)
    assert made._child("training", TINY, 0.0) == Ended(None, None, "")


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command, "_sees_gpu", lambda: False)
    assert main([]) == 1
    assert "torch sees no CUDA device here. Give --device cpu" in capsys.readouterr().err
    for given, message in ((["--minutes", "0"], "--minutes must be more than 0"), (["--read", "x"], "x is no file"),
                           (["--encoder", "x"], "x holds no config.json"),
                           (["--device", "cpu", "--write"], "holds figures of a GPU at full size")):
        assert main(given) == 1
        assert message in capsys.readouterr().err


def test_figures_of_a_gpu_go_into_the_document(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    training = {"steps": 300, "batch": 128, "micro-batch": 64, "seconds_per_step_median": 0.05,
                "items_per_second": 2500.0, "losses": [2.0, 1.5], "peak MiB of the device": 9000.0}
    known = [Part("training", "hcl", "bf16", "done", "", 30.0, training),
             Part("resume", "hcl", "bf16", "failed", "out of memory", 1.0)]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/performance.md").write_text("# P\n\n## graph\n\nold\n")
    (tmp_path / "gpu.json").write_text(as_json(known, ABOUT))
    assert main(["--read", "gpu.json", "--write"]) == 1     # a part failed
    page = (tmp_path / "docs/performance.md").read_text()
    assert page.index("## graph\n\nold") < page.index("## gpu") and NO_GPU not in page
    assert "| hcl | bf16 | 300 | 128 (64) | 50.0 ms | 2,500 | 9,000 MiB |" in page
    assert "**failed**: out of memory" in page


def test_every_kind_has_its_work_and_its_table():
    assert set(runner.KINDS) - {"resume"} == set(parts.WORK)
    lines = "\n".join(report({**ABOUT, "machine": {**ABOUT["machine"], "devices": 0}}, plan()))
    assert all(f"### {kind.capitalize()}" in lines for kind in runner.KINDS) and NO_GPU in lines
