"""Blinded sheets for raters: the items that all systems share, shuffled for each rater, and the key to them."""

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from keycontrast.errors import InputError, nearest
from keycontrast.files import atomic_folder, sha256_of
from stages.common.paths import PREDICTED, row_name
from stages.common.seeds import generator
from stages.common.tables import read_frame, read_metadata, write_json
from stages.tracks.common.schemas import PREDICTIONS

KEY, SHEETS = "key.json", "sheets"
COLUMNS = ["item", "position", "source", "output"]
REFERENCE = "human reference"   # no run can have this name: their names have no spaces
NO_OUTPUT = "(no output)"
# First letters of formulas in spreadsheets, also in full width.
_FORMULA = frozenset("=+-@＝＋－＠")
# The papers name their criteria and do not define them: the wording is ours.
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
    """Write the sheets and instructions into ``out/sheets``, for raters, and the key into ``out``, not for raters."""
    files = {run: _predictions(run) for run in runs}
    stages = {str(read_metadata(path).get("stage")).partition("@")[0] for path in files.values()}
    if len(stages) > 1 or not stages <= set(SCALES) or len(files) < len(runs):
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
        hint = nearest(run, matching or {*map(row_name, files), *files})
        raise InputError(f"run {run!r} has predictions of {len(matching)} seeds; {hint} `keycontrast run "
                         f"generate_hcl@{row_name(run)}`, or generate_pgkpr@{row_name(run)}, makes them.")
    return files[matching[0]]


def shared_outputs(predictions: Mapping[str, pd.DataFrame], references: bool = False) -> tuple[pd.Series, pd.DataFrame]:
    """Return the source and each system's first output (a column per system) of the items that all systems share.

    With ``references`` the first reference is one more system, in lower case if all outputs are: capitals would give
    it away. Sources that differ are an InputError.
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
    """Return the rows of all sheets: rater, item, position, example_id, run, source, output.

    A rater of an item judges the outputs of all systems for it, so that paired tests are free of differences between
    raters. Orders of items and of outputs are drawn for each rater.
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
        # The least loaded first, ties as drawn: all pairs of raters come to share items.
        order = np.lexsort((draw.random(design.raters), loads))[:design.per_item]
        loads[order] += 1
        for rater in order:
            shares[rater].append(item)
    return shares


def as_csv(sheet: pd.DataFrame, criteria: Sequence[str]) -> bytes:
    """Return a sheet with empty cells for ``criteria``, in UTF-8 with the byte-order mark that spreadsheets need."""
    table = sheet[COLUMNS].assign(**dict.fromkeys(criteria, ""))
    table[["source", "output"]] = table[["source", "output"]].map(harmless)
    text: str = table.to_csv(index=False, lineterminator="\r\n")
    return text.encode("utf-8-sig", errors="replace")


def harmless(text: str) -> str:
    """Return ``text`` on one line, with an apostrophe before what a spreadsheet would compute."""
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in text)
    return f"'{plain}" if plain.strip()[:1] in _FORMULA and plain.strip() else plain


def text_digest(source: str, output: str) -> str:
    """Return a digest of the letters and digits of a row's texts; spreadsheets alter the rest."""
    plain = ["".join(letter for letter in text.casefold() if letter.isalnum()) for text in (source, output)]
    return hashlib.sha256("\n".join(plain).encode(errors="replace")).hexdigest()[:16]
