"""dvc.yaml against the code: folders and imports, params, descriptions; and what a change makes stale."""

import shutil
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest
import tiny_project
import yaml
from dvc.repo import Repo
from source_imports import ROOT, closure, modules

from stages.common import paths
from stages.common.settings import module_of
from stages.common.yaml_files import read_yaml

DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES = {name: entry.get("do", entry) for name, entry in DVC["stages"].items()}
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


def test_everything_is_described_and_nothing_turns_the_run_cache_off():
    for stage, entry in STAGES.items():
        assert entry["desc"]
        for path, settings in products(stage):
            assert settings.get("desc"), path
            # Metrics and plots are git's, so DVC's cache could not bring back what it has removed.
            assert ("persist" in settings) == (settings.get("cache") is False) == path.startswith("metrics/"), path


def test_a_stage_says_if_there_is_no_python(tmp_path):
    for name in ("sh", "sed", "tr", "head", "readlink"):
        (tmp_path / name).symlink_to(shutil.which(name))
    # Neither the shell's parent nor the parent of that is a Python.
    line = ["sh", "-c", f"sh -c 'sh \"{ROOT / 'stages/run.sh'}\" ingest.ingest --help; exit $?'; exit $?"]
    none = subprocess.run(line, cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert none.returncode == 1 and none.stderr.startswith("ingest.ingest: no Python here")
    assert "make env" in none.stderr


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


def stale(folder, changed=None):
    """Stage instances that are not up to date; while file ``changed`` has another line, if given."""
    before = changed and changed.read_text()
    if changed:
        changed.write_text(before + "# one more line\n")
    with chdir(folder), Repo(folder) as repo:
        found = set(repo.status())
    if changed:
        changed.write_text(before)
    return found


@pytest.mark.parametrize(("file", "stages", "others"), [
    ("models/pgkpr/pgkpr.py", ("train_pgkpr",), ("_hcl", "_clld", "textrank", "node_vectors")),
    ("models/hcl/hcl.py", ("train_hcl",), ("_pgkpr", "_clld", "textrank", "node_vectors")),
    ("models/clld/clld.py", ("train_clld",), ("_pgkpr", "_hcl", "textrank", "node_vectors")),
    ("stages/keywords/params.py", ("textrank",), ("_hcl", "_clld")), ("stages/run/log.py", (), ("",)),
    ("encoder/config.json", ("pair_classifier", "node_vectors"), ("ingest", "annotate", "textrank")),
    ("artifacts/data/tiny/items/examples/part-00000.parquet", ("textrank",), ("annotate",))])
def test_a_change_makes_stale_what_it_decides_and_nothing_else(project, file, stages, others):
    changed = {name.partition("@")[0] for name in stale(project, project / file)}
    assert set(stages) <= changed and not [name for name in changed if name.endswith(others)]


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
