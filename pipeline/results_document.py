"""Write the results of the project in the working folder into docs/results.md, in a block that has a name.

Reads params.yaml and the metrics under artifacts/. A document holds a block for every recipe that was run, each
between `<!-- results NAME: ... -->` and `<!-- /results NAME -->`; only the named one is written, what stands
outside of blocks is left as it is, and a block that is not there yet is put at the end. The report page shows the
same results in full.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from pipeline.markdown import escaped, table
from stages.common.settings import Params, read_params
from stages.metrics.registered import Metric, metric
from stages.results.classifiers import steps
from stages.results.gather import read_results, require_comparison, require_trained
from stages.results.model import BETTER, Block, Difference, Results, System, Value
from stages.results.page.labels import settings_text
from stages.results.published import NOTES, PublishedRow
from stages.results.tracks import TRACKS
from stages.tracks.registry import track_of_model

DOCUMENT = Path("docs") / "results.md"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NOTHING = "–"


def begin(name: str) -> str:
    """Return the line that opens the block ``name``."""
    return f"<!-- results {name}: made by `python -m pipeline.results_document {name}` -->"


def end(name: str) -> str:
    """Return the line that closes the block ``name``."""
    return f"<!-- /results {name} -->"


def block_text(name: str, params: Params) -> str:
    """Return the text of a block: what was run, and the tables of each data set.

    Raises:
        InputError: something is missing or broken; the message names the stage to run.
    """
    if not any(track.runs(params) for track in TRACKS.values()):
        raise InputError("params.yaml: runs.hcl, runs.pgkpr and models.clld are empty, so that there are no results. "
                         "Take a recipe with runs: `keycontrast use cpu-hcl-qqp --data DIR`.")
    require_comparison(params, TRACKS.values())
    require_trained(params, TRACKS.values())
    results, level = read_results(params), f"{100 * params.evaluation.level:g} %"
    lines = [f"### {name}: what was run", "", f"Recipe {escaped(params.recipe)}.", "", *_rows_run(params, results)]
    for block in results.blocks:
        place, track = f"### {name}, {escaped(block.label)}", block.track
        beside = f" *Paper* rows are as published. {track.differs} differ." if any(
            system.published for system in block.systems) else ""
        lines += ["", f"{place}: as {track.title} reports it", "",
                  f"Split {block.split}, {block.counts.get('examples', 0):,} {track.items}. Means over seeds ± their "
                  f"standard deviation; intervals are bootstrapped over items.{beside}", "", *_main_table(block, level)]
        if columns := _measured(track.further, block):
            rows = [[_name(system), *(_text(system.values.get(one.key), one) for one in columns)]
                    for system in (*block.floors, *block.systems)]
            lines += ["", f"{place}: further metrics", "", *table(["row", *(one.name for one in columns)], rows)]
        lines += ["", f"{place}: differences", "", *_differences(block, f"{100 * params.compare.level:g} %")]
    return "\n".join(lines)


def _rows_run(params: Params, results: Results) -> list[str]:
    """Return each row: what it is, what differs from the recipe, its seeds, and the epochs that it was trained."""
    trained = {model.name: model for model in results.models}
    models = {run.name: trained[run.model] for run in results.runs}
    rows = []
    for system in (system for block in results.blocks for system in block.systems):
        own = list({models[run].name: models[run] for run in system.runs}.values())
        starts = {track_of_model(params, model.paths.name).follows(params, model.paths.name).get("init")
                  for model in own}
        changes = [settings_text(system.changes), *(f"starts from {start}" for start in starts if start)]
        rows.append([escaped(system.name), escaped(system.label),
                     escaped("; ".join(filter(None, changes)) or "nothing"), ", ".join(map(str, system.seeds)),
                     " ".join(f"{model.metrics.get('best_epoch')}/{model.metrics.get('epochs')}" for model in own)])
    return table(["row", "what it is", "what differs from the recipe", "seeds", "epoch kept/run"], rows, left=3)


def _main_table(block: Block, level: str) -> list[str]:
    """Return the table as the track's paper reports it, every row with its interval and the published row below it.

    Of two published rows of a system the last stands there, that of the ablations.
    """
    columns, scale = _measured(list(map(metric, block.track.reported)), block), block.track.scale
    rows, flags, beside = list[list[str]](), list[str](), set[str]()
    for system in (*block.floors, *block.systems):
        values = [(system.values.get(column.key), column) for column in columns]
        rows.append([_name(system), *(_text(value, column, scale) for value, column in values)])
        if any(value and value.interval for value, _ in values):
            rows.append([f"{level} interval", *(
                " to ".join(column.text(limit, scale) for limit in value.interval) if value and value.interval
                else _NOTHING for value, column in values)])
        # Two readings of one row of the paper stand beside it together.
        if system.published and system.published[-1].name not in beside:
            printed = system.published[-1]
            beside.add(printed.name)
            rows.append(_published_cells(printed, columns))
            flags += [printed.flag, *(printed.cells[one.key].flag for one in columns if one.key in printed.cells)]
    lines = table(["row", *map(block.track.heading, columns)], rows)
    return lines + [line for flag in dict.fromkeys(filter(None, flags)) for line in ("", f"({flag}) {NOTES[flag]}")]


def _published_cells(row: PublishedRow, columns: Sequence[Metric]) -> list[str]:
    found = [row.cells.get(column.key) for column in columns]
    return [_flagged(f"*paper: {escaped(row.name)}*", row.flag),
            *(_NOTHING if cell is None else _flagged(cell.text, cell.flag) for cell in found)]


def _flagged(text: str, flag: str) -> str:
    return f"{text} ({flag})" if flag else text


def _measured(columns: Sequence[Metric], block: Block) -> list[Metric]:
    return [one for one in columns if any(one.key in system.values for system in (*block.floors, *block.systems))]


def _name(system: System) -> str:
    return f"**{escaped(system.title)}**" if system.runs else f"*floor: {escaped(system.name)}*"


def _text(value: Value | None, column: Metric, scale: int = 1) -> str:
    if value is None:
        return _NOTHING
    return column.text(value.mean, scale) + ("" if value.sd is None else f" ± {column.text(value.sd, scale)}")


def _differences(block: Block, level: str) -> list[str]:
    """Return what rows differ in on the same items, with tests."""
    track = block.track
    rows = [[escaped(one.name), escaped(one.base), track.heading(one.metric), *_numbers(one, scale), one.said(BETTER)]
            for one in _compared(block) for scale in [track.scale if one.metric.key in track.reported else 1]]
    if not rows:
        return ["Nothing was compared."]
    heads = ["row", "less", "metric", "row's value", "other's value", "difference", f"{level} interval", "p",
             "p over seeds", "could be seen", "verdict"]
    return ["Paired bootstrap on the same items. A row is *better* or *worse* if the interval over items and seeds "
            "excludes 0 and a t test over seeds agrees; one seed gives no verdict, and an interval over items alone. "
            "*Could be seen*: the difference that so many seeds and items find in four tables of five.", "",
            *table(heads, rows, left=3)]


def _compared(block: Block) -> Iterator[Difference]:
    """Yield the full method less each other row, or without one each step, and what is compared with floors.

    Of rows there are all reported metrics, of floors the leading one.
    """
    full, reported = block.full, block.track.reported
    if full is not None:
        pairs = [(full.compared_as, other.compared_as, reported) for other in block.systems]
        pairs += [(full.compared_as, floor.compared_as, (block.lead,)) for floor in block.floors]
    else:
        pairs = [(one, base, reported) for one, base in dict.fromkeys(
            (step.name, step.base_name) for step in (steps(block) if block.track.classifies else ()))]
        pairs += [(system.name, floor.compared_as, (block.lead,)) for system in block.systems for floor in block.floors]
    for one, base, keys in pairs:
        found = (block.difference(one, base, key) for key in keys)
        yield from (difference for difference in found if difference is not None)


def _numbers(one: Difference, scale: int) -> list[str]:
    column = one.metric
    difference, low, high = (column.text(value, scale, "+") for value in (one.difference, *one.ends))
    return [column.text(one.value, scale), column.text(one.base_value, scale), difference, f"{low} to {high}",
            _p_text(one.p_value), _NOTHING if one.p_seeds is None else _p_text(one.p_seeds),
            _NOTHING if one.detectable is None else column.text(one.detectable, scale)]


def _p_text(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def with_block(document: str, name: str, text: str) -> str:
    """Return ``document`` with the block ``name`` made anew, or put at its end; all else stays.

    Raises:
        InputError: a mark is there without its other, or twice.
    """
    opening = re.compile(rf"<!-- results {re.escape(name)}:[^\n]*-->")
    opened, closed = opening.findall(document), document.count(end(name))
    whole = f"{begin(name)}\n{text}\n{end(name)}"
    if not opened and not closed:
        before = document.rstrip("\n")
        return f"{before}\n\n{whole}\n" if before else f"# Results\n\n{whole}\n"
    start = opening.search(document)
    after = document.find(end(name))
    if len(opened) != 1 or closed != 1 or start is None or after < start.end():
        raise InputError(f"the document's marks of block {name} must stand once each, {begin(name)} before "
                         f"{end(name)}; found {len(opened)} and {closed}. Mend the document, or take all of them out.")
    return document[:start.start()] + whole + document[after + len(end(name)):]


def write(name: str, out: Path = DOCUMENT) -> None:
    """Write the block ``name`` of document ``out`` from the artifacts of the project in the working folder.

    Raises:
        InputError: an artifact is missing (the message names the stage to run), or the document's marks are broken.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a block; take lower-case letters, digits, - and _, such as "
                         f"qqp-labelled.")
    text = block_text(name, read_params())
    document = with_block(out.read_text(encoding="utf-8") if out.exists() else "", name, text)
    with atomic_file(out) as temporary:
        temporary.write_text(document, encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Write the block named on the command line; errors are said in one line, with status 1."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.results_document", description=__doc__,
                                     epilog="example: python -m pipeline.results_document qqp-retrieved",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help="of the block: lower-case letters, digits, - and _")
    parser.add_argument("--out", type=Path, default=DOCUMENT, help=f"the document ({DOCUMENT})")
    arguments = parser.parse_args(argv)
    try:
        write(arguments.name, arguments.out)
    except InputError as error:
        sys.stderr.write(f"results_document: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
