"""Packs: a project's artifacts, run in a folder of their own without most packages, and read at home again."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from contextlib import chdir, suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

import pandas as pd
import pytest
import tiny_bert
import tiny_items
import tiny_rewriters
import tiny_training
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console
from transformers import BertModel

from pipeline import pack as packing
from pipeline.pack import FOLDER, pack, show_pack
from pipeline.packed.run import Job, Refused, Runner, differences, jobs_of, rows_digest, settle_overrides
from pipeline.schemas import SCHEMAS
from pipeline.unpack import show_unpacked, unpack
from stages.common import settings
from stages.common.fingerprint import sha256_of
from stages.common.parts import Layout
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.settings import Params, on_this_machine, read_params, stage_params
from stages.common.tables import Provenance, read_frame, read_metadata, read_table, write_table
from stages.common.writing import table_writer
from stages.graph import node_vectors
from stages.params import load_params, parse_params, stage_hash
from stages.run.errors import InputError
from stages.run.versions import FLOORS, wanting
from stages.tracks.hcl import generate as generate_hcl
from stages.tracks.hcl import train as train_hcl
from stages.tracks.pgkpr import evaluate as evaluate_pgkpr
from stages.tracks.pgkpr import generate as generate_pgkpr
from stages.tracks.pgkpr import train as train_pgkpr
from stages.tracks.registry import TRACKS

# All that a GPU machine may have; what these need counts too.
PRESENT = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pandas", "pyarrow", "tqdm")


def needed(names):
    """Names of the distributions ``names`` and of those that they require, extras aside."""
    seen, pending = set(), [canonicalize_name(name) for name in names]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        with suppress(PackageNotFoundError):    # CUDA's libraries, beside a torch for the CPU
            asked = [Requirement(text) for text in requires(name) or ()]
            pending += [canonicalize_name(one.name) for one in asked
                        if one.marker is None or one.marker.evaluate({"extra": ""})]
    return seen


ALONE = needed(PRESENT) - {"pydantic"}  # of some versions of the hub's client, and not where params are plain
IMPORTABLE = sorted(name for name, owners in packages_distributions().items()
                    if ALONE & {canonicalize_name(owner) for owner in owners})
# Finds those, the standard library, and what lies in the folder of the pack; nothing else.
HOOK = f"""
import sys
from pathlib import Path

ALLOWED = {{*{IMPORTABLE!r}, *sys.stdlib_module_names}}
HERE = str(Path.cwd())

class Alone:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        spec = self.finder.find_spec(name, path, target)
        if spec is None or name.partition(".")[0] in ALLOWED or name.startswith("_sysconfigdata"):
            return spec
        places = [spec.origin or "", *(spec.submodule_search_locations or ())]
        return spec if any(str(place).startswith(HERE) for place in places) else None

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Alone(finder) for finder in sys.meta_path]
"""


def params(**changes):
    training = {"epochs": 2, "batch_size": 4, "micro_batch": 4, "max_source": 12, "max_target": 8, "keep": "first",
                "learning_rate": 0.01}
    return {"recipe": "sample", "encoder": {"source": "path:encoder"},
            "runtime": {"device": "cpu", "checkpoint_minutes": 0},
            "datasets": {"tiny": {"source": "triples.jsonl", "layout": "triples",
                                  "columns": {"negative": "negative"}}},
            "node_vectors": {"batch_size": 8},
            "train_hcl": {"latent": {"size": 6}, "decoder": {"layers": 1}, "training": training},
            "generate_hcl": {"num_beams": 2, "min_length": 2, "max_length": 6, "samples": 1},
            "models": {"hcl": {"hcl": {"dataset": "tiny"},
                               "later": {"dataset": "tiny", "init_from": "hcl", "seeds": [5]},
                               "small": {"dataset": "tiny", "overrides": {"architecture": "t5", "t5": {
                                   "layers": 1, "heads": 2, "width": 16, "feed_forward": 32}}}}},
            "runs": {"hcl": {"first": {"model": "hcl"}, "later": {"model": "later", "decode": {"num_beams": 1}},
                             "small": {"model": "small"}}},
            **changes}


def write_params(**changes):
    filled = parse_params(params(**changes), "params").model_dump(mode="json")
    Path("params.yaml").write_text(yaml.safe_dump(filled))


def write_tables():
    """Write what the data stages would have written, under the params in force."""
    tables, now = tiny_items.tables(), load_params()
    nodes = tables["nodes"]
    degrees = dict.fromkeys(("cluster_size", "in_positive", "in_negative", "out_positive", "out_negative", "component",
                             "community"), 0)
    rows = {"examples": tables["examples"].assign(further_negative_ids=[[]] * 10, group=range(10),
                                                  negative_origin=None),
            "texts": tables["texts"], "keywords": tables["keywords"].assign(method="textrank", score=1.0),
            "nodes": nodes.assign(**degrees, centrality=0.1), "clusters": tiny_training.clusters(),
            "edges": pd.DataFrame({"target": [0, 1, 2, 3], "source": [1, 2, 3, 0], "sign": [1, -1, -1, 1], "count": 1})}
    for kind, stage in TRACKS["hcl"].tables.items():
        write_table(DatasetPaths("tiny").table(kind), SCHEMAS[kind], rows[kind],
                    Provenance(f"{stage}@tiny", stage_hash(now, stage, "tiny")))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A project whose data stages are done, with an encoder that half precision can hold."""
    folder = tmp_path_factory.mktemp("prepared")
    tiny_bert.save_encoder(folder / "encoder")
    BertModel.from_pretrained(folder / "encoder").half().float().save_pretrained(folder / "encoder")
    with chdir(folder):
        write_params()
        write_tables()
    return folder


@pytest.fixture
def project(prepared, tmp_path, monkeypatch):
    """A copy of the prepared project, as the working folder."""
    shutil.copytree(prepared, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def alone(folder, *arguments):
    """Run Python in ``folder`` as a machine would that has nothing but what a pack needs."""
    hook = folder.parent / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    return subprocess.run([sys.executable, *arguments], cwd=folder, text=True, capture_output=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(hook), "OMP_NUM_THREADS": "1"}, timeout=300)


def run_packed(folder, out, *options):
    """Run a pack there."""
    return alone(folder, "run_packed.py", "--out", str(out), *options)


@pytest.fixture(scope="module")
def done(prepared, tmp_path_factory):
    """Results of HCL and of a baseline: the first attempt ran out of time at once, the second went on."""
    folder = tmp_path_factory.mktemp("machine")
    with chdir(prepared):
        made = pack(folder / "pack.tar.gz", ["hcl", "small"])
    with tarfile.open(folder / "pack.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    first = run_packed(folder / FOLDER, folder / "out", "--time-limit", "0.0001")
    assert first.returncode == 1, first.stderr
    with tarfile.open(folder / "out/results.tar.gz") as archive:
        states = json.load(archive.extractfile("results/results.json"))["jobs"]
    assert {job["state"] for job in states.values()} == {"stopped", "waiting"}
    second = run_packed(folder / FOLDER, folder / "out")
    assert second.returncode == 0, second.stdout + second.stderr
    assert [path.name for path in (folder / "out").iterdir()] == ["results.tar.gz"]
    return {"file": folder / "out/results.tar.gz", "pack": made, "said": second.stdout, "folder": folder / FOLDER}


@pytest.mark.whole
def test_nothing_but_what_a_pack_needs_can_be_imported(done):
    for name, found in (("torch", True), ("stages.metrics", True), ("spacy", False), ("pydantic", False),
                        ("pipeline", False), ("accelerate", False)):
        assert (alone(done["folder"], "-c", f"import {name}").returncode == 0) == found, name


@pytest.mark.whole
def test_a_pack_says_at_once_what_is_missing_or_too_old(done, tmp_path):
    shutil.copytree(done["folder"], tmp_path / "pack")
    floors = tmp_path / "pack/stages/run/versions.py"
    floors.write_text(floors.read_text().replace('"numpy": "2.0"', '"numpy": "99.0", "zyzzyva": "1"'))
    for options in ((), ("--old-versions",), ("--check",)):
        ran = alone(tmp_path / "pack", "run_packed.py", "--out", "out", *options)
        assert ran.returncode == 2 and not (tmp_path / "pack/out").exists()
        assert (f"numpy {version('numpy')} is older than 99.0, zyzzyva is missing. "
                "pip install 'numpy>=99.0' 'zyzzyva>=1'") in ran.stderr
    floors.write_text(floors.read_text().replace(', "zyzzyva": "1"', ""))
    tolerant = alone(tmp_path / "pack", "run_packed.py", "--out", "out", "--old-versions", "--models", "no")
    assert "Going on, although numpy" in tolerant.stdout and "the pack has no model 'no'" in tolerant.stderr


def test_floors_are_those_of_the_project():
    asked = {one.name: one for one in map(Requirement, tomllib.loads(
        (Path(packing.__file__).parent.parent / "pyproject.toml").read_text())["project"]["dependencies"])}
    assert {name: str(asked[name].specifier) for name in FLOORS if name != "tqdm"} == {
        name: f">={floor}" for name, floor in FLOORS.items() if name != "tqdm"}
    assert set(FLOORS) == set(PRESENT)


@pytest.mark.parametrize(("there", "floor", "enough"), [
    ("2.13.0+cpu", "2.11", True), ("2.9.1", "2.11", False), ("2.11.0rc1", "2.11", True), ("5.17", "5.17.0", False)])
def test_versions_are_compared_number_by_number(monkeypatch, there, floor, enough):
    monkeypatch.setattr("stages.run.versions.version", lambda name: there)
    assert wanting({"x": floor}) == ([] if enough else [f"x {there} is older than {floor}"])


@pytest.mark.whole
def test_a_pack_measures_the_machine_it_is_on(done, tmp_path):
    ran = alone(done["folder"], "run_packed.py", "--out", str(tmp_path), "--check")
    assert ran.returncode == 1 and "torch sees no CUDA device here" in ran.stderr
    program = ("from benchmarks.gpu.command import main; import sys; sys.exit(main(['--device', 'cpu', '--sizes', "
               "'tiny', '--precisions', 'fp32', '--tracks', 'hcl', 'pgkpr', '--only', 'agreement', 'trainer', '--out', "
               f"{str(tmp_path / 'r.json')!r}, '--encoder', 'encoder']))")
    (tmp_path / "measure.py").write_text(f"if __name__ == '__main__':\n    {program}\n")
    shutil.copy(tmp_path / "measure.py", done["folder"])
    ran = alone(done["folder"], "measure.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    states = {(part["kind"], part["track"]): part["state"] for part in json.loads((tmp_path / "r.json").read_text())[
        "parts"]}
    assert states == {("agreement", "hcl"): "done", ("agreement", "pgkpr"): "done",
                      ("trainer", "hcl"): "left out", ("trainer", "pgkpr"): "left out"}     # without accelerate


@pytest.mark.whole
def test_a_pack_brings_home_what_the_stages_make_at_home(project, done):
    shutil.copytree(project, project.parent / "home")
    found = unpack(done["file"])
    rows = {"first": "hcl", "small": "small"}
    assert (found.models, found.runs, found.unfinished) == (["hcl", "small"], dict.fromkeys(rows, "hcl"), {})
    elsewhere = {run: _outcome(run, model) for run, model in rows.items()}
    with chdir(project.parent / "home"):
        for stage, key in ((node_vectors, "tiny"), (train_hcl, "hcl"), (generate_hcl, "first"), (train_hcl, "small"),
                           (generate_hcl, "small")):
            assert stage.main([key]) == 0
        home = {run: _outcome(run, model) for run, model in rows.items()}
    for run, (tables, files) in home.items():
        for there, here in zip(elsewhere[run][0], tables, strict=True):
            pd.testing.assert_frame_equal(there, here)
        assert elsewhere[run][1] == files
    assert not ModelPaths("hcl", 13).weights.exists()


def _outcome(run, model):
    """Tables of a run and its model, and bytes of what else there is of the model."""
    paths, written = ModelPaths(model, 13), RunPaths(run, 13).predictions
    tables = [read_frame(path, SCHEMAS[kind]) for kind, path in (("predictions", written), ("items", paths.items))]
    return tables, [paths.history.read_bytes(), paths.metrics.read_bytes()]


@pytest.mark.whole
def test_tables_say_where_they_were_computed(project, done):
    unpack(done["file"])
    metadata = read_metadata(RunPaths("first", 13).predictions)
    assert metadata["stage"] == "generate_hcl@first"
    assert metadata["params_hash"] == stage_hash(load_params(), "generate_hcl", "first", 13)
    origin = metadata["computed_elsewhere"]
    assert origin["pack"] == done["pack"].digest
    assert origin["device"].startswith("cpu")
    assert origin["torch"]
    record = json.loads(Path(".keycontrast/records/train_hcl@hcl.json").read_text())
    assert record["device"] == origin["device"]
    assert record["seconds"] > 0
    items = read_metadata(ModelPaths("hcl", 13).items)
    assert items["models"]["encoder"]["stored_as"] == "float16"
    assert items["models"]["encoder"]["name"] == "encoder"


@pytest.mark.whole
def test_what_is_newer_is_kept_unless_forced(project, done):
    unpack(done["file"])
    before = RunPaths("first", 13).predictions.read_bytes()
    unpack(done["file"])    # the same results once more
    assert RunPaths("first", 13).predictions.read_bytes() == before
    RunPaths("first", 13).predictions.write_bytes(b"of a later run")
    with pytest.raises(InputError, match=r"predictions/first/13/predictions\.parquet is newer .* give --force"):
        unpack(done["file"])
    assert RunPaths("first", 13).predictions.read_bytes() == b"of a later run"
    unpack(done["file"], force=True)
    assert RunPaths("first", 13).predictions.read_bytes() == before


@pytest.mark.whole
def test_results_of_other_params_or_data_are_refused(project, done):
    write_params(generate_hcl={"num_beams": 3}, models={"hcl": {"hcl": {"dataset": "tiny", "seeds": [9]}}},
                 runs={"hcl": {"first": {"model": "hcl"}}})
    with pytest.raises(InputError) as found:
        unpack(done["file"])
    for problem in ("models.hcl.hcl: params.yaml has other params", "runs.hcl.first: params.yaml has other params"):
        assert problem in str(found.value)
    assert not RunPaths("first", 13).predictions.exists()
    write_params(models={"hcl": {"other": {"dataset": "tiny"}}}, runs={"hcl": {}})
    with pytest.raises(InputError, match=r"(?s)models\.hcl\.hcl: not in params\.yaml\n.*runs\.hcl\.first: not in"):
        unpack(done["file"])
    write_params()
    path = DatasetPaths("tiny").table("keywords")
    write_table(path, SCHEMAS["keywords"], read_frame(path).assign(score=2.0), Provenance("keywords@tiny", "0"))
    with pytest.raises(InputError, match=r"artifacts/tiny/keywords\.parquet: is another table now"):
        unpack(done["file"])


@pytest.mark.whole
def test_other_files_are_named(project, done, tmp_path):
    (tmp_path / "text").write_text("no archive")
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add("params.yaml")
    for file, message in ((tmp_path / "no", "no such file"), (tmp_path / "text", "not a readable tar archive"),
                          (tmp_path / "other.tar.gz", "it is some other archive"),
                          (done["folder"].parent / "pack.tar.gz", "it is a pack, which is to be run first")):
        with pytest.raises(InputError, match=message):
            unpack(file)


def test_a_pack_is_the_same_each_time_and_brings_what_models_start_from(project, tmp_path):
    one, two = (pack(tmp_path / name, ["later"]) for name in ("one.tar.gz", "two.tar.gz"))
    assert one == two
    assert one.models == ["hcl", "later"]
    assert one.runs == ["first", "later"]
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        names = {name.removeprefix(f"{FOLDER}/") for name in archive.getnames()}
    assert names >= {"run_packed.py", "params.yaml", "dvc.yaml", "pack.json", "encoder/half.safetensors",
                     "encoder/tokenizer.json", "artifacts/tiny/edges.parquet", "models/common/training/loop.py"}
    assert not {name for name in names if name.startswith(("pipeline", "stages/params")) or "node_vectors.p" in name
                and name.endswith("parquet")}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_pack_brings_a_table_in_parts(project, tmp_path, elsewhere):
    path, now = DatasetPaths("tiny").table("examples"), load_params()
    rows, stage = read_table(path), TRACKS["hcl"].tables["examples"]
    with table_writer(path, SCHEMAS["examples"], Provenance(f"{stage}@tiny", stage_hash(now, stage, "tiny")),
                      Layout(4, f"file://{tmp_path / 'bucket'}" if elsewhere else None)) as writer:
        writer.write(rows)
    assert path.is_dir() != elsewhere
    pack(tmp_path / "one.tar.gz", ["small"])
    if elsewhere:
        shutil.rmtree(tmp_path / "bucket")  # a machine that trains may not reach it
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        archive.extractall(tmp_path / "there", filter="data")
    brought = tmp_path / "there" / FOLDER / "artifacts" / "tiny" / "examples.parquet"
    files = {file.name for file in brought.iterdir()}
    assert len(files) == 4 and "_table.json" in files
    assert elsewhere or files > {f"part-{number:05d}.parquet" for number in range(3)}
    packed = json.loads((tmp_path / "there" / FOLDER / "pack.json").read_text())
    at_home = packed["tables"]
    assert packed["here"]["artifacts"] == {"url": None}
    assert {name: sha256_of(Path(name)) for name in at_home} == at_home     # by which `unpack` knows the data again
    assert sum("examples.parquet" in name for name in at_home) == (1 if elsewhere else 4)
    assert read_table(brought, SCHEMAS["examples"]).combine_chunks().equals(rows.combine_chunks())


def test_a_start_from_elsewhere_is_brought_along(project, tmp_path):
    (project / "given").mkdir()
    (project / "given/start.json").write_text("{}")
    models = {"given": {"dataset": "tiny", "init_from": "path:given"}, "hcl": {"dataset": "tiny"}}
    write_params(models={"hcl": models}, runs={})
    for chosen, expected in ((["given"], True), (["hcl"], False)):
        assert pack(tmp_path / "p.tar.gz", chosen).models == chosen
        with tarfile.open(tmp_path / "p.tar.gz") as archive:
            assert any(name.endswith("/given/start.json") for name in archive.getnames()) == expected


def test_params_of_a_pack_are_those_at_home_but_for_what_its_machine_has(project, tmp_path, monkeypatch):
    now, home = load_params(), read_params()
    pack(tmp_path / "pack.tar.gz", ["later"])
    with tarfile.open(tmp_path / "pack.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / FOLDER)
    monkeypatch.setitem(sys.modules, "stages.params", None)     # as a machine without pydantic has none
    packed = read_params()
    assert packed == home
    Path("machine.json").write_text(json.dumps(differences(json.loads(Path("pack.json").read_text()),
                                                           {"precision": "bf16", "processes": 1, "device": None})))
    there = stage_params(packed, "train_hcl", "later")
    assert there.model("later").plain() == {**now.model("later").plain(), "training": {
        **now.model("later").training.plain(), "precision": "bf16"}}
    assert there.model_seeds("later") == [5] and there.encoder.source == "path:encoder"
    here = there.runtime
    assert (here.precision, here.device, here.rendezvous) == ("bf16", home.runtime.device, None)
    assert settings.stage_hash(packed, "train_hcl", "later") == stage_hash(now, "train_hcl", "later")


def test_too_much_is_refused_with_what_is_large(project, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "LIMIT", 10_000)
    with pytest.raises(InputError, match=r"pack would have .* MB, and 0 MB are the most. Largest are .*/.* MB bef"):
        pack(tmp_path / "large.tar.gz")
    assert not (tmp_path / "large.tar.gz").exists()


def test_what_a_pack_lacks_is_named(project, tmp_path):
    file = tmp_path / "pack.tar.gz"
    with pytest.raises(InputError, match="no model is called 'hlc'; did you mean 'hcl'"):
        pack(file, ["hlc"])
    edges = DatasetPaths("tiny").table("edges")
    kept = edges.read_bytes()
    edges.unlink()
    with pytest.raises(InputError, match=r"edges\.parquet: no such artifact, .* keycontrast run graph@tiny"):
        pack(file)
    edges.write_bytes(kept)
    write_params(graph={"max_nbr": 3})
    with pytest.raises(InputError, match=r"nodes\.parquet: made under other params"):
        pack(file)
    write_params(encoder={"source": "scratch"})
    with pytest.raises(InputError, match=r"encoder\.source: scratch has no weights"):
        pack(file)
    write_params(models={"hcl": {}}, runs={"hcl": {}})
    with pytest.raises(InputError, match="models names no model"):
        pack(file)
    assert not file.exists()


@pytest.mark.whole
def test_a_person_is_told_what_to_do_next(project, done, tmp_path):
    with (tmp_path / "said").open("w") as stream:
        console = Console(file=stream, width=200)
        show_pack(tmp_path / "pack.tar.gz", ["hcl"], console)
        show_unpacked(done["file"], False, console)
    said = (tmp_path / "said").read_text()
    for text in ("tar xzf pack.tar.gz && python keycontrast-pack/run_packed.py --out DIR", "1 runs: first",
                 "keycontrast stage evaluate_hcl@first"):
        assert text in said
    assert "5 of 5 steps are done" in done["said"]


PACK = {"models": {"b": {"track": "hcl", "dataset": "d", "init_from": "a"},
                   "a": {"track": "hcl", "dataset": "d", "init_from": None},
                   "c": {"track": "hcl", "dataset": "e", "init_from": None},
                   "p": {"track": "pgkpr", "dataset": "f", "init_from": None}},
        "runs": {"r": {"model": "b", "stage": "generate_hcl"}, "s": {"model": "a", "stage": "generate_hcl"},
                 "q": {"model": "p", "stage": "generate_pgkpr"}}}


def test_jobs_stand_after_what_they_need():
    jobs = jobs_of(PACK, None)
    seen = set()
    for job in jobs:
        assert seen >= set(job.needs), job
        seen.add(job.name)
    assert seen == {"node_vectors@d", "node_vectors@e", "train_hcl@a", "train_hcl@b", "train_hcl@c", "generate_hcl@r",
                    "generate_hcl@s", "train_pgkpr@p", "generate_pgkpr@q"}
    assert {job.name for job in jobs_of(PACK, ["b"])} == seen - {"train_hcl@c", "node_vectors@e", "train_pgkpr@p",
                                                                 "generate_pgkpr@q"}
    assert [job.name for job in jobs_of(PACK, ["p"])] == ["train_pgkpr@p", "generate_pgkpr@q"]
    with pytest.raises(Refused, match="no model 'x'; it has a, b, c, p"):
        jobs_of(PACK, ["x"])


class Machine:
    """Starts processes that end when they have been asked for their status often enough; those of ``bad`` fail."""

    def __init__(self, patience=2):
        self.patience, self.started, self.most, self.running = patience, [], 0, 0

    def __call__(self, job):
        self.started.append(job.name)
        self.running += 1
        self.most = max(self.most, self.running)
        return self.Started(self, job.key == "bad")

    class Started:
        def __init__(self, machine, fails):
            self.machine, self.fails, self.asked, self.status = machine, fails, 0, None

        @property
        def exitcode(self):
            self.asked += 1
            if self.status is None and self.asked > self.machine.patience:
                self._end(int(self.fails))
            return self.status

        def terminate(self):
            self._end(-15)

        def join(self, timeout=None):
            pass

        def _end(self, status):
            self.status = status
            self.machine.running -= 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("logs", "done"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.packed.run._POLL_SECONDS", 0.001)
    return tmp_path


@pytest.mark.parametrize("side_by_side", [1, 3])
def test_a_failure_stops_what_needs_it_and_nothing_else(folder, capsys, side_by_side):
    jobs = [Job("one", "good", ()), Job("one", "bad", ()), Job("two", "bad", ("one@bad",)),
            Job("two", "good", ("one@good",))]
    (folder / "logs/one@bad.log").write_text("raw.jsonl, row 3: no column")
    machine = Machine()
    ended = [job.name for job in Runner(jobs, side_by_side, float("inf"), machine).steps()]
    assert {job.name: job.state for job in jobs} == {"one@good": "done", "one@bad": "failed", "two@bad": "waiting",
                                                     "two@good": "done"}
    assert ended.index("one@good") < ended.index("two@good")
    assert machine.most == min(side_by_side, 2)
    assert "one@bad failed with status 1:\nraw.jsonl, row 3: no column" in capsys.readouterr().out
    again = [Job(job.stage, job.key, job.needs) for job in jobs]
    assert [job.name for job in Runner(again, 1, float("inf"), Machine()).steps()] == ["one@bad"]


def test_what_runs_at_the_deadline_is_stopped(folder, capsys):
    jobs = [Job("one", "long", ()), Job("two", "long", ("one@long",))]
    machine = Machine(patience=10**9)
    assert list(Runner(jobs, 1, 0.0, machine).steps()) == []
    assert [job.state for job in jobs] == ["stopped", "waiting"]
    assert (machine.running, machine.started) == (0, ["one@long"])
    assert "one@long stopped before its end" in capsys.readouterr().out


def test_a_pack_meets_no_other_machine_whatever_the_params_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runtime = {"processes": 2, "rendezvous": {"endpoint": "gpu0:29400", "nodes": 2, "node": 0}}
    here = {"encoder": {}, "runtime": {"rendezvous": None}}
    Path("machine.json").write_text(json.dumps(differences({"models": {}, "here": here}, {"processes": 1})))
    assert on_this_machine(Params({"runtime": runtime}))["runtime"] == {"processes": 1, "rendezvous": None}


def test_results_under_other_options_are_not_mixed(folder):
    settle_overrides({"precision": None})
    settle_overrides({"precision": "bf16"})     # nothing is done yet
    Path("done/train_hcl@a").touch()
    settle_overrides({"precision": "bf16"})
    with pytest.raises(Refused, match="results under other options"):
        settle_overrides({"precision": "fp32"})


def test_the_digest_of_items_is_that_of_their_rows(tmp_path):
    rows = pd.DataFrame({"text_id": [1, 2], "text": ["a", "b"], "language": "en"})
    files = [tmp_path / name for name in ("one", "two", "other")]
    for file, content, stage in zip(files, (rows, rows, rows.assign(text="c")), ("x", "y", "x"), strict=True):
        write_table(file, SCHEMAS["texts"], content, Provenance(stage, "0"))
    one, two, other = map(rows_digest, files)
    assert one == two != other


# -- the PGKPR track ------------------------------------------------------------------------------------------

REWRITERS = {"pgkpr": {"dataset": tiny_rewriters.DATASET},
             "plain": {"dataset": tiny_rewriters.DATASET, "overrides": {"architecture": "transformer"}}}
REWRITING = {"ref": {"model": "pgkpr", "decode": {"keywords": "xy"}}, "greedy": {"model": "plain"}}


@pytest.fixture(scope="module")
def rewriters(tmp_path_factory):
    """A project of the PGKPR track whose data stages are done."""
    folder = tmp_path_factory.mktemp("rewriters")
    with chdir(folder):
        tiny_rewriters.write_project(folder, REWRITERS, runs=REWRITING)
        hashed = stage_hash(load_params(), "paraphrase_items", tiny_rewriters.DATASET)
        for kind, rows in (("paraphrase_items", tiny_rewriters.items()),
                           ("vocabulary", tiny_rewriters.vocabulary_frame())):
            write_table(DatasetPaths(tiny_rewriters.DATASET).table(kind), SCHEMAS[kind], rows,
                        Provenance("test", hashed))
    return folder


@pytest.mark.whole
def test_a_pack_of_rewriters_brings_home_what_the_stages_make_and_evaluate_needs(rewriters, tmp_path):
    machine, home = tmp_path / "machine", tmp_path / "home"
    machine.mkdir()
    shutil.copytree(rewriters, home)
    with chdir(rewriters):
        made = pack(machine / "pack.tar.gz")
    assert (made.models, made.runs) == (["pgkpr", "plain"], ["greedy", "ref"])
    assert made.sizes["encoder"] == 0
    with tarfile.open(machine / "pack.tar.gz") as archive:
        archive.extractall(machine, filter="data")
    done = run_packed(machine / FOLDER, machine / "out", "--weights")
    assert done.returncode == 0, done.stdout + done.stderr
    with chdir(rewriters):
        found = unpack(machine / "out/results.tar.gz")
        assert found.runs == {"ref": "pgkpr", "greedy": "pgkpr"} and found.unfinished == {}
        told = (tmp_path / "said").open("w")
        with told as stream:
            show_unpacked(machine / "out/results.tar.gz", False, Console(file=stream, width=200))
        assert "keycontrast stage evaluate_pgkpr@ref" in (tmp_path / "said").read_text()
        elsewhere = _made_by(ModelPaths("pgkpr", 13), RunPaths("ref", 13))
        metadata = read_metadata(RunPaths("ref", 13).predictions)
        assert metadata["stage"] == "generate_pgkpr@ref" and metadata["computed_elsewhere"]["pack"] == made.digest
        assert metadata["params_hash"] == stage_hash(load_params(), "generate_pgkpr", "ref", 13)
        assert read_metadata(ModelPaths("plain", 13).vocabulary)["stage"] == "train_pgkpr@plain"
        shutil.rmtree(ModelPaths("pgkpr", 13).weights)      # as without --weights
        text = yaml.safe_load(Path("params.yaml").read_text())
        text["evaluation"] = {"bertscore": {"encoder": None}, "emb": "train", "resamples": 0}
        Path("params.yaml").write_text(yaml.safe_dump(text))
        assert evaluate_pgkpr.main(["ref"]) == 0
    with chdir(home):
        assert train_pgkpr.main(["pgkpr"]) == 0 and generate_pgkpr.main(["ref"]) == 0
        here = _made_by(ModelPaths("pgkpr", 13), RunPaths("ref", 13))
    assert elsewhere.keys() == here.keys()
    for name, content in here.items():
        if isinstance(content, pd.DataFrame):
            pd.testing.assert_frame_equal(elsewhere[name], content)
        else:
            assert elsewhere[name] == content, name


def _made_by(model, run):
    """Tables of a model and a run, and the bytes of the model's other files."""
    tables = {path.name: read_frame(path) for path in (model.items, model.paraphrase_items, model.vocabulary,
                                                       run.predictions)}
    files = [model.history, model.metrics, *sorted(model.weights.iterdir())]
    return tables | {path.name: path.read_bytes() for path in files}


def test_what_a_pack_of_rewriters_lacks_is_named(rewriters, tmp_path):
    shutil.copytree(rewriters, tmp_path / "p")
    with chdir(tmp_path / "p"):
        DatasetPaths(tiny_rewriters.DATASET).table("vocabulary").unlink()
        with pytest.raises(InputError, match=r"vocabulary\.parquet: no such .* run paraphrase_items@tiny"):
            pack(tmp_path / "pack.tar.gz")


def test_results_of_another_version_are_refused(project, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/results.json").write_text("{}")
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "results", "results")
    with pytest.raises(InputError, match="results of another version of Keycontrast"):
        unpack(tmp_path / "old.tar.gz")
