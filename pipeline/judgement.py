"""Human evaluation: blinded sheets for raters, and means, agreement and tests of the filled sheets.

A sheet has the items that all systems share, shuffled for each rater; the key has the system of each output.
"""

import csv
import hashlib
import io
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.text import Text
from scipy.stats import ttest_rel

from keycontrast.cells import no_formula
from keycontrast.errors import InputError, nearest
from keycontrast.files import atomic_file, atomic_folder, sha256_of
from pipeline.markdown import escaped, table
from stages.common.paths import PREDICTED, row_name
from stages.common.schemas import TableSchema
from stages.common.seeds import generator
from stages.common.tables import Provenance, read_frame, read_metadata, write_json, write_table
from stages.tracks.common.schemas import PREDICTIONS

JUDGEMENTS = TableSchema(
    "judgements", "What raters said in filled sheets; written by `keycontrast judge read`, no stage.",
    ("item", "run", "rater", "criterion"), (
        ("item", pa.int64(), "example of table examples"),
        ("run", pa.string(), "run whose output was judged, or `human reference`"),
        ("rater", pa.string(), "rater, named as the sheet"),
        ("criterion", pa.string(), "what was judged, such as fluency"),
        ("score", pa.int32(), "point of the scale"),
    ))
_ROUNDING = 1e-12      # means over raters are fractions
_SHOWN = 40
_SCORES = ["example_id", "run", "rater", "criterion", "score"]
KEY, SHEETS = "key.json", "sheets"
COLUMNS = ["item", "position", "source", "output"]
REFERENCE = "human reference"   # names of runs have no spaces
NO_OUTPUT = "(no output)"
# The papers name their criteria and do not define them: these definitions are ours.
_MEANINGS = {
    "fluency": "Is the output well formed: grammatical, natural, complete? Ignore its content.",
    "meaningfulness": "Does the output make sense for its source: is it on the topic and sensible?",
    "differential": "Does the output use words of its own? A copy of the source gets the lowest score.",
    "accuracy": "Does the output say what the source says, nothing left out and nothing added?",
    "diversity": "How much does the wording differ from the source: other words, order and construction?",
}
_INSTRUCTIONS = """# Instructions for raters

Each row of your sheet shows a source and an output that a person or a program wrote for it. Outputs for the same source
follow each other in random order. Judge each by itself, and do not talk with other raters before all sheets are filled.
Fill in every empty cell with a whole number from {low} (worst) to {high} (best).

{criteria}

Change nothing else: `item` and `position` identify a row. You may sort whole rows and hide columns. An apostrophe
before a sign keeps the spreadsheet from computing the cell. `(no output)` means that there was none: judge it as such.
Save the sheet under its own name as **CSV UTF-8** (in LibreOffice: Text CSV, character set UTF-8).
"""


@dataclass(frozen=True)
class Design:
    """A human evaluation: sampled items, raters, raters of each item, ends of the scale, criteria."""

    items: int
    raters: int
    per_item: int
    low: int
    high: int
    criteria: Sequence[str]


# The papers judged 100 items by three raters each: HCL by the same three, PGKPR by three of ten.
SCALES = {"generate_hcl": (1, 3, ("fluency", "meaningfulness", "differential")),
          "generate_pgkpr": (0, 2, ("fluency", "accuracy", "diversity"))}


def write_sheets(runs: Sequence[str], out: Path, console: Console, items: int = 100, raters: int = 3,
                 per_item: int = 3, references: bool = False, seed: int = 13) -> None:
    """Write the sheets and instructions into ``out/sheets``, and the key, which raters must not see, into ``out``."""
    files = {run: _predictions(run) for run in runs}
    stages = {str(read_metadata(path).get("stage")).partition("@")[0] for path in files.values()}
    if len(stages) > 1 or not stages <= set(SCALES) or len(set(files.values())) < len(runs):
        raise InputError(f"{', '.join(runs)}: made by {', '.join(sorted(stages))}. Judge distinct runs of one of "
                         f"{', '.join(SCALES)}.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out: {out} already exists. Name another folder, or move this one away.")
    sources, outputs = shared_outputs({run: read_frame(path, PREDICTIONS) for run, path in files.items()}, references)
    if outputs.empty:
        raise InputError(f"{', '.join(runs)} share no item. Compare runs of one data set and split.")
    design = Design(min(items, len(sources)), raters, min(per_item, raters), *SCALES[stages.pop()])
    rows = make_sheets(sources, outputs, design, seed)
    key = rows.assign(text=list(map(text_digest, rows["source"], rows["output"]))).drop(columns=["source", "output"])
    with atomic_folder(out) as folder:
        (folder / SHEETS).mkdir()
        for rater, sheet in rows.groupby("rater"):
            (folder / SHEETS / f"{rater}.csv").write_bytes(as_csv(sheet, design.criteria))
        criteria = "\n".join(f"- **{name}**: {_MEANINGS[name]}" for name in design.criteria)
        (folder / SHEETS / "instructions.md").write_text(
            _INSTRUCTIONS.format(low=design.low, high=design.high, criteria=criteria), encoding="utf-8")
        write_json(folder / KEY, {"design": asdict(design), "seed": seed, "rows": key.to_dict("records"),
                                  "runs": {path.as_posix(): sha256_of(path) for path in files.values()}})
    console.print(Text(f"{out}: {design.items} items, {outputs.shape[1]} systems, {raters} raters. Give them {SHEETS}/ "
                       f"and keep {KEY}; then: keycontrast judge read {out}"), soft_wrap=True)


def _predictions(run: str) -> Path:
    """Return the predictions of a run: ``hcl/14`` under that seed, ``hcl`` under its only one."""
    files = {path.parent.relative_to(PREDICTED).as_posix(): path
             for path in sorted(PREDICTED.glob("*/*/predictions.parquet"))}
    matching = [name for name in files if run in (name, row_name(name))]
    if len(matching) != 1:
        if matching:
            raise InputError(f"run {run!r} has predictions of {len(matching)} seeds; name one: {', '.join(matching)}.")
        hint = nearest(run, {*map(row_name, files), *files})
        raise InputError(f"run {run!r} has no predictions; {hint} `keycontrast run generate_hcl@NAME` or "
                         f"generate_pgkpr@NAME makes those of run NAME of params.yaml.")
    return files[matching[0]]


def shared_outputs(predictions: Mapping[str, pd.DataFrame], references: bool = False) -> tuple[pd.Series, pd.DataFrame]:
    """Return the sources of the items that all systems share, and the first output of each system in a column.

    With ``references`` the first reference is one more system, in lower case if all outputs are, so that raters cannot
    recognise it.
    """
    first = {run: table[table["sample"] == 0].set_index("example_id") for run, table in predictions.items()}
    sources, outputs = (pd.concat({run: table[column] for run, table in first.items()}, axis=1, join="inner")
                        for column in ("source", "prediction"))
    for run in sources:
        differing = sources.index[sources[run] != sources.iloc[:, 0]]
        if len(differing):
            raise InputError(f"run {run}: example {differing[0]} has another source than in {sources.columns[0]}. "
                             f"Compare runs of one data set and split.")
    if references:
        lower = all(text == text.lower() for text in outputs.to_numpy().ravel())
        texts = next(iter(first.values()))["references"]
        texts = texts[texts.str.len() > 0].str[0]
        outputs = outputs.assign(**{REFERENCE: texts.str.lower() if lower else texts}).dropna()
    return sources.loc[outputs.index].iloc[:, 0], outputs


def make_sheets(sources: pd.Series, outputs: pd.DataFrame, design: Design, seed: int) -> pd.DataFrame:
    """Return the rows of all sheets; items and outputs are shuffled for each rater.

    A rater of an item judges the outputs of all systems for it, so that raters cancel out in paired tests.
    """
    names = sorted(outputs)
    drawn = generator(seed, "judgement", "items").permutation(np.sort(sources.index))[:design.items]
    rows = []
    for number, share in enumerate(assigned(sorted(drawn.tolist()), design, seed), 1):
        rater = f"rater-{number}"
        order = generator(seed, "judgement", rater, "items").permutation(np.array(share, dtype=int)).tolist()
        for item, example in enumerate(order, 1):
            mixed = generator(seed, "judgement", rater, "systems", example).permutation(len(names))
            for position, run in enumerate((names[index] for index in mixed), 1):
                output = outputs.at[example, run]
                rows.append((rater, item, position, example, run, sources[example],
                             output if output.strip() else NO_OUTPUT))
    return pd.DataFrame(rows, columns=["rater", "item", "position", "example_id", "run", "source", "output"])


def assigned(items: Sequence[int], design: Design, seed: int) -> list[list[int]]:
    """Return the items of each rater; the loads of raters differ by one at most."""
    loads = np.zeros(design.raters, dtype=int)
    shares: list[list[int]] = [[] for _ in range(design.raters)]
    draw = generator(seed, "judgement", "raters")
    for item in items:
        # The least loaded rater first, ties at random: all pairs of raters share items.
        order = np.lexsort((draw.random(design.raters), loads))[:design.per_item]
        loads[order] += 1
        for rater in order:
            shares[rater].append(item)
    return shares


def as_csv(sheet: pd.DataFrame, criteria: Sequence[str]) -> bytes:
    """Return a sheet with empty cells for ``criteria``, with the byte-order mark that spreadsheets need."""
    table = sheet[COLUMNS].assign(**dict.fromkeys(criteria, ""))
    table[["source", "output"]] = table[["source", "output"]].map(harmless)
    text: str = table.to_csv(index=False, lineterminator="\r\n")
    return text.encode("utf-8-sig", errors="replace")


def harmless(text: str) -> str:
    """Return ``text`` on one line, with an apostrophe before a formula."""
    return no_formula("".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in text))


def text_digest(source: str, output: str) -> str:
    """Return a digest of the letters and digits of a row's texts; spreadsheets may alter the rest."""
    plain = ["".join(letter for letter in text.casefold() if letter.isalnum()) for text in (source, output)]
    return hashlib.sha256("\n".join(plain).encode(errors="replace")).hexdigest()[:16]


def write_results(folder: Path, console: Console, partial: bool = False) -> None:
    """Print the results of the sheets below ``folder``, and write them and the scores there."""
    try:
        key = json.loads((folder / KEY).read_text(encoding="utf-8"))
        rows, design = pd.DataFrame(key["rows"]), Design(**key["design"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / KEY}: not the key that `keycontrast judge sheets` wrote ({error}). Name its "
                         f"folder, and restore the original key.") from error
    judgements = read_judgements(folder / SHEETS, rows, design, partial)
    cells = len(rows) * len(design.criteria)
    page = results_page(judgements, design, cells)
    write_table(folder / "judgements.parquet", JUDGEMENTS, judgements, Provenance(
        "judge", sha256_of(folder / KEY), counts={"cells": cells, "missing": cells - len(judgements)}))
    with atomic_file(folder / "results.md") as temporary:
        temporary.write_text(page, encoding="utf-8")
    console.print(Text(f"{page}\nWritten to {folder}: judgements.parquet, results.md"), soft_wrap=True)


def read_judgements(folder: Path, key: pd.DataFrame, design: Design, partial: bool) -> pd.DataFrame:
    """Return the scores; one error lists all problems, which include empty cells unless ``partial``."""
    paths = {rater: folder / f"{rater}.csv" for rater in key["rater"].unique()}
    problems: list[str] = []
    gaps = [f"{path}: missing. Put the filled sheet back under this name." for path in paths.values()
            if not path.is_file()]
    scores = [_read_sheet(path, key[key["rater"] == rater], design, problems, gaps)
              for rater, path in paths.items() if path.is_file()]
    if gaps and not partial:
        problems += [*gaps[:_SHOWN], "--partial accepts incomplete sheets."]
    if problems or not sum(map(len, scores)):
        raise InputError("\n  ".join([f"{folder}: problems of the sheets:", *(problems or ["no score is filled in"])]))
    return pd.concat(scores).rename(columns={"example_id": "item"}).sort_values(list(JUDGEMENTS.key), ignore_index=True)


def _read_sheet(path: Path, key: pd.DataFrame, design: Design, problems: list[str], gaps: list[str]) -> pd.DataFrame:
    """Return the scores of a sheet; problems and empty cells are added to the lists."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    csv.field_size_limit(max(len(text), 1 << 17))
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), restval="")
    wanted = [*COLUMNS, *design.criteria]
    cells = pd.DataFrame([[reader.line_num, *(row.get(name) for name in wanted)] for row in reader],
                         columns=["row", *wanted])
    if cells.isna().any(axis=None) or cells.empty:
        problems.append(f"{path}: row 1: it must be {','.join(wanted)}. Copy it from a new sheet.")
        return pd.DataFrame(columns=_SCORES)
    cells = cells[cells[wanted].map(str.strip).any(axis=1)]
    place = ["item", "position", "text"]
    cells["text"] = list(map(text_digest, cells["source"], cells["output"]))
    cells[place[:2]] = cells[place[:2]].apply(_numbers)
    rows = cells.merge(key, how="outer", on=place, indicator=True)
    foreign = (rows["_merge"] == "left_only") | (rows.duplicated(place) & rows["row"].notna())
    problems += [f"{path}: row {row:.0f}: no row of this sheet has its item, position, source and output, or it is "
                 f"here twice. Sort whole rows only, save as CSV UTF-8, restore it." for row in rows["row"][foreign]]
    gaps += [f"{path}: item {row.item:.0f}, position {row.position:.0f} has no row; put it back."
             for row in rows[rows["_merge"] == "right_only"].itertuples()]
    filled = rows[rows["_merge"] == "both"].melt([*key.columns, "row"], list(design.criteria), "criterion", "cell")
    filled["score"] = _numbers(filled["cell"])
    empty = filled["cell"].str.strip() == ""
    wrong = ~empty & ~filled["score"].isin(range(design.low, design.high + 1))
    for names, part in ((gaps, filled[empty]), (problems, filled[wrong])):
        names += [f"{path}: row {row.row:.0f}, column {row.criterion}: {row.cell.strip()!r} is not a whole number from "
                  f"{design.low} to {design.high}." for row in part.sort_values("row", kind="stable").itertuples()]
    return filled.loc[~empty, _SCORES]


def _numbers(cells: pd.Series) -> pd.Series:
    return pd.to_numeric(cells.str.strip().str.replace(",", "."), errors="coerce")


def levels(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over items of the mean over raters, of each run and criterion."""
    means = judgements.groupby(["run", "criterion", "item"], sort=False)["score"].mean()
    return means.groupby(["run", "criterion"]).agg(mean="mean", sd="std", items="size").reset_index()


def agreement(judgements: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Return a column per criterion: Fleiss' kappa, Cohen's kappas of every two raters; NaN where undefined."""
    from sklearn.metrics import cohen_kappa_score  # slow to import

    columns, points = {}, list(range(design.low, design.high + 1))
    for criterion, part in judgements.groupby("criterion"):
        scores = part.pivot(index=["item", "run"], columns="rater", values="score")
        counts = np.stack([(scores == point).sum(axis=1) for point in points], axis=1)
        counts = counts[counts.sum(axis=1) == design.per_item]
        pairs = {}
        for raters in combinations(sorted(scores, key=lambda name: (len(name), name)), 2):
            both = scores[list(raters)].dropna().astype(int)
            if len(both):
                pairs[" ".join(raters)] = float("nan") if both.stack().nunique() == 1 else cohen_kappa_score(
                    *both.to_numpy().T, labels=points)
        columns[criterion] = pd.Series({"Fleiss": fleiss_kappa(counts), "outputs": len(counts),
                                        "mean of Cohen": pd.Series(pairs, dtype=float).mean(), **pairs}, dtype=object)
    return pd.DataFrame(columns)


def fleiss_kappa(counts: np.ndarray) -> float:
    """Return (mean P - Pe) / (1 - Pe), with P_i = (sum_c n_ic^2 - n) / (n (n - 1)) and Pe = sum_c p_c^2.

    ``counts`` (N, C) has the number of raters, of n, that chose category c for item i. NaN if all agree or n < 2.
    """
    n = counts.sum(axis=1).max(initial=0)
    expected = float(((counts.sum(axis=0) / max(counts.sum(), 1)) ** 2).sum())
    if n < 2 or 1 - expected < _ROUNDING:
        return float("nan")
    observed = ((counts.astype(float) ** 2).sum(axis=1) - n) / (n * (n - 1))
    return float((observed.mean() - expected) / (1 - expected))


def paired_tests(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return a paired two-tailed t-test on items' means per criterion and two runs; NaN if differences are equal."""
    means = judgements.groupby(["criterion", "item", "run"])["score"].mean().unstack()
    rows = []
    for criterion, scores in means.groupby("criterion", sort=False):
        for first, second in combinations(sorted(scores), 2):
            both = scores[[first, second]].dropna()
            difference = both[first] - both[second]
            constant = len(both) < 2 or np.ptp(difference) < _ROUNDING
            t, p = (np.nan, np.nan) if constant else ttest_rel(both[first], both[second])
            rows.append({"criterion": criterion, "first": first, "second": second, "items": len(both),
                         "difference": difference.mean(), "t": t, "p": p})
    return pd.DataFrame(rows, columns=["criterion", "first", "second", "items", "difference", "t", "p"])


def results_page(judgements: pd.DataFrame, design: Design, cells: int) -> str:
    """Return the means of systems, the agreement of raters and the tests as Markdown."""
    return "\n".join([
        "# Human evaluation", "", f"{design.items} items, {design.raters} raters, {design.per_item} of each item, "
        f"scores from {design.low} to {design.high}. {cells - len(judgements):,} of {cells:,} cells are empty.", "",
        "## Systems", "", "Mean and standard deviation over items of the mean over raters.", "",
        *_table(levels(judgements)), "",
        "## Agreement", "", "Cohen's kappa of every two raters, and their mean. A kappa is "
        "undefined where all ratings are the same, or no output has all its raters.", "",
        *_table(agreement(judgements, design).rename_axis("kappa").reset_index()), "",
        "## Differences", "", "Paired two-tailed t-test of first minus second; each p is of its comparison alone.", "",
        *_table(paired_tests(judgements)), ""])


def _table(frame: pd.DataFrame) -> list[str]:
    cells = frame.map(lambda cell: f"{cell:.4f}" if isinstance(cell, float) else escaped(cell))
    return table(list(frame), cells.replace("nan", "undefined").to_numpy().tolist())
