"""`keycontrast judge`: blinded sheets for raters, and what the filled ones say (METHODS E.5)."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from pipeline.judgement.design import INSTRUCTIONS, PRESETS, Design, design_of, instructions
from pipeline.judgement.filled import Judgements, read_judgements
from pipeline.judgement.schema import JUDGEMENTS
from pipeline.judgement.sheets import REFERENCE, Key, key_of, make_sheets, read_key, shared_outputs
from pipeline.judgement.statistics import summary, weights_called
from pipeline.markdown import escaped, table
from stages.common.paths import PREDICTED, row_name
from stages.common.tables import Provenance, read_frame, read_metadata, write_json, write_table
from stages.results.published import NOTES, paper
from stages.results.tracks import TRACKS
from stages.run.durable import atomic_file, atomic_folder
from stages.run.errors import InputError, nearest
from stages.tracks.common.schemas.predictions import PREDICTIONS

KEY, SHEETS = "key.json", "sheets"
RESULTS = ("judgements.parquet", "summary.json", "results.md")


def sheets(runs: Sequence[str], out: Path, console: Console, *, like: str | None = None, items: int | None = None,
           raters: int | None = None, per_item: int | None = None, scale: str | None = None,
           criteria: str | None = None, references: bool = False, seed: int | None = None) -> None:
    """Write blinded sheets for raters, their instructions, and the key, which raters must not see.

    Items are a seeded sample of those that all runs have; outputs of all runs for an item stand below each other, in
    an order drawn for each item and rater. Give raters the folder DIR/sheets, and keep DIR/key.json.

    Example: `keycontrast judge sheets hcl hcl-no-graph --out judged`, or
    `keycontrast judge sheets pgkpr transformer --references --items 40 --out judged`

    Args:
        runs: names of runs that have predictions; `hcl/14` is run `hcl` under seed 14.
        out: folder to write; it must be new, or hold sheets that nobody has touched.
        console: where to say what was written.
        like: `hcl` (100 items, 3 raters, 1-3, fluency, meaningfulness, differential) or `pgkpr` (100 items, 3 of 10
            raters each, 0-2, fluency, accuracy, diversity); None for the track of the runs.
        items, raters, per_item, scale, criteria: in place of the preset's; without ``items``, all that the runs share
            if they are fewer.
        references: judge the first reference as one more system.
        seed: of sample and orders; the project's if None.

    Raises:
        InputError: no such run, runs of different data or tracks, too few shared items, or a folder with something in
            it.
    """
    tracks = {run: _track(run) for run in _distinct(runs)}
    if len(set(tracks.values())) > 1:
        named = ", ".join(f"{run} ({track})" for run, track in tracks.items())
        raise InputError(f"runs of both tracks: {named}. PGKPR writes words in lower case with spaces between them, "
                         f"which no rater would fail to notice; judge runs of one track.")
    design = design_of(like or next(iter(tracks.values())), items, raters, per_item, scale, criteria)
    out = out.resolve()
    _check_free(out)
    predictions = {run: _predictions(run) for run in _distinct(runs)}
    seed = _project_seed() if seed is None else seed
    outputs = shared_outputs(predictions, references)
    if items is None and 0 < len(outputs.sources) < design.items:
        console.print(Text(f"The runs share {len(outputs.sources)} items, fewer than the {design.items} of the design: "
                           f"all of them are judged."), soft_wrap=True)
        design = replace(design, items=len(outputs.sources))
    made = make_sheets(outputs, design, seed)
    origins = {run: _origin(run) for run in predictions} | ({REFERENCE: {}} if references else {})
    key = key_of(made, design, seed, origins)
    counts = {sheet.rater: len(sheet.rows) for sheet in made}
    with atomic_folder(out) as folder:
        (folder / SHEETS).mkdir()
        for sheet in made:
            (folder / SHEETS / f"{sheet.rater}.csv").write_bytes(sheet.content)
        (folder / SHEETS / INSTRUCTIONS).write_text(instructions(design, counts), encoding="utf-8")
        write_json(folder / KEY, key.as_values())
    judged = f"{design.judges} of them each item" if design.judges < design.raters else "all of them every item"
    console.print(Text(f"{out}: {design.items} items, {len(origins)} systems, {design.raters} raters, {judged}; "
                       f"{sum(counts.values()):,} rows, {len(design.criteria)} scores each.\nGive raters {SHEETS}/, "
                       f"keep {KEY}; then: keycontrast judge read {out}"), soft_wrap=True)


def read(folder: Path, console: Console, *, partial: bool = False, weights: str = "none") -> None:
    """Read filled sheets back: means, agreement of raters, and paired tests between systems.

    Every cell that is empty, no number or out of scale is named, all at once. Writes judgements.parquet, summary.json
    and results.md into the folder, and prints the last.

    Example: `keycontrast judge read judged`, or, while sheets are still out, `keycontrast judge read judged --partial`

    Args:
        folder: that `keycontrast judge sheets` wrote.
        console: where to print.
        partial: take incomplete sheets, and say how much is missing.
        weights: of disagreements in Cohen's kappa: none, linear or quadratic.

    Raises:
        InputError: the key is missing, sheets have problems, or there are no such weights.
    """
    chosen = weights_called(weights)
    key = read_key(folder / KEY)
    judgements = read_judgements(folder / SHEETS, key, partial)
    found = {"design": asdict(key.design), "seed": key.seed, "runs": key.runs, "cells": judgements.expected,
             "missing": judgements.missing, **summary(judgements.table, key.design, chosen)}
    write_table(folder / RESULTS[0], JUDGEMENTS, judgements.table, Provenance(
        "judge", _digest(folder / KEY), counts={"cells": judgements.expected, "missing": judgements.missing}))
    write_json(folder / RESULTS[1], found)
    page = results_page(key, judgements, found)
    with atomic_file(folder / RESULTS[2]) as temporary:
        temporary.write_text(page, encoding="utf-8")
    console.print(Text(page), soft_wrap=True)
    console.print(Text(f"Written to {folder}: {', '.join(RESULTS)}"), soft_wrap=True)


def _check_free(out: Path) -> None:
    """Refuse a folder in which anything could be lost: sheets that were touched, results, foreign files."""
    if not out.exists():
        return
    remedy = "Name another folder with --out, or move this one away."
    if not out.is_dir():
        raise InputError(f"--out: {out} is a file. {remedy}")
    names = {path.name for path in out.iterdir()}
    if not names:
        return
    foreign = sorted(names - {KEY, SHEETS})
    if foreign or KEY not in names:
        raise InputError(f"--out: {out} already holds {foreign[0] if foreign else SHEETS}. {remedy}")
    written = read_key(out / KEY).written
    for path in sorted((out / SHEETS).iterdir()) if (out / SHEETS).is_dir() else []:
        if path.name != INSTRUCTIONS and written.get(path.stem) != _digest(path):
            raise InputError(f"--out: {path} is not as it was written: somebody may have filled it in. {remedy}")


def _distinct(runs: Sequence[str]) -> list[str]:
    if not runs:
        raise InputError("name at least one run, such as `keycontrast judge sheets hcl --out judged`.")
    for run in runs:
        if runs.count(run) > 1:
            raise InputError(f"run {run} is named twice; name each run once.")
    return list(runs)


def _predictions(run: str) -> pd.DataFrame:
    return read_frame(_file(run), PREDICTIONS)


def _file(run: str) -> Path:
    """Return the predictions of a run: of ``hcl/14`` under that seed, of ``hcl`` under the only one that there is.

    Raises:
        InputError: there are none, or several.
    """
    found = {path.parent.relative_to(PREDICTED).as_posix(): path
             for path in sorted(PREDICTED.glob("*/*/predictions.parquet"))}
    own = [name for name in found if run in (name, row_name(name))]
    if not own:
        near = nearest(run, {*map(row_name, found), *found})
        raise InputError(f"no run {run!r} has predictions; {near} They are made by `keycontrast run "
                         f"generate_hcl@{row_name(run)}`, or generate_pgkpr@{row_name(run)}.")
    if len(own) > 1:
        raise InputError(f"run {run} has predictions of several seeds; name those to judge, such as {own[0]}: "
                         f"{', '.join(own)}.")
    return found[own[0]]


def _track(run: str) -> str:
    """Return the track of a run by the stage that wrote its predictions."""
    stage = str(read_metadata(_file(run)).get("stage"))
    track = next((one for one in TRACKS.values() if stage.startswith(f"{one.computed_by}@")), TRACKS["hcl"])
    if track.classifies:
        raise InputError(f"run {run} is of the {track.title} track, which classifies: it has written no texts to "
                         f"judge.")
    return track.name


def _origin(run: str) -> dict[str, str]:
    path = _file(run)
    return {"predictions": path.as_posix(), "sha256": _digest(path)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _project_seed() -> int:
    from stages.params import load_params  # pydantic is slow to import, and --seed does without

    return load_params().seed


def results_page(key: Key, judgements: Judgements, found: dict[str, Any]) -> str:
    """Return what filled sheets say as Markdown: systems, agreement, tests, and the published table beside."""
    design, missing = key.design, sum(judgements.missing.values())
    judged = "each item by all" if design.judges == design.raters else f"each item by {design.judges}"
    state = "Every cell is filled." if not missing else (
        f"**Not complete**: {missing:,} of {judgements.expected:,} cells are empty "
        f"({', '.join(f'{rater}: {count:,}' for rater, count in judgements.missing.items() if count)}).")
    lines = ["# Human evaluation", "",
             f"{design.items} items, {design.raters} raters, {judged}, scores from {design.low} to {design.high}. "
             f"{state}", "", "## Systems", "",
             "Mean over items of the mean over raters, ± standard deviation over items.", "",
             *_systems(found, design), "", "## Agreement", "", *_agreement(found), "", "## Differences", "",
             "Paired two-tailed t-test on per-item means. Each p is of its comparison alone; "
             f"{len(found['tests'])} were made.", "", *_tests(found)]
    beside = [like for like, preset in PRESETS.items()
              if (design.criteria, design.points) == (preset.criteria, preset.points)]
    return "\n".join([*lines, *(["", *_published(beside[0])] if beside else [])]) + "\n"


def _systems(found: dict[str, Any], design: Design) -> list[str]:
    rows = []
    for run, levels in found["systems"].items():
        cells = [f"{_fixed(level['mean'])} ± {_fixed(level['sd'])}" for level in levels.values()]
        items = sorted({level["items"] for level in levels.values()})
        rows.append([escaped(run), *cells, " to ".join(str(count) for count in (items[0], items[-1])[:len(items)])])
    return table(["system", *map(escaped, design.criteria), "items"], rows)


def _agreement(found: dict[str, Any]) -> list[str]:
    weights = next(iter(found["agreement"].values()))["cohen_weights"]
    rows = []
    for name, values in found["agreement"].items():
        pairs = ", ".join(f"{pair['raters'][0].removeprefix('rater-')}-{pair['raters'][1].removeprefix('rater-')}: "
                          f"{_fixed(pair['kappa'])}" for pair in values["cohen"])
        rows.append([escaped(name), _fixed(values["fleiss"]) if "note" not in values else values["note"],
                     str(values["outputs"]), _fixed(values["cohen_mean"]), pairs or "none"])
    kind = "" if weights == "none" else f", {weights} weights"
    return table(["criterion", "Fleiss' kappa", "outputs", f"mean Cohen's kappa{kind}", "by raters"], rows)


def _tests(found: dict[str, Any]) -> list[str]:
    if not found["tests"]:
        return ["Only one system was judged."]
    rows = [[*(escaped(test[name]) for name in ("criterion", "first", "second")), _fixed(test["difference"], sign=True),
             test["t"] if isinstance(test["t"], str) else _fixed(test["t"], sign=True), str(test["df"]),
             _p(test["p"]), test.get("note", "")] for test in found["tests"]]
    heads = ["criterion", "first", "second", "first - second", "t", "df", "p", "note"]
    if not any(test.get("note") for test in found["tests"]):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return table(heads, rows, left=3)


def _published(track: str) -> list[str]:
    """Return the published table that has the criteria and scale of preset ``track``."""
    beside = next(one for one in paper(track).tables.values() if one.human)
    rows = [[escaped(row.name), *(cell.text for cell in row.cells.values())] for row in beside.rows.values()]
    lines = ["## Published", "", f"{beside.title}. Other systems, texts and raters: people's scales do not carry over, "
             "so that only differences within a table mean anything.", ""]
    kappa = paper(track).facts.get("kappa")
    if kappa:
        rows.append(["kappa", *(f"{kappa[name]:.2f}" for name in beside.metrics)])
    lines += table(["system", *beside.headings], rows)
    return lines + [line for flag in beside.flags for line in ("", NOTES[flag])]


def _fixed(value: float | None, sign: bool = False) -> str:
    return "undefined" if value is None else f"{value:{'+' if sign else ''}.3f}"


def _p(value: float | None) -> str:
    if value is None:
        return "undefined"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
