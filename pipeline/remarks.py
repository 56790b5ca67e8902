"""What is said beside predictions: how good the run is, and what of a text its model cannot read."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from stages.common.paths import RunPaths
from stages.common.tables import read_table
from stages.run.log import logger
from stages.tracks.common.track import Track

_LOG = logger("predict")
# Metrics of metrics.json in which a run should be ahead of copying the source, and their names.
_AHEAD = {"corpus_bleu_4": "corpus BLEU-4", "ibleu": "iBLEU"}
_FEW_DISTINCT = 0.5     # a smaller share of distinct outputs means that a model says the same of many texts
_FIRST = 3      # texts whose problems are spelt out


def standing(track: Track, run: str, seed: int) -> str | None:
    """Return in a sentence what is wrong with a rewriting run's outputs on its evaluated items; None if nothing is.

    That is: it scores below the floor of copying the source, half of its outputs are repetitions, or nobody knows, as
    it was not evaluated.
    """
    paths = RunPaths(run, seed)
    if not (paths.metrics.exists() and paths.predictions.exists()):
        return (f"run {run} is not evaluated, so nothing is known of how good its outputs are; `keycontrast run "
                f"{track.evaluated_by}@{run}` does it.")
    metrics = json.loads(paths.metrics.read_text(encoding="utf-8"))
    own, copy = metrics["run"], metrics["floors"].get("copy", {})
    found = [f"{title} {100 * own[name]:.1f}, copying the source {100 * copy[name]:.1f}"
             for name, title in _AHEAD.items() if name in own and name in copy and own[name] < copy[name]]
    outputs = read_table(paths.predictions, track.schemas["predictions"], ["sample", "prediction"]).to_pandas()
    outputs = outputs.loc[outputs["sample"] == 0, "prediction"]
    distinct = outputs.nunique() / max(1, len(outputs))
    found += [f"{100 * distinct:.0f} % of its outputs are distinct"] if distinct < _FEW_DISTINCT else []
    return f"run {run} is poor on its {len(outputs)} evaluated items: {'; '.join(found)}." if found else None


def with_remarks(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield ``lines``; warn of the first whose texts are cut or hold unknown words, and at the end say of how many."""
    count = 0
    for line in lines:
        told = []
        if line.get("cut_words"):
            told.append(f"the model reads a part; cut off: {' '.join(line['cut_words'])}")
        if line.get("unknown_words"):
            told.append(f"not in the model's vocabulary: {' '.join(line['unknown_words'])}")
        if told:
            count += 1
            if count <= _FIRST:
                _LOG.warning("%r: %s", line["source"], "; ".join(told))
        yield line
    if count > _FIRST:
        _LOG.warning("%d texts are cut or hold unknown words; see cut_words and unknown_words of each line", count)
