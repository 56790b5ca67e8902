"""Seeds of a row: what the params say of them, and that each is trained as if it were alone."""

import re
import shutil
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
import tiny_classes
import tiny_rewriters
import tiny_training
import yaml
from memory_store import Killed

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.paths import MODELS, PREDICTED, RUNS, DatasetPaths, ModelPaths
from stages.common.settings import module_of, stage_hash
from stages.common.tables import Provenance, read_frame, write_table
from stages.params import parse_params
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.common.frame import FINISHED, forget, forget_others
from stages.tracks.registry import forget_seeds

PROJECTS = {
    "hcl": (tiny_training.write_project, {"m": {"dataset": "tiny"}}),
    "pgkpr": (tiny_rewriters.write_project, {"m": {"dataset": "tiny", "overrides": {"architecture": "latent_bow"}}}),
    "clld": (tiny_classes.write_project, {"m": {"contrast": "adaptive"}})}


@pytest.fixture(autouse=True)
def told(monkeypatch):
    monkeypatch.setenv("KEYCONTRAST_LOG", "INFO")


def params_of(models, **more):
    named = {block: {"datasets": ["d"]} for block in ("keywords", "graph", "node_vectors")}
    return parse_params({"recipe": "r", "datasets": {"d": {"source": "x"}}, **named, "models": {"hcl": models}, **more},
                        "here")


def run_stage(stage, key):
    with redirect_stderr(StringIO()) as said:
        status = import_module(module_of(stage)).main([key])
    assert status == 0, said.getvalue()
    return said.getvalue()


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def with_seeds(track, folder, seeds):
    write, models = PROJECTS[track]
    write(folder, {name: {**model, "seeds": seeds} for name, model in models.items()})


def test_an_earlier_model_gives_the_same_seed_or_its_first():
    models = {"start": {"dataset": "d", "seeds": [13, 14]},
              "m": {"dataset": "d", "init": "artifacts/models/start", "seeds": [15, 14]}}
    plain = params_of(models).plain()["models"]["hcl"]
    assert plain["m"]["earlier_seeds"] == [13, 14] and "earlier_seeds" not in plain["start"]


@pytest.mark.parametrize(("row", "message"), [
    ({"earlier_seeds": [14]}, "m.earlier_seeds: unknown name"),
    ({"seeds": []}, "m.seeds: List should have at least 1 item"), ({"seeds": [3, 3]}, "3 is there twice"),
    ({"seed": 14}, "models.hcl.m.seed: unknown name; did you mean 'seeds'?"), ({"seeds": 13}, "models.hcl.m.seeds: "),
    ({"seeds": [-1]}, "models.hcl.m.seeds.0")])
def test_seeds_that_cannot_be_are_named(row, message):
    with pytest.raises(InputError, match=message):
        params_of({"m": {"dataset": "d", **row}})


def test_the_hash_of_a_seed_does_not_see_the_others():
    alone, several = (params_of({"m": {"dataset": "d", "seeds": seeds}}, runs={"hcl": {"r": {"model": "m"}}}).plain()
                      for seeds in ([14], [13, 14]))
    for stage, key in (("train_hcl", "m"), ("generate_hcl", "r"), ("evaluate_hcl", "r")):
        assert stage_hash(alone, stage, key, 14) == stage_hash(several, stage, key, 14), stage
        assert stage_hash(alone, stage, key) != stage_hash(several, stage, key), stage
    assert stage_hash(several, "train_hcl", "m", 13) != stage_hash(several, "train_hcl", "m", 14)


def test_what_is_to_be_worked_on_again_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = params_of({"m": {"dataset": "d", "seeds": [13, 14]}}, runs={"hcl": {"m": {"model": "m"}}})

    def left():
        return sorted("/".join(place.parts[-3:]) for place in FINISHED.glob("*/*/*"))

    for place in ("train_hcl/m/13", "train_hcl/m/14", "evaluate_hcl/m/14"):
        (FINISHED / place).mkdir(parents=True)
    for names, message in ((["train_hcl@m", "train_hcl@x"], "train_hcl@x works on no seed"),
                           (["ingest@d"], "ingest@d works on no seed")):
        with pytest.raises(InputError, match=message):
            forget_seeds(params, names, 14)
    with pytest.raises(InputError, match="train_hcl@m has the seeds 13, 14"):
        forget_seeds(params, ["train_hcl@m"], 15)
    assert len(left()) == 3
    forget_seeds(params, ["train_hcl@m"], 14)
    assert left() == ["evaluate_hcl/m/14", "train_hcl/m/13"]
    forget_seeds(params, ["ingest@d", "train_hcl@m"])
    assert left() == ["evaluate_hcl/m/14"]


@pytest.mark.parametrize("track", PROJECTS)
def test_a_seed_after_another_has_the_bytes_that_it_has_alone(tmp_path, monkeypatch, track):
    found = {}
    for seeds in ([13, 14], [14]):
        folder = tmp_path / str(len(seeds))
        folder.mkdir()
        monkeypatch.chdir(folder)
        with_seeds(track, folder, seeds)
        run_stage(f"train_{track}", "m")
        found[len(seeds)] = files_of(ModelPaths("m", 14).folder)
    assert found[1] == found[2] and Path("model/model.safetensors") in found[1]
    assert {path.name for path in (tmp_path / "2" / MODELS / "m").iterdir()} == {"13", "14"}


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A row with the seeds 13 and 14, trained, and its outs gone, as DVC leaves it before the stage runs again."""
    monkeypatch.chdir(tmp_path)
    with_seeds("hcl", tmp_path, [13, 14])
    assert "finished before" not in run_stage("train_hcl", "m")
    files = files_of(MODELS)
    shutil.rmtree(MODELS)
    return tmp_path, files


def taken(said):
    return [int(seed) for seed in re.findall(r"seed (\d+) was finished before", said)]


def test_another_seed_trains_itself_alone(trained):
    folder, files = trained
    tiny_training.write_params(folder, {"m": {"dataset": "tiny", "seeds": [15, 14, 13]}})
    assert taken(run_stage("train_hcl", "m")) == [14, 13]
    now = files_of(MODELS)
    assert {name: now[name] for name in files} == files and len(now) == 3 * len(files) / 2
    links = {path.stat().st_nlink for path in (MODELS / "m").rglob("*") if path.is_file()}
    assert links == {2}     # no second copy on the disk


def test_other_settings_or_changed_files_are_not_taken(trained):
    folder, _ = trained
    kept = next(path for path in (FINISHED / "train_hcl" / "m" / "14").rglob("items.parquet"))
    kept.unlink()
    kept.write_bytes(b"spoilt")
    assert taken(run_stage("train_hcl", "m")) == [13]
    tiny_training.write_params(folder, {"m": {"dataset": "tiny", "seeds": [13, 14]}}, learning_rate=0.02)
    assert taken(run_stage("train_hcl", "m")) == []
    assert taken(run_stage("train_hcl", "m")) == [13, 14]
    texts = DatasetPaths("tiny").table("texts")
    rows = read_frame(texts, SCHEMAS["texts"])
    rows.loc[0, "text"] += " again"
    write_table(texts, SCHEMAS["texts"], rows, Provenance("test", "0"))
    assert taken(run_stage("train_hcl", "m")) == []


@pytest.mark.whole
def test_a_kill_in_the_last_seed_costs_the_others_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_seeds("hcl", tmp_path, [13, 14, 15])
    run_stage("train_hcl", "m")
    whole = files_of(MODELS)
    for place in (MODELS, FINISHED):
        shutil.rmtree(place)
    save, saves = FolderCheckpoints.save, []

    def dying(store, *state):
        save(store, *state)
        saves.append(store.folder.parent.name)
        if saves.count("15") == 1:
            raise Killed

    monkeypatch.setattr(FolderCheckpoints, "save", dying)
    with pytest.raises(Killed), redirect_stderr(StringIO()):
        import_module(module_of("train_hcl")).main(["m"])
    before = saves.count("13")
    saves.clear()
    shutil.rmtree(MODELS)
    saves.append("15")      # so that it is not killed again
    assert taken(run_stage("train_hcl", "m")) == [13, 14]
    assert set(saves) == {"15"} and len(saves) == before    # it went on after its first checkpoint
    assert files_of(MODELS) == whole


def test_one_seed_can_be_forgotten_and_rows_that_are_gone_are(trained):
    forget("train_hcl", "m", 14)
    assert taken(run_stage("train_hcl", "m")) == [13]
    forget_others(Path(), {("train_hcl", "m", 14)})
    assert [path.name for path in (FINISHED / "train_hcl" / "m").iterdir()] == ["14"]
    forget("train_hcl", "m")
    assert not (FINISHED / "train_hcl" / "m").exists()


@pytest.mark.parametrize("track", PROJECTS)
def test_runs_take_what_is_finished_for_the_same_model(tmp_path, monkeypatch, track):
    monkeypatch.chdir(tmp_path)
    with_seeds(track, tmp_path, [13, 14])
    params = yaml.safe_load(Path("params.yaml").read_text())
    run = "m" if track == "clld" else "r"
    runs = {} if track == "clld" else {track: {"r": {"model": "m", "decode": {"num_beams": 1}}}}
    Path("params.yaml").write_text(yaml.safe_dump({
        **params, "runs": runs,
        "evaluation": {"resamples": 5, "bertscore": {"encoder": None}, "emb": "train"}}))
    stages = ["linear_baseline"] * (track == "clld") + [f"train_{track}"] + [f"generate_{track}"] * (track != "clld")
    for stage in stages:
        run_stage(stage, {"linear_baseline": "tiny", f"train_{track}": "m"}.get(stage, run))
    evaluate = f"evaluate_{track}"
    assert taken(run_stage(evaluate, run)) == []
    files = files_of(RUNS) | files_of(PREDICTED)
    shutil.rmtree(RUNS)
    assert taken(run_stage(evaluate, run)) == [13, 14] and files_of(RUNS) | files_of(PREDICTED) == files
    # Another model under one of the seeds: only that one is scored again.
    metrics = ModelPaths("m", 14).metrics
    metrics.write_bytes(metrics.read_bytes() + b" ")
    assert taken(run_stage(evaluate, run)) == [13]
