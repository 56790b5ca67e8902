"""Starts that come from elsewhere: what a model has trained beside its encoder, in half precision."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.common.encoders import load_encoder
from models.hcl.config import HclConfig
from models.hcl.model import HclModel, untrained_modules
from stages.common.encoders import resolve_encoder
from stages.common.tables import write_json
from stages.tracks.common.starts import GivenStart
from stages.tracks.hcl.lookup import load_lookup

_FACTS, _WEIGHTS = "start.json", "start.safetensors"


def write_start(weights: Path, folder: Path) -> None:
    """Write what the model in ``weights`` has trained, its encoder aside, into ``folder``.

    Args:
        weights: folder of a trained model of architecture ``hcl`` whose encoder was frozen whole.
        folder: to be filled.

    Raises:
        InputError: there is no such model, or its encoder was trained and would be missing.
    """
    _, on = load_lookup(weights)
    model = HclModel.from_pretrained(weights)
    idle = untrained_modules(model.config)
    pretrained, _ = load_encoder(resolve_encoder(on.encoder_source).location)
    changed = [name for name, value in pretrained.state_dict().items()
               if not torch.equal(value, model.encoder.state_dict()[name])]
    if changed:
        raise InputError(f"{weights}: its encoder was trained too ({changed[0]}), and a start does not bring one "
                         f"along. Freeze it whole: train_hcl.training.freeze_layers, as many as it has.")
    tensors = {name: value.to(torch.float16) for name, value in _beside_encoder(model).items()
               if not any(name == module or name.startswith(f"{module}.") for module in idle)}
    facts = {"encoder": on.encoder, "config": {**model.config.to_dict(), "num_nodes": 0, "num_edges": 0}}
    save_file(tensors, folder / _WEIGHTS)
    write_json(folder / _FACTS, facts)


def read_start(start: GivenStart, encoder: ResolvedEncoder) -> tuple[HclModel, dict[str, Any]]:
    """Return the model of a start over its encoder, without a graph, and the description of it.

    Args:
        start: where it lies.
        encoder: that the model to be trained begins with; it has to be the one that the start was trained over.

    Raises:
        InputError: no start is there, it is damaged, or it was trained over another encoder.
    """
    weights, remedy = start.folder / _WEIGHTS, "Bring the folder back, or change init."
    try:
        facts = json.loads((start.folder / _FACTS).read_text(encoding="utf-8"))
        tensors = load_file(weights)
        config, expected = HclConfig.from_dict(facts["config"]), facts["encoder"]
    except FileNotFoundError as error:
        raise InputError(f"models.hcl: init is {start.name}, and {error.filename or weights} is not there. "
                         f"{remedy}") from error
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{start.name}: the start is damaged ({error}). {remedy}") from error
    if expected["sha256"] != encoder.description["sha256"]:
        raise InputError(f"{start.name}: this start was trained over the encoder {expected['name']}, and "
                         f"encoder.source is {encoder.description['name']}. Take the same, or another init.")
    pretrained, _ = load_encoder(encoder.location)
    model = HclModel.from_parts(config, pretrained)
    known, idle = _beside_encoder(model), untrained_modules(config)
    trained = {name for name in known if not any(name == module or name.startswith(f"{module}.") for module in idle)}
    odd = sorted(trained ^ tensors.keys()) or [name for name in trained if tensors[name].shape != known[name].shape]
    if odd:
        raise InputError(f"{start.name}: the start is damaged ({odd[0]} is missing, too much or of another shape). "
                         f"{remedy}")
    for name, value in tensors.items():
        known[name].copy_(value)
    return model, {"init_from": {"name": start.name, "sha256": sha256_of(weights)}}


def _beside_encoder(model: HclModel) -> dict[str, torch.Tensor]:
    """Return the tensors of a model that neither its encoder nor its keyword graph has; changing them changes it."""
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: value.detach() for name, value in found.items() if not name.startswith(("encoder.", "graph."))}
