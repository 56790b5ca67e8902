"""Rank the phrases of every text by TextRank."""

import sys
from importlib.metadata import version

import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_metadata, read_table, write_table
from stages.language.tokens import fixed_chunks
from stages.params.data import TextRank
from stages.ranking import ranker
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess, run_stage

_CHUNK = 512


def run(tokens: pa.Table, params: TextRank, workers: int = 1) -> pa.Table:
    """Return the ``textrank`` table of ``tokens``; the same for any number of ``workers``."""
    chunks = fixed_chunks(tokens, _CHUNK)
    tables = map_chunks(ranker, (params.method, params.phrases), chunks, workers, "textrank")
    return pa.concat_tables([SCHEMAS["textrank"].arrow().empty_table(), *tables])


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    paths = DatasetPaths(process.instance)
    tokens = read_table(paths.table("tokens"), "tokens")
    # The tagger decides the candidates, so its version travels with the ranking.
    models = {**read_metadata(paths.table("tokens")).get("models", {}), "pytextrank": version("pytextrank")}
    ranking = run(tokens, params.textrank, params.runtime.workers)
    write_table(paths.table("textrank"), "textrank", ranking, Provenance(
        stage=process.name, params_hash=stage_hash(params, "textrank", process.instance), models=models))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("textrank", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
