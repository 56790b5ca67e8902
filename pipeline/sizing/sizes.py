"""``sizes: auto``: sizes of models and trainings that fit a machine and a data set, as plain numbers.

The one place where a machine decides a value that changes results: ``keycontrast use`` asks it once and writes what
comes out to ``params.yaml``. What a recipe spells out wins.

    values = fitting_sizes(params, {"mine": extent}, Machine(2, 24))   # nested like params.yaml
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.sizing.extent import Extent
from pipeline.sizing.machine import Machine
from stages.params import Params

Kind = Literal["few cores", "many cores", "GPU", "large GPU"]

# What a model's training may go through, in items: minutes on one core, where the sample's HCL trains on 30 items a
# second, its PGKPR of width 64 on 480, its TextCNN on 2,700 (records of recipe `sample`); the other figures are drawn
# from these, not measured. A GPU trains as long as the papers do.
BUDGET: dict[str, dict[Kind, int | None]] = {
    "hcl": {"few cores": 12_000, "many cores": 60_000, "GPU": None, "large GPU": None},
    "pgkpr": {"few cores": 40_000, "many cores": 200_000, "GPU": None, "large GPU": None},
    "clld": {"few cores": 12_000, "many cores": 60_000, "GPU": None, "large GPU": None},
    "textcnn": {"few cores": 200_000, "many cores": 1_000_000, "GPU": None, "large GPU": None}}
# Epochs at most: of the papers (CLLD says "up to 50"), so few as a small data set bears.
EPOCHS = {"hcl": 30, "pgkpr": 35, "clld": 50, "textcnn": 50}
# Share of the encoder's layers that HCL and the pair classifier keep frozen.
FROZEN: dict[Kind, float] = {"few cores": 2 / 3, "many cores": 1 / 3, "GPU": 0.0, "large GPU": 0.0}
# Items of a forward pass at most, and words of a text at most.
MICRO: dict[Kind, int] = {"few cores": 32, "many cores": 64, "GPU": 64, "large GPU": 256}
LONGEST: dict[Kind, int] = {"few cores": 32, "many cores": 64, "GPU": 126, "large GPU": 126}
# Optimiser steps that a training should have at least; batches are halved until it has.
STEPS = 500
BATCH: dict[str, tuple[int, int]] = {"hcl": (16, 256), "pgkpr": (16, 128), "clld": (32, 128), "textcnn": (32, 128)}
# The sizes that no data set decides; left out is the paper's.
HCL: dict[Kind, dict[str, Any]] = {
    "few cores": {"decoder": {"layers": 2}, "training": {"learning_rate": 1e-3}},
    "many cores": {"decoder": {"layers": 4}, "training": {"learning_rate": 5e-4}}, "GPU": {}, "large GPU": {}}
PGKPR: dict[Kind, dict[str, Any]] = {
    "few cores": {"sizes": {"layers": 1, "heads": 4, "width": 128, "feed_forward": 256},
                  "residual_lstm": {"width": 128}, "latent_bow": {"width": 128},
                  "ianet": {"encoder_layers": 1, "decoder_layers": 2}, "training": {"learning_rate": 1e-3}},
    "many cores": {"sizes": {"layers": 2, "heads": 4, "width": 256, "feed_forward": 512},
                   "residual_lstm": {"width": 256}, "latent_bow": {"width": 256},
                   "ianet": {"encoder_layers": 1, "decoder_layers": 2}, "training": {"learning_rate": 1e-3}},
    "GPU": {}, "large GPU": {}}
# Of encoders that train for fewer epochs than the paper's; TextCNN keeps its own.
CLLD_RATE: dict[Kind, float] = {"few cores": 5e-5, "many cores": 5e-5}
# Training pairs below which the S-Tagger is small, and sources that the pair classifier learns from.
FEW_PAIRS = 20_000
CLASSIFIER: dict[Kind, dict[str, Any]] = {
    "few cores": {"max_sources": 1000, "epochs": 2, "batch_size": 32},
    "many cores": {"max_sources": 5000, "epochs": 2, "batch_size": 32}, "GPU": {}, "large GPU": {}}
S_TAGGER = {"embedding": 64, "hidden": 64, "epochs": 6, "batch_size": 16, "learning_rate": 2e-3}
_MANY_CORES, _LARGE_GIB, _MOST_THREADS = 8, 40, 8
_PIECES_PER_WORD = 1.3  # of WordPiece, and a mark at the end
_BUNDLED_LAYERS = 6


def kind_of(machine: Machine) -> Kind:
    """Return which row of the tables a machine is."""
    if machine.gpu_gib:
        return "large GPU" if machine.gpu_gib >= _LARGE_GIB else "GPU"
    return "many cores" if machine.cores >= _MANY_CORES else "few cores"


def sized_datasets(params: Params) -> dict[str, list[str]]:
    """Return, by track that has models, the data sets that its sizes go by; ``pairs`` has those of the classifier."""
    models = {"hcl": params.models.hcl, "pgkpr": params.models.pgkpr, "clld": params.models.clld}
    found = {track: list(dict.fromkeys(model.dataset for model in of_track.values()))  # type: ignore[attr-defined]
             for track, of_track in models.items()}
    ranked = params.ranked_datasets
    found["pairs"] = [name for name in params.datasets if name in ranked["attribution"] | ranked["psi"]]
    return {track: names for track, names in found.items() if names}


def fitting_sizes(params: Params, extents: Mapping[str, Extent], machine: Machine) -> dict[str, Any]:
    """Return values, nested like ``params.yaml``, for what params leave to ``sizes: auto``.

    Args:
        params: of the recipe, for its data sets, models and encoder.
        extents: of every data set in :func:`sized_datasets`; the largest of a track decides.
        machine: what they are to fit.
    """
    kind = kind_of(machine)
    values: dict[str, Any] = {"runtime": _runtime(kind, machine)}
    largest = {track: max((extents[name] for name in names), key=lambda extent: extent.train)
               for track, names in sized_datasets(params).items()}
    frozen = round(FROZEN[kind] * _layers(params.encoder.source))
    if "hcl" in largest:
        values |= _hcl(kind, largest["hcl"], frozen)
    if "pgkpr" in largest:
        values |= _pgkpr(kind, largest["pgkpr"])
    if "clld" in largest:
        values |= _clld(params, kind, largest["clld"])
    if "pairs" in largest:
        values |= _keyword_models(kind, largest["pairs"], frozen)
    return values


def _runtime(kind: Kind, machine: Machine) -> dict[str, int]:
    """Return threads, half the cores, because two stages run at a time, and workers."""
    threads = 4 if kind in ("GPU", "large GPU") else machine.cores // 2
    return {"threads": max(1, min(threads, machine.cores, _MOST_THREADS)),
            "workers": min(machine.cores, _MOST_THREADS)}


def _training(track: str, kind: Kind, extent: Extent, passes: int = 1) -> dict[str, int]:
    """Return epochs and batches: as many items as the budget allows, in as many steps as learning takes."""
    budget, items = BUDGET[track][kind], max(1, extent.train * passes)
    epochs = EPOCHS[track] if budget is None else max(1, min(EPOCHS[track], budget // items))
    least, batch = BATCH[track]
    while batch > least and items * epochs < STEPS * batch:
        batch //= 2
    return {"epochs": epochs, "batch_size": batch, "micro_batch": min(batch, MICRO[kind])}


def _length(words: int, per_word: float, kind: Kind) -> int:
    """Return how many pieces of a text are read: those of ``words``, in steps of four, within the machine's limit."""
    return min(LONGEST[kind], max(8, -(-int(words * per_word) // 4) * 4))


def _hcl(kind: Kind, extent: Extent, frozen: int) -> dict[str, Any]:
    inputs, outputs = (_length(words, _PIECES_PER_WORD, kind) for words in (extent.inputs, extent.outputs))
    training = {**HCL[kind].get("training", {}), **_training("hcl", kind, extent), "freeze_layers": frozen,
                "max_source": inputs, "max_target": outputs}
    return {"train_hcl": {**HCL[kind], "training": training}, "generate_hcl": {"max_length": outputs}}


def _pgkpr(kind: Kind, extent: Extent) -> dict[str, Any]:
    # Punctuation is a word of its own here.
    longest = _length(max(extent.inputs, extent.outputs) + 1, 1.0, kind)
    training = {**PGKPR[kind].get("training", {}), **_training("pgkpr", kind, extent, passes=2)}
    return {"train_pgkpr": {**PGKPR[kind], "training": training}, "paraphrase_items": {"max_length": longest},
            "generate_pgkpr": {"max_length": longest}}


def _clld(params: Params, kind: Kind, extent: Extent) -> dict[str, Any]:
    encoders = {params.clld_encoder(name) for name in params.models.clld}
    track = "textcnn" if encoders == {"textcnn"} else "clld"
    training: dict[str, Any] = {**_training(track, kind, extent), "bucket": True}
    if "textcnn" not in encoders and kind in CLLD_RATE:
        training["learning_rate"] = CLLD_RATE[kind]
    values = {"max_length": 2 + _length(extent.inputs, _PIECES_PER_WORD, kind), "training": training}
    if track == "textcnn" and extent.train < FEW_PAIRS:
        values["textcnn"] = {"embedding": 100, "min_count": 1}
    return {"train_clld": values, **({"linear_floor": {"min_count": 1}} if extent.train < FEW_PAIRS else {})}


def _keyword_models(kind: Kind, extent: Extent, frozen: int) -> dict[str, Any]:
    """Return the sizes of what scores keywords: pair classifier, word vectors, S-Tagger."""
    longest = 3 + 2 * _length(max(extent.inputs, extent.outputs), _PIECES_PER_WORD, kind)
    few = extent.train < FEW_PAIRS
    return {"pair_classifier": {**CLASSIFIER[kind], "freeze_layers": frozen, "max_length": longest},
            "word_vectors": {"epochs": 40 if few else 10}, **({"s_tagger": S_TAGGER} if few else {})}


def _layers(source: str) -> int:
    """Return the layers of an encoder, as far as that can be known without loading it; else 0, so none is frozen."""
    config = Path(source.removeprefix("path:")) / "config.json"
    if source.startswith("path:") and config.exists():
        return int(json.loads(config.read_text(encoding="utf-8")).get("num_hidden_layers", 0))
    return _BUNDLED_LAYERS if source == "bundled" else 0


def why(params: Params, extents: Mapping[str, Extent], machine: Machine) -> list[str]:
    """Return in words what was gone by: the machine, and the data sets."""
    lines = [f"sizes: auto, for a machine with {kind_of(machine)} ({machine})"]
    for track, names in sized_datasets(params).items():
        one = max(names, key=lambda name: extents[name].train)
        extent = extents[one]
        output = f" and {extent.outputs} of output" if track != "clld" else ""
        lines.append(f"  {track}: about {extent.train:,} training items of {one}, 95 in 100 with at most "
                     f"{extent.inputs} words of input{output}")
    return lines
