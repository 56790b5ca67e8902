"""Sum up every track in a few numbers per run, and its trainings in a curve per model: what is committed and compared.

Writes into ``metrics/RECIPE/`` what git keeps and ``dvc metrics`` and ``dvc plots`` show, without an artifact being
there: ``TRACK.json``, ``curves/TRACK.csv`` and, of classifiers, ``confusion/RUN.csv`` with a row per evaluated text.
Numbers are rounded to four digits after the point here and nowhere else: readers that need all of them, such as the
report, read the artifacts.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stages.artifacts.paths import HeadlinePaths, ModelPaths, RunPaths
from stages.artifacts.tables import atomic_folder, read_frame, write_json
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.runtime.settings import Params

DIGITS = 4
# Of each track the metrics that its table in the terminal shows, and the column of the history that judges an epoch.
HEADLINES = {
    "hcl": (("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy", "source_bleu"), "validation_loss"),
    "pgkpr": ((*(f"released_bleu_{order}" for order in range(1, 5)),
               *(f"released_py_rouge_{kind}" for kind in ("1", "2", "l")), "source_bleu"), "validation_loss"),
    "clld": (("accuracy", "macro_f1", "weighted_f1", "nll", "brier", "ece"), "validation_accuracy")}


def headlines(metrics: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the values called ``names`` of every run, rounded.

    Args:
        metrics: content of ``metrics.json`` by run.
        names: of metrics; a run without one of them goes without it.
    """
    return {run: {name: round(found["run"][name], DIGITS) for name in names if found["run"].get(name) is not None}
            for run, found in metrics.items()}


def curves(histories: Mapping[str, pd.DataFrame], judged_by: str) -> pd.DataFrame:
    """Return what tells how good each epoch was, the models below each other, rounded.

    Args:
        histories: ``history.csv`` by model.
        judged_by: the column of a history that is taken.

    Returns:
        Columns ``epoch``, ``model`` and ``validation``.
    """
    parts = [pd.DataFrame({"epoch": history["epoch"], "model": model, "validation": history[judged_by].round(DIGITS)})
             for model, history in histories.items()]
    return pd.concat(parts) if parts else pd.DataFrame(columns=["epoch", "model", "validation"])


def confusion(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return a row per text of table ``class_predictions``, as DVC's template ``confusion`` counts them."""
    rows = predictions[["label", "predicted"]].rename(columns={"label": "actual"})
    return rows.sort_values(["actual", "predicted"])


def _work(process: StageProcess) -> None:
    params = process.params
    paths = HeadlinePaths(params.recipe)
    for track, (names, _) in HEADLINES.items():
        metrics = {run: json.loads(_made(RunPaths(run).metrics).read_text(encoding="utf-8"))
                   for run in getattr(params.runs, track)}
        write_json(paths.metrics(track), headlines(metrics, names))
    _write_tables(paths.curves, _curves(params))
    _write_tables(paths.confusion, ((run, confusion(read_frame(
        _made(RunPaths(run).predictions), "class_predictions", ["label", "predicted"]))) for run in params.runs.clld))


def _curves(params: "Params") -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the curves of each track that has models."""
    for track, (_, judged_by) in HEADLINES.items():
        if models := getattr(params.models, track):
            yield track, curves({name: pd.read_csv(_made(ModelPaths(name).history)) for name in models}, judged_by)


def _made(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run`.")
    return path


def _write_tables(folder: Path, tables: Iterable[tuple[str, pd.DataFrame]]) -> None:
    with atomic_folder(folder) as temporary:
        for name, rows in tables:
            rows.to_csv(temporary / f"{name}.csv", index=False)


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("headlines", _work, argv, instance=None)


if __name__ == "__main__":
    sys.exit(main())
