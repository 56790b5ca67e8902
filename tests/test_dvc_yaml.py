"""dvc.yaml against the code: folders and imports, params, descriptions; and what a change makes stale."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
import tiny_project
import yaml
from dvc.repo import Repo
from source_imports import ROOT, closure, modules

from pipeline.recipes import recipe_names
from stages.common import paths
from stages.common.settings import module_of
from stages.common.yaml_files import read_yaml

DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES = {name: entry.get("do", entry) for name, entry in DVC["stages"].items()}
FOREACH = {name: entry.get("foreach") for name, entry in DVC["stages"].items()}
CODE = ("stages/", "models/", "keycontrast/")


# Docstrings, and what decides no byte of an artifact: the hash of an encoder is among the params that it is found by.
NO_BYTES = {"stages/__init__.py", "models/__init__.py", "stages/tracks/__init__.py", "keycontrast/__init__.py",
            "keycontrast/errors.py", "keycontrast/files.py", "keycontrast/progress.py", "keycontrast/cells.py",
            "keycontrast/encoders.py"}


def plain(item):
    """A path of outs, metrics or plots, and its settings."""
    return (item, {}) if isinstance(item, str) else next(iter(item.items()))


def products(stage):
    return [plain(item) for kind in ("outs", "metrics", "plots") for item in STAGES[stage].get(kind, [])]


def covers(dep, path):
    return path == dep or path.startswith(dep + "/")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_the_folders_that_it_imports_and_on_few(stage):
    deps = STAGES[stage]["deps"]
    assert len(deps) <= 12 and len(deps) == len(set(deps))
    code = [dep for dep in deps if dep.startswith(CODE)]
    assert "stages/common" in code and "stages/run" not in code and all((ROOT / dep).exists() for dep in code)
    used = [modules()[module].relative_to(ROOT).as_posix() for module in closure(module_of(stage))]
    used = [path for path in used if path not in NO_BYTES]
    assert not [path for path in used if not any(covers(dep, path) for dep in [*code, "stages/run"])]
    assert not [dep for dep in code if not any(covers(dep, path) for path in used)]


def test_dvc_yaml_stays_readable():
    lines = (ROOT / "dvc.yaml").read_text().splitlines()
    assert len(lines) <= 650 and max(map(len, lines)) <= 100
    assert not [line for line in lines if re.match(r"\s+deps: \[", line)]       # one a line


@pytest.mark.parametrize("stage", STAGES)
def test_everything_is_described_and_nothing_turns_the_run_cache_off(stage):
    assert STAGES[stage]["desc"]
    for path, settings in products(stage):
        assert settings.get("desc"), path
        # Metrics and plots are git's, so DVC's cache could not bring back what it has removed; they take a second.
        assert ("persist" in settings) == (settings.get("cache") is False) == path.startswith("metrics/"), path


def test_a_stage_takes_the_python_on_path_or_says_that_none_will_do(tmp_path):
    """That DVC's own comes first, test_whole_pipeline.py shows: there DVC runs outside of its environment."""
    for name in ("sh", "sed", "tr", "head", "readlink"):
        (tmp_path / name).symlink_to(shutil.which(name))
    # Neither the shell's parent nor the parent of that is a Python.
    line = ["sh", "-c", f"sh -c 'sh \"{ROOT / 'stages/run.sh'}\" ingest.ingest --help; exit $?'; exit $?"]
    none = subprocess.run(line, cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert none.returncode == 1 and none.stderr.startswith("ingest.ingest: no Python here")
    assert "make env" in none.stderr
    there = f"{tmp_path}:{Path(sys.executable).parent}"
    found = subprocess.run(line, cwd=ROOT, env={"PATH": there}, capture_output=True, text=True)
    assert found.returncode == 0 and "example: python -m stages.ingest.ingest dataset" in found.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A tiny project whose artifacts are placeholders that DVC takes for those of its stages."""
    folder = tiny_project.make(tmp_path_factory.mktemp("dvc") / "project")
    (folder / ".dvc" / "tmp").mkdir(exist_ok=True)
    with chdir(folder), Repo(folder) as repo:
        for stage in repo.index.stages:
            for out in stage.outs:
                place = Path(out.fs_path)
                if place.suffix:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(stage.addressing)
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    for name in ("examples", "texts", "nodes", "phrases"):
                        (place / name).mkdir()
                        (place / name / "part-00000.parquet").write_text(f"{stage.addressing} {name}")
        repo.commit(force=True)
    assert stale(folder) == set()
    return folder


def stale(folder):
    """Stage instances that are not up to date."""
    with chdir(folder), Repo(folder) as repo:
        return set(repo.status())


def of(changed, *names):
    return {name for name in changed if name.partition("@")[0].endswith(names)}


def with_line(path):
    """Append a line to a file; return what takes it off again."""
    before = path.read_text()
    path.write_text(before + "# one more line\n")
    return lambda: path.write_text(before)


@pytest.mark.parametrize(("file", "others"), [
    ("models/pgkpr/pgkpr.py", ("_hcl", "_clld", "textrank", "node_vectors")),
    ("models/hcl/hcl.py", ("_pgkpr", "_clld", "textrank", "node_vectors")),
    ("models/clld/clld.py", ("_pgkpr", "_hcl", "textrank", "node_vectors"))])
def test_a_change_of_one_method_leaves_the_others_up_to_date(project, file, others):
    back = with_line(project / file)
    changed = stale(project)
    back()
    assert changed and not of(changed, *others)


def test_a_changed_default_is_seen_and_what_decides_no_byte_is_not(project):
    back = with_line(project / "stages" / "keywords" / "params.py")
    changed = stale(project)
    back()
    assert "textrank@tiny" in changed and not of(changed, "_hcl", "_clld")
    back = with_line(project / "stages" / "run" / "log.py")
    changed = stale(project)
    back()
    assert not changed


def test_another_split_annotates_nothing_again(project):
    file = project / "artifacts" / "data" / "tiny" / "items" / "examples" / "part-00000.parquet"
    back = with_line(file)
    changed = stale(project)
    back()
    assert "textrank@tiny" in changed and "annotate@tiny" not in changed


def test_what_another_recipe_left_changes_nothing(project):
    for place in ("data/old", "models/old", "runs/old", "predictions/old", "probes/old", "manifests/old/runs"):
        (project / "artifacts" / place).mkdir(parents=True)
        (project / "artifacts" / place / "left.json").write_text("{}")
    assert stale(project) == set()


def test_a_data_set_of_ones_own_leaves_the_others_up_to_date(project):
    content = read_yaml(project / "params.yaml")
    content["datasets"]["mine"] = {**content["datasets"]["tiny"], "source": "triples.jsonl"}
    for block in ("keywords", "attribution", "psi", "s_tagger", "graph", "node_vectors"):
        content[block] = {**content[block], "datasets": ["tiny", "mine"]}
    before = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(yaml.safe_dump(content))
    changed = stale(project)
    (project / "params.yaml").write_text(before)
    assert {name for name in changed if not name.endswith("@mine")} == {"report"}


def test_paths_are_those_of_the_paths_module():
    written = {path.replace("${key}", "d").replace("${item}", "d") for stage in STAGES for path, _ in products(stage)}
    data = paths.DatasetPaths("d")
    ours = [data.table("examples").parent, data.table("clusters").parent, data.table("node_vectors").parent,
            data.table("tokens"), data.metrics("ingest"), data.pair_classifier, data.s_tagger, data.character_encoder,
            paths.MODELS / "d", paths.RUNS / "d", paths.PREDICTED / "d", paths.CONFUSED / "d", paths.PROBES / "d",
            paths.COMPARISON, paths.REPORT, paths.corpus_page("d"), paths.manifest_path("${recipe}", "data", "d")]
    assert not {path.as_posix() for path in ours} - written


def test_stages_stay_few_enough_for_dvc():
    # DVC's own work grows with stage instances: a no-op of 134 takes three seconds of one core.
    from pipeline.recipes import read_recipe

    for name in recipe_names(ROOT / "recipes"):
        whole = read_recipe(name, "data", ROOT / "recipes").plain()
        count = 0
        for foreach in FOREACH.values():
            rows = whole
            for part in str(foreach).strip("${}").split(".") if foreach else ():
                rows = rows[part]
            count += len(rows) if foreach else 1
        assert count <= 140, (name, count)


def test_the_lock_of_the_sample_stays_small():
    assert (ROOT / "dvc.lock").stat().st_size <= 120 * 1024
    assert len((ROOT / "params.yaml").read_text().splitlines()) <= 250
    assert json.dumps(read_yaml(ROOT / "params.yaml"))
