"""Exports of HCL models: the trained weights as a start of others, or a baseline as a model of transformers."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.common.encoders import load_encoder
from models.hcl.baselines import load_pieces
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel, untrained_modules
from stages.common.encoders import resolve_encoder
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import write_json
from stages.tracks.common.training import REMEDY, Start, model_card
from stages.tracks.hcl.data import PieceOrigin, load_lookup

_CAUSAL, _TWO = ("AutoModelForCausalLM", AutoModelForCausalLM), ("AutoModelForSeq2SeqLM", AutoModelForSeq2SeqLM)
AUTO: dict[str, tuple[str, Any]] = {"dialogpt": _CAUSAL, "simctg": _CAUSAL, "t5": _TWO, "t5_claps": _TWO}
_FACTS, _WEIGHTS = "start.json", "start.safetensors"


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a start or a model of transformers, and return its description."""
    architecture = params.model(paths.name).architecture
    if architecture in AUTO:
        about = f"{paths.name} as {export_library_model(paths.weights, folder)}"
        use = f"{AUTO[architecture][0]}.from_pretrained(FOLDER)"
    elif architecture != "hcl":
        raise InputError(f"--model: {paths.name} is of architecture {architecture}; only those of architecture hcl can "
                         f"be a start, and {', '.join(AUTO)} are models of transformers. {paths.weights} can be loaded "
                         f"as it is.")
    else:
        write_start(paths.weights, folder)
        size = sum(file.stat().st_size for file in folder.iterdir())
        about = f"the weights of {paths.name} without its encoder, {size / 1e6:.1f} MB in half precision"
        use = "models.hcl.NAME.init: FOLDER"
    (folder / "README.md").write_text(
        model_card(f"HCL model {paths.name}", "text-generation", f"{about}.", [], f"`{use}`"), encoding="utf-8")
    return f"{about}\nUse it with {use.replace('FOLDER', str(called))}"


def export_library_model(weights: Path, folder: Path) -> str:
    """Write a model with its tokenizer in the layout of transformers, and return its description."""
    on = PieceOrigin.load(weights)
    name, auto = AUTO[on.architecture]
    tokenizer = AutoTokenizer.from_pretrained(weights)
    model, loading = auto.from_pretrained(weights, output_loading_info=True)
    if hasattr(model.config, "mean_target_length"):  # which only training reads
        del model.config.mean_target_length
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    own, other = load_pieces(weights, on.architecture).state_dict(), auto.from_pretrained(folder).state_dict()
    if loading["missing_keys"] or loading["unexpected_keys"] or not (
            own.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in own.items())):
        raise InputError(f"{weights}: what {name} loads has other weights, so nothing was written.")
    before, after, end = (tokenizer.decode(ids) for ids in (on.marks["before"], on.marks["after"], [on.marks["end"]]))
    return (f"{type(model).__name__}, every weight as in the trained model\n"
            f"It reads {on.max_source} tokens of a text, {before!r} before it and {after!r} after it, and ends with "
            f"{end!r}")


def write_start(weights: Path, folder: Path) -> None:
    """Write the trained weights of a model in half precision, without its encoder."""
    _, on = load_lookup(weights)
    model = HclModel.from_pretrained(weights)
    pretrained, _ = load_encoder(resolve_encoder(on.encoder_source).location)
    changed = [name for name, value in pretrained.state_dict().items()
               if not torch.equal(value, model.encoder.state_dict()[name])]
    if changed:
        raise InputError(f"{weights}: its encoder was trained too ({changed[0]}), and a start contains no "
                         f"encoder. Freeze it whole: set train_hcl.training.freeze_layers to the number of its layers.")
    tensors = {name: value.to(torch.float16) for name, value in _trained(model).items()}
    facts = {"encoder": on.encoder, "config": {**model.config.to_dict(), "num_nodes": 0, "num_edges": 0}}
    save_file(tensors, folder / _WEIGHTS)
    write_json(folder / _FACTS, facts)


def read_start(start: Start, encoder: ResolvedEncoder) -> tuple[HclModel, dict[str, Any]]:
    """Return the model of a start over its encoder, without a graph, and its description."""
    described = start.described(_WEIGHTS)
    try:
        facts = json.loads((start.folder / _FACTS).read_text(encoding="utf-8"))
        tensors = load_file(start.folder / _WEIGHTS)
        config, expected = HclConfig.from_dict(facts["config"]), facts["encoder"]
    except (SafetensorError, FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{start.name}: the start is damaged ({error}). {REMEDY}") from error
    if expected["sha256"] != encoder.description["sha256"]:
        raise InputError(f"{start.name}: this start was trained over the encoder {expected['name']}, and "
                         f"encoder.source is {encoder.description['name']}. Take the same, or another init.")
    pretrained, _ = load_encoder(encoder.location)
    model = HclModel.from_parts(config, pretrained)
    known = _trained(model)
    odd = sorted(known.keys() ^ tensors) or [name for name in known if tensors[name].shape != known[name].shape]
    if odd:
        raise InputError(f"{start.name}: the start is damaged ({odd[0]} is missing, too much or of another shape). "
                         f"{REMEDY}")
    for name, value in tensors.items():
        known[name].copy_(value)
    return model, described


def _trained(model: HclModel) -> dict[str, torch.Tensor]:
    """Return the tensors outside encoder and keyword graph that training changes; they share the model's memory."""
    idle = tuple(f"{module}." for module in ("encoder", "graph", *untrained_modules(model.config)))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: value.detach() for name, value in tensors.items() if not f"{name}.".startswith(idle)}
