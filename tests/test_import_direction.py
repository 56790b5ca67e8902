"""pipeline -> stages -> models: never up, never sideways, and light where it has to be light."""

import subprocess
import sys

import pytest
import yaml
from source_imports import ROOT, closure, imports, is_ours, modules, outside

from stages.common.entries import module_of

LAYERS = {"pipeline": {"pipeline", "stages", "models"}, "stages": {"stages", "models"}, "models": {"models"}}
STAGES = sorted(yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"])
# What a GPU machine has where nothing else can be installed: filelock comes with torch, tqdm and yaml with
# transformers.
GPU_MACHINE = {"torch", "filelock", "transformers", "tokenizers", "safetensors", "numpy", "pandas", "pyarrow", "tqdm",
               "yaml"}
MODELS = {"torch", "transformers", "tokenizers", "safetensors", "numpy"}
ON_GPU_MACHINE = [name for name in STAGES if name.startswith(("train_", "generate_", "evaluate_"))
                  or name in ("pair_classifier", "attribution", "node_vectors", "s_tagger")]


def foreign(names):
    return {name for name in names if name not in sys.stdlib_module_names}


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_go_down(module):
    allowed = LAYERS[module.partition(".")[0]]
    up = {name for name in imports(module) if is_ours(name) and name.partition(".")[0] not in allowed}
    assert not up, f"{module} imports {up}"


@pytest.mark.parametrize("name", STAGES)
def test_no_stage_needs_another_stage(name):
    others = {module_of(other) for other in STAGES if other != name}
    assert not closure(module_of(name)) & others


def test_workshops_do_not_import_stages():
    stages = {module_of(name) for name in STAGES}
    for module in modules():
        if module.startswith("stages.") and module not in stages:
            assert not imports(module) & stages, module


@pytest.mark.parametrize("module", sorted(name for name in modules() if name.startswith("models")))
def test_models_import_torch_and_little_else(module):
    names = {name.partition(".")[0] for name in imports(module) if not is_ours(name)}
    assert foreign(names) <= MODELS


@pytest.mark.parametrize("name", ON_GPU_MACHINE)
def test_what_runs_on_a_gpu_machine_imports_only_what_is_there(name):
    assert foreign(outside(module_of(name), inner=False)) <= GPU_MACHINE


@pytest.mark.parametrize("package", ["prefect", "dvc", "typer"])
def test_orchestration_stays_in_pipeline(package):
    users = {module.partition(".")[0] for module in modules()
             if package in {name.partition(".")[0] for name in imports(module)}}
    assert users == {"pipeline"}


def test_the_reading_of_imports_sees_them_all():
    assert "prefect" in {name.partition(".")[0] for name in imports("pipeline.flow")}
    assert "prefect" not in {name.partition(".")[0] for name in imports("pipeline.flow", inner=False)}
    assert "stages.ingest.deduplication.taken_rows" in closure("stages.ingest.ingest")


@pytest.mark.parametrize("name", STAGES)
def test_no_stage_needs_the_validation_of_params(name):
    assert not {module for module in closure(module_of(name)) if module.startswith("stages.params")}


def test_command_line_and_models_import_light():
    program = """
import sys
import pipeline.cli
heavy = {"torch", "prefect", "dvc", "pandas", "pyarrow", "spacy", "pydantic"} & set(sys.modules)
assert not heavy, heavy
import models.common.losses, models.hcl, models.common.training
heavy = {"pandas", "pyarrow", "spacy", "prefect", "dvc", "stages.params"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
