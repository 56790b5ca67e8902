"""Train PGKPR, one of its ablations, or a model that it is compared with.

Reads the pairs of the model's data set as words with tags and keyword scores, and its vocabulary; writes the model in
Hugging Face layout, its training history and metrics, and the items that it was trained and will be evaluated on.
With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable
from typing import Any

from stages.common.paths import DatasetPaths
from stages.common.settings import Params
from stages.common.tables import read_frame, read_metadata
from stages.common.training import processes
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory
from stages.tracks.common.starts import start_of
from stages.tracks.common.training import Training, train
from stages.tracks.pgkpr.architecture import STAGE, PgkprRow
from stages.tracks.pgkpr.architectures import ARCHITECTURES
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, VOCABULARY, Vocabulary

TABLES = (PARAPHRASE_ITEMS, VOCABULARY)


def _prepared(params: Params, name: str) -> Callable[[int], Training[Any]]:
    dataset, values = params.models.pgkpr[name].dataset, params.model(name).plain()
    tables = [DatasetPaths(dataset).table(schema.name) for schema in TABLES]
    pairs, words = (read_frame(path, schema) for path, schema in zip(tables, TABLES, strict=True))
    vocabulary, models = Vocabulary.from_frame(words), read_metadata(tables[0]).get("models", {})
    return lambda seed: ARCHITECTURES[values["architecture"]].prepared(
        PgkprRow(name, dataset, seed, values, pairs, vocabulary, params.paraphrase_items.max_length, tables, models,
                 start_of(params.models.pgkpr[name], params, name, seed)))


def _work(process: StageProcess) -> None:
    train(process, _prepared)


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
