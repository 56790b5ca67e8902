"""Train PGKPR, one of its ablations, or a model that it is compared with (METHODS C.3-C.7).

Reads the pairs of the model's data set as words with tags and keyword scores, and its vocabulary; writes the model in
Hugging Face layout, its training history and metrics, and the items that it was trained and will be evaluated on.
With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

import models.losses
import models.precision
import models.rewriters
import models.rows
import models.training
from models.rewriters.auto import rewriter_of
from models.rewriters.config import RewriterConfig
from models.training import Bar, CheckpointStore, fit
from models.training.parallel import place
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, read_metadata
from stages.runtime.device import choose_device
from stages.runtime.distributed import process_group
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.memory import keep_freed_memory
from stages.runtime.precision import settled_precision
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import derived_seed, seed_everything
from stages.runtime.training import (
    loop_settings,
    open_checkpoints,
    processes,
    training_bar,
    training_record,
    warn_of_idle_processes,
)
from stages.tracks import pgkpr
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.keywords import fixed_masks, keyword_rule, training_passes
from stages.tracks.pgkpr.lookup import TrainedOn
from stages.tracks.pgkpr.rates import RATES
from stages.tracks.pgkpr.task import RewriteTask
from stages.tracks.pgkpr.trained import TrainedRewriter, model_card, write_trained
from stages.tracks.pgkpr.vocabulary import Vocabulary

STAGE = "train_pgkpr"
TABLES = ("paraphrase_items", "vocabulary")
# A checkpoint goes on only under the code that began it.
_PACKAGES = (pgkpr, models.rewriters, models.losses, models.training)
_CODE = (Path(__file__), Path(models.precision.__file__), Path(models.rows.__file__),
         *(Path(str(package.__file__)).parent for package in _PACKAGES))


def run(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int, seed: int,
        store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedRewriter:
    """Train a model on the training pairs and keep the epoch of smallest validation loss.

    Validation reads keywords as the model will be used where that is one way: by attribution from the source alone.
    By PSI it is several (METHODS C.6: +X and +S share a model), so it reads those of training, primary_xy.

    Args:
        pairs: table ``paraphrase_items``, all splits.
        vocabulary: of the data set.
        values: plain values of the block ``train_pgkpr`` with the model's overrides, and its learning rate.
        max_length: words of a text that are read and taught.
        seed: fans out by name into weights, order, dropout and coins.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: no training or no validation pair, or rows that do not belong together.
    """
    training = values["training"]
    train, validation = batches_of(pairs, vocabulary, values, max_length, seed)
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = rewriter_of(RewriterConfig.from_params(values, vocabulary.size, max_length))
    nn.Module.to(model, device)
    task = RewriteTask(model, train, validation, training["learning_rate"], training["micro_batch"],
                       training["batch_size"])
    history = fit(task, loop_settings(training), store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedRewriter(model, vocabulary, pairs, history)


def batches_of(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int,
               seed: int) -> tuple[PairBatches, PairBatches]:
    """Return the batches that a model is trained and validated on; arguments and errors as of :func:`run`."""
    keywords = values["keywords"]
    rule = keyword_rule(values["architecture"], keywords["by"])
    mark_all = rule == "attribution" and keywords["mark_all"]
    bag = values["latent_bow"]["memory"] if values["architecture"] == "latent_bow" else None
    train, validation = (_split(pairs, split) for split in ("train", "validation"))
    passes, fixed = training_passes(train, rule, keywords, seed), training_passes(validation, None, {}, seed)
    if rule is not None:
        fixed = [fixed_masks(validation, "psi_xy" if rule == "psi" else "xx", seed, mark_all, max_length)]
    return (PairBatches(train, vocabulary, max_length, passes, mark_all, bag),
            PairBatches(validation, vocabulary, max_length, fixed, bag=bag))


def _split(pairs: pd.DataFrame, split: str) -> pd.DataFrame:
    chosen = pairs[pairs["split"] == split]
    if chosen.empty:
        raise InputError(f"paraphrase_items.parquet: the {split} split is empty. Give more data, or a larger share "
                         f"(ingest.validation).")
    return chosen


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    dataset, seed = params.models.pgkpr[name].dataset, params.model_seed(name)
    tables = [DatasetPaths(dataset).table(kind) for kind in TABLES]
    pairs, words = (read_frame(path, kind) for path, kind in zip(tables, TABLES, strict=True))
    values = params.model(name).plain()
    training, architecture = values["training"], values["architecture"]
    training["learning_rate"] = training["learning_rate"] or RATES[architecture]
    seed_everything(derived_seed(seed, STAGE), params.runtime.threads, params.runtime.deterministic,
                    params.runtime.tf32)
    key = hash_values({**process.computed_values, "data": hash_files(tables), "code": hash_files(_CODE),
                       "torch": torch.__version__})
    max_length = params.paraphrase_items.max_length
    with process_group(choose_device(params.runtime.device)) as device:
        precision = settled_precision(device, params.runtime, training, f"{STAGE}.training")
        store, count = open_checkpoints(process, key, params.runtime.checkpoint_minutes), place()[1]
        warn_of_idle_processes(process, training, count)
        trained = run(pairs, Vocabulary.from_frame(words), values, max_length, seed, store, device,
                      training_bar(process))
    if not process.first:
        return
    rule = keyword_rule(architecture, values["keywords"]["by"])
    on = TrainedOn(dataset, rule, rule == "attribution" and values["keywords"]["mark_all"], max_length)
    provenance = Provenance(process.name, process.params_hash, read_metadata(tables[0]).get("models", {}),
                            precision=precision)
    trained.model.config.computed_in = precision
    write_trained(name, trained, model_card(name, trained, on, values), on, provenance)
    process.measured["training"] = training_record(trained.history, precision, device, count)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
