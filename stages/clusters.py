"""Group the training examples by the keyword of their input."""

import sys

import pandas as pd

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, write_table
from stages.graphs.triples import keyword_triples, with_keyword
from stages.runtime.process import StageProcess, run_stage


def run(examples: pd.DataFrame, keywords: pd.DataFrame) -> pd.DataFrame:
    """Return table ``clusters`` (HCL 3.1): one row per training example whose input has a keyword.

    Args:
        examples: table ``examples``.
        keywords: table ``keywords``.
    """
    triples = keyword_triples(examples, keywords)
    members = triples[with_keyword(triples, "input_keyword")]
    return members.rename(columns={"input_keyword": "keyword"}).reset_index(drop=True)


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    paths = DatasetPaths(process.instance)
    clusters = run(read_frame(paths.table("examples"), "examples"), read_frame(paths.table("keywords"), "keywords"))
    write_table(paths.table("clusters"), "clusters", clusters, Provenance(
        stage=process.name, params_hash=stage_hash(load_params(), "clusters", process.instance),
        counts={"clusters": int(clusters["keyword"].nunique())}))


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("clusters", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
