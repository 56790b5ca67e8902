"""Seeds of a row: what the params say of them, and that each is trained as if it were alone."""

import shutil
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO

import pytest
import tiny_classes
import tiny_rewriters
import tiny_training

from stages.artifacts.paths import MODELS, ModelPaths
from stages.params import parse_params, stage_hash
from stages.runtime.entries import module_of
from stages.runtime.errors import InputError

PROJECTS = {
    "hcl": (tiny_training.write_project, {"m": {"dataset": "tiny"}}),
    "pgkpr": (tiny_rewriters.write_project, {"m": {"dataset": "tiny", "overrides": {"architecture": "latent_bow"}}}),
    "clld": (tiny_classes.write_project, {"m": {"contrast": "adaptive"}})}


def params_of(models, **more):
    return parse_params({"recipe": "r", "datasets": {"d": {"source": "x"}}, "models": {"hcl": models}, **more}, "here")


def run_stage(stage, key):
    with redirect_stderr(StringIO()) as said:
        status = import_module(module_of(stage)).main([key])
    assert status == 0, said.getvalue()
    return said.getvalue()


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file()}


def with_seeds(track, folder, seeds):
    write, models = PROJECTS[track]
    write(folder, {name: {**model, "seeds": seeds} for name, model in models.items()})


# -- params -----------------------------------------------------------------------------------------------------

def test_a_row_without_seeds_has_the_projects_and_says_so():
    params = params_of({"m": {"dataset": "d"}, "n": {"dataset": "d", "seeds": [5, 4]}}, seed=7,
                       runs={"hcl": {"r": {"model": "n"}}})
    assert (params.model_seeds("m"), params.run_seeds("r")) == ([7], [5, 4])
    assert params.model_dump(mode="json")["models"]["hcl"]["m"]["seeds"] == [7]


def test_an_earlier_model_gives_the_same_seed_or_its_first():
    models = {"start": {"dataset": "d", "seeds": [13, 14]},
              "m": {"dataset": "d", "init_from": "start", "seeds": [15, 14]}}
    params = params_of(models)
    assert params.models.hcl["m"].earlier_seeds == [13, 14] and params.models.hcl["start"].earlier_seeds == []
    models["m"]["earlier_seeds"] = [14, 14]
    with pytest.raises(InputError, match=r"m.earlier_seeds: is \[14, 14\], .* ask for \[13, 14\]"):
        params_of(models)


@pytest.mark.parametrize(("row", "message"), [
    ({"seeds": []}, "m.seeds: names no seed"), ({"seeds": [3, 3]}, "3 is there twice"),
    ({"seed": 14}, r"models.hcl.m.seed: now a list; write seeds: \[14\]"), ({"seeds": 13}, "models.hcl.m.seeds: "),
    ({"seeds": [-1]}, "models.hcl.m.seeds.0")])
def test_seeds_that_cannot_be_are_named(row, message):
    with pytest.raises(InputError, match=message):
        params_of({"m": {"dataset": "d", **row}})


def test_the_hash_of_a_seed_does_not_see_the_others():
    alone, several = (params_of({"m": {"dataset": "d", "seeds": seeds}}, runs={"hcl": {"r": {"model": "m"}}})
                      for seeds in ([14], [13, 14]))
    for stage, key in (("train_hcl", "m"), ("generate_hcl", "r"), ("evaluate_hcl", "r")):
        assert stage_hash(alone, stage, key, 14) == stage_hash(several, stage, key, 14), stage
        assert stage_hash(alone, stage, key) != stage_hash(several, stage, key), stage
    assert stage_hash(several, "train_hcl", "m", 13) != stage_hash(several, "train_hcl", "m", 14)


# -- stages -----------------------------------------------------------------------------------------------------

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
    assert found[1] == found[2] and "model/model.safetensors" in found[1]
    assert {path.name for path in (tmp_path / "2" / MODELS / "m").iterdir()} == {"13", "14"}
    shutil.rmtree(tmp_path)
