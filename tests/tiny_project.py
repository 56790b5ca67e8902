"""A whole project in a temporary folder: this code, fifty triples, questions, a BERT of width 16, short trainings."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, BertTokenizerFast

from stages.common.paths import ModelPaths
from stages.params import parse_params, with_what_dvc_reads

ROOT = Path(__file__).resolve().parent.parent
CODE = ("keycontrast", "pipeline", "stages", "models", "recipes", "data/language", "data/start/none", ".dvc/config",
        ".dvc/plots", ".dvcignore", "dvc.yaml", "pyproject.toml", "constraints.txt")
TRIPLES = 50
QUESTIONS = 120


def make(folder: Path) -> Path:
    """Return a project in ``folder``, under git, with nothing computed yet."""
    folder.mkdir(parents=True)
    for name in CODE:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)  # with its bytecode, which no process need make anew
        else:
            shutil.copy(source, target)
    (folder / ".gitignore").write_text("/artifacts/\n/.keycontrast/\n__pycache__/\n")
    lines = (ROOT / "data" / "sample" / "paraphrase.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "triples.jsonl").write_text("\n".join(lines[:TRIPLES]) + "\n", encoding="utf-8")
    questions = (ROOT / "data" / "sample" / "questions.jsonl").read_text(encoding="utf-8").splitlines()[:QUESTIONS]
    (folder / "questions.jsonl").write_text("\n".join(questions) + "\n", encoding="utf-8")
    save_encoder(folder / "encoder", [word for line in lines[:TRIPLES] for word in json.loads(line)["source"].split()])
    write_params(folder)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def save_encoder(folder: Path, words: list[str]) -> None:
    """Save a tiny BERT whose vocabulary is letters and the words that occur in sources."""
    folder.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz'?.,-"
    known = sorted({word.lower().strip("?.,") for word in words} - set(letters) - {""})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary += known
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64)
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=32, max_position_embeddings=64)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def params() -> dict:
    """Params of the tiny project, not yet filled with defaults."""
    return {
        "recipe": "sample", "encoder": {"source": "path", "path": "encoder"},
        "runtime": {"workers": 2, "checkpoint_minutes": 0},
        "datasets": {"tiny": {"source": "triples.jsonl", "layout": "triples",
                              "columns": {"source": "source", "target": "paraphrase", "negative": "negative"}},
                     "questions": {"source": "questions.jsonl", "layout": "labelled", "columns": {"label": "label"}}},
        **{name: {"datasets": ["tiny"]}
           for name in ("keywords", "attribution", "psi", "keyword_comparison", "graph", "node_vectors")},
        "linear_baseline": {"datasets": ["questions"]}, "confusing_pairs": {"models": ["ct"]},
        "ingest": {"neg_source": "given", "validation": 0.1, "test": 0.1},
        "annotate": {"chunk": 40},
        "pair_classifier": {"epochs": 1, "batch_size": 64, "learning_rate": 0.001},
        "word_vectors": {"size": 8, "epochs": 1},
        "s_tagger": {"datasets": ["tiny"], "embedding": 8, "hidden": 8, "epochs": 1},
        "train_hcl": {"latent": {"size": 8}, "decoder": {"layers": 1},
                      "training": {"epochs": 25, "patience": 25, "batch_size": 8, "micro_batch": 8}},
        "generate_hcl": {"num_beams": 2, "max_length": 8},
        "paraphrase_items": {"datasets": {"tiny": {
            name: f"artifacts/data/tiny/{name}" for name in ("psi", "s_tags")}}},
        "train_pgkpr": {"sizes": {"layers": 1, "heads": 2, "width": 16, "feed_forward": 32},
                        "training": {"epochs": 2, "batch_size": 16, "micro_batch": 16}},
        "train_clld": {"max_length": 16, "textcnn": {"embedding": 16, "filters": 8, "min_count": 1},
                       "training": {"epochs": 2, "batch_size": 16, "micro_batch": 16}},
        "models": {"hcl": {"hcl": {"dataset": "tiny"}},
                   "pgkpr": {"pgkpr": {"dataset": "tiny"}},
                   "clld": {"ct": {"dataset": "questions", "encoder": "textcnn"},
                            "clsled": {"dataset": "questions", "encoder": "textcnn", "contrast": "static_tau_pairs",
                                       "pairs_of": "artifacts/confusing_pairs/ct"}}},
        "runs": {"hcl": {"hcl": {"model": "hcl"}},
                 "pgkpr": {"pgkpr": {"model": "pgkpr"}}}}


def write_params(folder: Path, **changes) -> None:
    """Write ``params.yaml`` with top-level ``changes``, and what DVC reads by name."""
    content = {**params(), **changes}
    parse_params(content, "params")
    filled, _ = with_what_dvc_reads(content)
    (folder / "params.yaml").write_text(yaml.safe_dump(filled, sort_keys=False))


def command(*arguments: str) -> list[str]:
    """Return the command line of ``keycontrast`` with ``arguments``."""
    return [sys.executable, "-m", "pipeline", *arguments]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a person who has activated the virtual environment, and lets Python keep bytecode."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PATH": path, "PYTHONPATH": "", "OMP_NUM_THREADS": "1", **changes}


def call(folder: Path, *line: str, **changes: str) -> subprocess.CompletedProcess:
    """Run a command line in ``folder`` and return what came of it."""
    return subprocess.run(line, cwd=folder, env=environment(**changes), capture_output=True, text=True, timeout=1200)


def lock(folder: Path) -> dict:
    """Return ``dvc.lock``, parsed: DVC writes entries in the order of completion."""
    return yaml.safe_load((folder / "dvc.lock").read_text())


def rows_added(project: Path, monkeypatch, track: str, train, run: dict):
    """Yield a function that adds a row to a project in place of its runs, and trains it; params are restored."""
    monkeypatch.chdir(project)
    before = (project / "params.yaml").read_text()

    def add(name: str, **model) -> int:
        written = yaml.safe_load(before)
        written["models"][track][name] = {"dataset": "tiny", **model}
        written["runs"] = {track: {name: {"model": name, **run}}}
        (project / "params.yaml").write_text(yaml.safe_dump(written))
        return train([name])

    yield add
    (project / "params.yaml").write_text(before)


def weights(name: str) -> dict:
    """Return the weights of a model under seed 13."""
    return load_file(ModelPaths(name, 13).weights / "model.safetensors")
