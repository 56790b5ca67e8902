"""Train a model of the HCL track: HCL, one of its ablations, or a baseline on the same items.

Reads the examples, texts, keywords and keyword graph of the model's data set, and the model that it starts from, if
any; writes the model in Hugging Face layout, its training history and metrics, and the items that it was trained and
will be evaluated on. With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable
from typing import Any

from stages.common.layouts import structure_of
from stages.common.paths import DatasetPaths
from stages.common.settings import GIVEN, Params
from stages.common.tables import read_frame
from stages.common.training import processes
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory
from stages.tracks.common.starts import start_of
from stages.tracks.common.training import Training, train
from stages.tracks.hcl.architecture import TABLES, HclRow
from stages.tracks.hcl.architectures import ARCHITECTURES
from stages.tracks.hcl.items import joined_items

STAGE = "train_hcl"


def _prepared(params: Params, name: str) -> Callable[[int], Training[Any]]:
    model, values = params.models.hcl[name], params.model(name).plain()
    paths = DatasetPaths(model.dataset)
    examples, texts, keywords, nodes = (read_frame(paths.table(schema.name), schema) for schema in TABLES)
    items = joined_items(examples, texts, keywords, nodes)

    def of_seed(seed: int) -> Training[Any]:
        own = values.get(values["architecture"])   # an architecture of `transformers` may begin with a folder's weights
        start = (None if own is not None and own.get("source") == f"{GIVEN}{model.init}" else
                 start_of(model, params, name, seed))
        row = HclRow(name, paths, seed, values, items, nodes, str(texts["language"].iloc[0]), params.encoder.source,
                     params.node_vectors.plain(), params.graph.plain(),
                     structure_of(params.datasets[model.dataset].layout), start)
        return ARCHITECTURES[values["architecture"]].prepared(row)

    return of_seed


def _work(process: StageProcess) -> None:
    train(process, _prepared)


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
