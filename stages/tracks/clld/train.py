"""Train a classifier of the CLLD track: one row of its table, with one encoder, on one data set.

Reads the labelled texts of the model's data set, and the confusing pairs of another model where the row takes them from
there; writes the model in Hugging Face layout, its training history and metrics, the texts that it is evaluated on, its
confusions on the validation split, and its label distance matrix over the training. The test split is never looked at.
With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.settings import Params, earlier_model
from stages.common.tables import read_frame
from stages.common.training import processes
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory
from stages.tracks.clld.architecture import STAGE, ClldRow
from stages.tracks.clld.architectures import architecture_of
from stages.tracks.clld.pairs import Pairs, chosen_pairs, named_pairs
from stages.tracks.clld.rows import source_of
from stages.tracks.clld.schemas.trained import CONFUSING_PAIRS
from stages.tracks.clld.texts import classes_of, read_labelled_texts
from stages.tracks.common.training import Training, train

if TYPE_CHECKING:
    from stages.tracks.clld.params import ClldModel as ModelBlock


def _pairs(params: Params, name: str, seed: int, classes: Sequence[str]) -> Pairs:
    """Return the pairs of classes that model ``name`` sets apart, as indices; none for a row that has none.

    Raises:
        InputError: a class is unknown, or the model that they are taken from confuses nothing.
    """
    block: ModelBlock = params.models.clld[name]
    if block.pairs is not None:
        return named_pairs(block.pairs, classes, f"models.clld.{name}.pairs")
    if (other := earlier_model(block)) is not None:
        path = ModelPaths(other, params.earlier_seed(name, seed)).confusing_pairs
        return chosen_pairs(read_frame(path, CONFUSING_PAIRS), classes, other)
    return []


def _prepared(params: Params, name: str) -> Callable[[int], Training[Any]]:
    block, paths = params.models.clld[name], DatasetPaths(params.models.clld[name].dataset)
    items, source = read_labelled_texts(paths), source_of(params, name)
    place = "encoder.source" if block.encoder is None else f"models.clld.{name}.encoder"
    classes = classes_of(items)
    return lambda seed: architecture_of(source).prepared(
        ClldRow(name, paths, seed, params.model(name).plain(), block.contrast, _pairs(params, name, seed, classes),
                source, place, items))


def _work(process: StageProcess) -> None:
    train(process, _prepared)


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
