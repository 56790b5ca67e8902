"""dvc.yaml against the code: params, paths, imports, descriptions."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_project
import yaml
from source_imports import ROOT, modules

from pipeline.dag import read_dag
from pipeline.dependencies import WITHOUT, code_dependencies, rewritten
from pipeline.recipes import read_recipe, recipe_names
from pipeline.schemas import SCHEMAS
from stages.common import paths
from stages.common.entries import module_of
from stages.params.watched import BLOCKS

DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES = {name: entry.get("do", entry) for name, entry in DVC["stages"].items()}
FOREACH = {name: entry.get("foreach") for name, entry in DVC["stages"].items()}
CODE = ("stages/", "models/", "pipeline/")


def plain(item):
    """A path of outs, metrics, plots or deps, and its settings."""
    return (item, {}) if isinstance(item, str) else next(iter(item.items()))


def products(stage):
    return [plain(item) for kind in ("outs", "metrics", "plots") for item in STAGES[stage].get(kind, [])]


def code_deps(stage):
    return [dep for dep in STAGES[stage]["deps"] if dep.startswith(CODE)]


def covers(dep, path):
    return path == dep or path.startswith(dep + "/")


def test_code_dependencies_are_those_of_the_imports():
    text = (ROOT / "dvc.yaml").read_text()
    assert rewritten(text) == text, "python -m pipeline.dependencies --write"


def test_what_is_left_out_exists_and_nothing_that_decides_artifacts_is():
    assert not set(WITHOUT) - set(modules())
    needed = code_dependencies("textrank")
    assert {"stages/ranking", "stages/common/settings.py", "stages/run/pool.py"} <= set(needed)
    assert not [path for path in needed if "cluster_map" in path or path in ("stages/run", "stages/params")]
    assert any("templates" in path or path == "stages/results/page" for path in code_dependencies("report"))


@pytest.mark.parametrize("stage", STAGES)
def test_command_and_stage_share_a_name(stage):
    key = " ${key}" if FOREACH[stage] else ""
    assert STAGES[stage]["cmd"] == f"sh stages/run.sh {module_of(stage).removeprefix('stages.')}{key}"


def test_a_stage_takes_the_python_on_path_or_says_that_none_will_do(tmp_path):
    """That DVC's own comes first, test_whole_pipeline.py shows: there DVC runs outside of its environment."""
    for name in ("sh", "sed", "tr", "head", "readlink"):
        (tmp_path / name).symlink_to(shutil.which(name))
    # Neither the shell's parent nor the parent of that is a Python.
    line = ["sh", "-c", f"sh -c 'sh \"{ROOT / 'stages/run.sh'}\" data.ingest --help; exit $?'; exit $?"]
    none = subprocess.run(line, cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert none.returncode == 1 and none.stderr.startswith("data.ingest: no Python here") and "make env" in none.stderr
    paths = f"{tmp_path}:{Path(sys.executable).parent}"
    found = subprocess.run(line, cwd=ROOT, env={"PATH": paths}, capture_output=True, text=True)
    assert found.returncode == 0 and "example: python -m stages.ingest.ingest dataset" in found.stdout


@pytest.mark.parametrize("stage", STAGES)
def test_everything_is_described_and_nothing_turns_the_run_cache_off(stage):
    assert STAGES[stage]["desc"]
    for path, settings in products(stage):
        assert settings.get("desc"), path
        # Metrics and plots are git's, so DVC's cache could not bring back what it has removed; they take a second.
        assert ("persist" in settings) == (settings.get("cache") is False) == path.startswith("metrics/"), path


def test_plots_say_what_they_show():
    for stage in STAGES.values():
        for item in stage.get("plots", []):
            assert {"template", "x", "y", "x_label", "y_label"} <= set(plain(item)[1])
    for artifact in DVC["artifacts"].values():
        assert {"path", "desc", "type", "labels"} <= set(artifact)


def test_paths_are_those_of_the_paths_module():
    dataset, model, run = paths.DatasetPaths("${key}"), paths.ModelPaths("${key}", 13), paths.RunPaths("${key}", 13)
    known = {dataset.table(kind) for kind in SCHEMAS} | {dataset.metrics(stage) for stage in STAGES}
    known |= {dataset.pair_classifier, dataset.s_tagger, dataset.character_encoder, dataset.pos_frequency}
    probe = paths.ProbePaths("${key}")
    # Of models and runs the folder of all seeds.
    known |= {path.parent.parent for path in (model.metrics, model.confusing_pairs, run.metrics, run.predictions)}
    known |= {probe.table("latent"), probe.table("keyword_swap"), probe.metrics, probe.figures}
    known |= {paths.COMPARISON / name for name in ("paired.parquet", "by_stratum.parquet", "mcnemar.parquet",
                                                 "metrics.json")}
    known |= {paths.REPORT, paths.ARTIFACTS / "manifests" / "${key}.json"}
    headlines = paths.HeadlinePaths("${recipe}")
    known |= {*map(headlines.metrics, ("hcl", "pgkpr", "clld")), headlines.curves, headlines.confusion}
    # models of all tracks share a folder, and so do runs; the params refuse equal names
    written = [(FOREACH[stage], Path(path)) for stage in STAGES for path, _ in products(stage)]
    assert not {path for _, path in written} - known
    assert len(written) == len(set(written))


def test_every_data_dependency_is_made_by_a_stage_or_ships_with_the_project():
    made = {path.replace("${key}", "*") for stage in STAGES for path, _ in products(stage)}
    for stage in STAGES:
        for dep in set(STAGES[stage]["deps"]) - set(code_deps(stage)):
            found = dep.replace("${item.method}", "textrank")
            for variable in ("${key}", "${item.dataset}", "${item.model}"):
                found = found.replace(variable, "*")
            ships = (ROOT / found).exists() and not found.startswith("artifacts")
            filled_in = ("source", "starts_from", "pairs_from", "psi", "s_tags", "textrank", "distances_from",
                         "watched")
            names = {"${own_encoders.watched}", *(f"${{watched.{name}}}" for name in BLOCKS)}
            assert found in {*names, *(f"${{item.{name}}}" for name in filled_in)} or ships or any(
                covers(found, path) for path in made), dep


def test_stages_stay_few_enough_for_dvc():
    # DVC's own work grows with stage instances: a no-op of 90 takes two seconds.
    for name in recipe_names(ROOT / "recipes"):
        params = read_recipe(name, "DIR", ROOT / "recipes")
        maps = {f"${{ranked_datasets.{name}}}": names for name, names in params.ranked_datasets.items()}
        maps |= {"${tagged_datasets}": params.tagged_datasets, "${contrasted_datasets}": params.contrasted_datasets,
                "${datasets}": params.datasets, "${paired_datasets}": params.paired_datasets,
                "${text_datasets}": params.text_datasets,
                "${compared_datasets}": params.compared_datasets, "${paraphrase_datasets}": params.paraphrase_datasets,
                "${models.hcl}": params.models.hcl, "${runs.hcl}": params.runs.hcl, "${probes.hcl}": params.probes.hcl,
                "${models.pgkpr}": params.models.pgkpr, "${runs.pgkpr}": params.runs.pgkpr,
                "${keyword_datasets}": params.keyword_datasets, "${classified_datasets}": params.classified_datasets,
                "${consulted_models}": params.consulted_models,
                "${own_encoders.datasets}": params.own_encoders.datasets,
                "${models.clld}": params.models.clld, "${runs.clld}": params.runs.clld}
        counts = {None: 1} | {foreach: len(entries) for foreach, entries in maps.items()}
        assert sum(counts[foreach] for foreach in FOREACH.values()) <= 90, name


@pytest.mark.parametrize(("models", "expected"), [
    ({}, ""), ({"hcl": {"hcl": {"dataset": "tiny"}}}, "node_vectors@tiny train_hcl@hcl"),
    ({"pgkpr": {"row": {"dataset": "tiny"}}},
     "pair_classifier@tiny attribution@tiny paraphrase_items@tiny train_pgkpr@row"),
    ({"pgkpr": {"row": {"dataset": "tiny", "overrides": {"architecture": "ianet"}}}},
     "pair_classifier@tiny attribution@tiny word_vectors@tiny psi@tiny paraphrase_items@tiny train_pgkpr@row")])
def test_dvc_makes_only_what_is_read(tmp_path, models, expected):
    folder = tiny_project.make(tmp_path / "project")
    dataset = tiny_project.params()["datasets"]["tiny"]
    dataset.pop("side_by_side")
    tiny_project.write_params(folder, datasets={"tiny": dataset}, models=models, runs={})
    always = "ingest@tiny annotate@tiny textrank@tiny keywords@tiny clusters@tiny graph@tiny manifest@tiny"
    assert {node.name for node in read_dag(folder).nodes} == {
        "compare", "headlines", "report", *always.split(), *expected.split()}
