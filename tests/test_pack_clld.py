"""Packs of the CLLD track: trained and evaluated without most packages, and read at home as if made there."""

import json
import shutil
import tarfile
from contextlib import chdir
from io import StringIO

import classified_project
import pandas as pd
import pytest
from rich.console import Console
from test_pack import run_packed

from pipeline.pack import FOLDER, pack
from pipeline.packed.run import Refused, jobs_of
from pipeline.unpack import show_unpacked, unpack
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.tables import read_frame, read_metadata
from stages.params import load_params, stage_hash
from stages.run.errors import InputError

MODELS = {**classified_project.MODELS, "other": {"encoder": "path:second", "overrides": {"pool": "pooler"}}}

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A project whose data stages are done, with two encoders that half precision can hold."""
    folder = tmp_path_factory.mktemp("prepared")
    classified_project.write_project(folder, models=MODELS)
    shutil.copytree(folder / "encoder", folder / "second")
    return folder


@pytest.fixture(scope="module")
def done(prepared, tmp_path_factory):
    """The project before and after results came home, and one that has made them itself."""
    folder = tmp_path_factory.mktemp("machine")
    with chdir(prepared):
        made = pack(folder / "pack.tar.gz")
    with tarfile.open(folder / "pack.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    ran = run_packed(folder / FOLDER, folder / "out", "--weights")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    home, back = folder / "home", folder / "back"
    for copy in (home, back):
        shutil.copytree(prepared, copy)
    classified_project.train(home, *MODELS, evaluate=True)
    said = StringIO()
    with chdir(back):
        show_unpacked(folder / "out/results.tar.gz", False, Console(file=said, width=300))
        found = unpack(folder / "out/results.tar.gz")
    return {"pack": made, "home": home, "back": back, "found": found, "said": said.getvalue(),
            "packed": folder / FOLDER}


def files_of(root, *folders):
    return {path.relative_to(root).as_posix(): path for folder in folders
            for path in sorted((root / folder).rglob("*")) if path.is_file()}


def test_what_comes_home_is_what_the_stages_make_at_home(done):
    there, here = (files_of(done[name], "artifacts/models", "artifacts/runs", "artifacts/predictions",
                                  "artifacts/confusing_pairs") for name in ("back", "home"))
    assert there.keys() == here.keys()
    for name, path in there.items():
        if name.endswith(".parquet"):
            pd.testing.assert_frame_equal(read_frame(path), read_frame(here[name]))
        else:
            assert path.read_bytes() == here[name].read_bytes(), name
    assert "artifacts/confusing_pairs/ct/3/confusing_pairs.parquet" in there


def test_a_person_is_told_that_runs_are_scored(done):
    assert done["found"].runs == dict.fromkeys(MODELS, "clld") and done["found"].unfinished == {}
    assert "They are scored." in done["said"] and "keycontrast stage compare" in done["said"]
    assert "evaluate_clld" not in done["said"]


def test_tables_say_where_they_were_computed(done):
    with chdir(done["back"]):
        params = load_params()
        for path, stage, key in ((RunPaths("clsled", 3).predictions, "evaluate_clld", "clsled"),
                                 (ModelPaths("ct", 3).confusing_pairs, "confusing_pairs", "ct"),
                                 (ModelPaths("ct", 3).items, "train_clld", "ct")):
            metadata = read_metadata(path)
            assert metadata["stage"] == f"{stage}@{key}"
            assert metadata["params_hash"] == stage_hash(params, stage, key, 3)
            assert metadata["computed_elsewhere"]["pack"] == done["pack"].digest
        encoder = read_metadata(ModelPaths("other", 3).items)["models"]["encoder"]
        assert encoder == {**resolve_encoder("path:second").description, "stored_as": "float16"}
        assert read_metadata(ModelPaths("words", 3).items)["models"]["encoder"] == {"name": "textcnn"}
        for name, source in (("ct", "path:encoder"), ("other", "path:second"), ("words", "textcnn")):
            assert json.loads(ModelPaths(name, 3).metrics.read_text())["encoder"] == source
            assert json.loads((ModelPaths(name, 3).weights / "trained_on.json").read_text())["encoder"] == source
            assert f"Encoder: `{source}`" in (ModelPaths(name, 3).weights / "README.md").read_text()
            assert json.loads(RunPaths(name, 3).metrics.read_text())["settings"]["encoder"] == source
        assert json.loads((done["back"] / ".keycontrast/records/confusing_pairs@ct.json").read_text())["device"]


def test_each_encoder_travels_once_in_a_folder_of_its_own(done):
    assert {path.parent.name for path in done["packed"].glob("encoder*/half.safetensors")} == {"encoder", "encoder-2"}
    packed = json.loads((done["packed"] / "pack.json").read_text())["models"]
    assert {name: model["encoder"]["folder"] for name, model in packed.items()} == {
        "ct": "encoder", "clsled": "encoder", "words": None, "other": "encoder-2"}


def test_a_model_brings_the_one_whose_confusions_it_reads(prepared, tmp_path):
    with chdir(prepared):
        found = pack(tmp_path / "pack.tar.gz", ["clsled"])
        assert pack(tmp_path / "words.tar.gz", ["words"]).sizes["encoder"] == 0
    assert found.models == ["ct", "clsled"] and set(found.runs) == {"ct", "clsled"}


def test_what_the_pack_lacks_is_named(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "p")
    with chdir(tmp_path / "p"):
        DatasetPaths("tiny").table("linear_floor").unlink()
        with pytest.raises(InputError, match=r"linear_floor\.parquet: no such .* run linear_floor@tiny"):
            pack(tmp_path / "pack.tar.gz")
        classified_project.write_params(".", models={"ct": {"encoder": "scratch"}})
        with pytest.raises(InputError, match="scratch has no weights to pack"):
            pack(tmp_path / "pack.tar.gz")


PACK = {"models": {"plain": {"track": "clld", "dataset": "d", "init_from": None, "pairs_of": None},
                   "static": {"track": "clld", "dataset": "d", "init_from": None, "pairs_of": "plain"},
                   "alone": {"track": "clld", "dataset": "d", "init_from": None, "pairs_of": None}},
        "runs": {name: {"model": name, "stage": "evaluate_clld"} for name in ("plain", "static", "alone")}}


def test_jobs_of_a_static_row_wait_for_the_pairs():
    jobs = {job.name: job.needs for job in jobs_of(PACK, None)}
    assert jobs["train_clld@static"] == ("confusing_pairs@plain",)
    assert jobs["confusing_pairs@plain"] == ("train_clld@plain",)
    assert jobs["evaluate_clld@static"] == ("train_clld@static",)
    assert "confusing_pairs@alone" not in jobs and len(jobs) == 7
    assert [job.name for job in jobs_of(PACK, ["alone"])] == ["train_clld@alone", "evaluate_clld@alone"]
    assert "train_clld@plain" in {job.name for job in jobs_of(PACK, ["static"])}
    with pytest.raises(Refused, match="no model 'statik'"):
        jobs_of(PACK, ["statik"])
