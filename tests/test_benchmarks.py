"""Benchmarks: what is refused, keyphrase F1, and that differing answers are found.

They run at sizes that measure nothing; no test asserts a time.
"""

import signal
from importlib import import_module

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import gpu, graph, keywords
from benchmarks.__main__ import NAMES
from benchmarks.gpu import SUBJECTS, Job
from benchmarks.harness import Context, Disagreement
from benchmarks.keywords import WORDS, corpora, keyphrase_f1, stemmed_phrases
from stages.graph.params import Graph


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly if name == "flow" else pytest.mark.whole) for name in NAMES])
def test_benchmarks_run_and_agree_at_sizes_that_measure_nothing(name):
    sections = import_module(f"benchmarks.{name}").run(Context(repeats=1, quick=True))
    assert sections and all(section.agreement and section.tables[0] for section in sections)


def test_f1_is_averaged_over_documents_with_gold_phrases():
    assert stemmed_phrases(["Neural Networks", "neural-network", "!!", "training", "Trained"]) == [
        "neural network", "train"]
    gold = ["Graph Theories", "keyword", "node"]
    # One of one right, two of three, two of four: fifteen are not asked of a system that gave four.
    for best, expected in ((1, 0.5), (3, 2 / 3), (15, 4 / 7)):
        assert keyphrase_f1([["graph theory", "wrong", "keywords", "other"]], [gold], best) == pytest.approx(expected)
    assert keyphrase_f1([["a1"], ["b"], ["c"]], [["a1"], ["x"], []]) == 0.5
    with pytest.raises(ValueError, match="no document has gold phrases"):
        keyphrase_f1([["a"]], [["?"]])


def test_the_table_has_every_installed_system_on_the_sets_that_are_there(tmp_path, monkeypatch, capsys):
    def missing():
        raise ImportError("No module named 'other'")

    monkeypatch.setattr(keywords, "SYSTEMS", {"mine": lambda: lambda texts: [["a"] for _ in texts], "other": missing})
    monkeypatch.setattr(keywords, "peak_memory", lambda work, *given, resident: (work(*given), 77.0))
    assert keywords.main(["--data", str(tmp_path)]) == 1 and "holds none of inspec/test" in capsys.readouterr().err
    for name, text in (("keyphrase_nguyen2007", " a b\n" * WORDS), ("keyphrase_duc2001", "One  story.\n")):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"text": [text, "", ""], "keys": [["a"], ["b"], []]}), tmp_path / name / "all.parquet")
    first, second = corpora(tmp_path, 2)
    assert first.texts == ["One  story.", ""] and second.texts == [(" a b\n" * (WORDS // 2))[:-1], ""]
    assert keywords.main(["--data", str(tmp_path), "--limit", "2"]) == 0
    shown = capsys.readouterr()
    assert "other is left out: No module named 'other'" in shown.err
    heads, _, row = shown.out.splitlines()
    assert heads.startswith("| system | DUC-2001 (2) | Nguyen-2007 (2) |") and heads.endswith("| MiB |")
    assert row.startswith("| mine | 50.0 | 50.0 |") and row.endswith("| 77 |")


@pytest.mark.parametrize("settings", [
    Graph(), Graph(max_neighbours=2, max_cluster_outputs=3, link_inputs=False)], ids=str)
def test_both_contenders_build_the_same_graph(settings, monkeypatch):
    triples, ours = graph.zipf_triples(400, keywords=60), graph.columns_first
    assert graph._agreement(triples, settings).startswith("the same 60 nodes, ")
    monkeypatch.setattr(graph, "columns_first", lambda table, settings: ours(table.slice(200), settings))
    with pytest.raises(Disagreement, match="edges differ"):
        graph._agreement(triples, settings)


@pytest.mark.parametrize("track", SUBJECTS)
def test_losses_gradients_and_outputs_are_compared_with_the_cpu(track, monkeypatch):
    job = Job(track, "fp32", "cpu", "tiny")
    same = gpu.agreement(job)
    assert same == {"state": "done", "loss apart": "0.0e+00", "gradient apart": "0.0e+00", "equal outputs": "4 of 4"}
    kind, built = SUBJECTS[track], []
    model = kind.model

    def other(self, dropout=True):
        built.append(model(self, dropout))
        for parameter in built[0].parameters() if len(built) == 1 else ():    # as if the device computed otherwise
            parameter.data *= 1.5
        return built[-1]

    monkeypatch.setattr(kind, "model", other)
    assert gpu.agreement(job)["state"] == "**wrong**: further apart than allowed"


@pytest.mark.parametrize(("digest", "resumed", "state"), [
    ("a", 6, "done"), ("b", 6, "weights or history differ"), ("a", 0, "resumed at step 0")])
def test_a_resumed_training_that_differs_or_begins_anew_is_wrong(digest, resumed, state):
    def ran(work, job):
        if job.kill_at:
            raise gpu.PartFailed("killed", -signal.SIGKILL)
        return {"digest": digest, "resumed": resumed}

    assert state in gpu.resume(Job("clld", "fp32", "cpu"), {"steps": 10, "digest": "a"}, ran)["state"]
    with pytest.raises(gpu.PartFailed, match="it should be killed at step 7, but ended"):
        gpu.resume(Job("clld", "fp32", "cpu"), {"steps": 10, "digest": "a"}, lambda work, job: {})


@pytest.mark.whole
def test_a_training_that_is_killed_goes_on_to_equal_bytes(monkeypatch):
    job = Job("pgkpr", "fp32", "cpu", "tiny", steps=8)
    found = gpu.resume(job, gpu.in_child(gpu.training, job))
    assert found == {"steps": 8, "killed at": 6, "resumed at": 4, "equal bytes": "yes", "state": "done"}
    monkeypatch.setattr(gpu, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(gpu, "_PATIENCE", 0.0)
    with pytest.raises(gpu.PartFailed, match="took far longer than 30 s, and was ended"):
        gpu.in_child(gpu.training, job)
