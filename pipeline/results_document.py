"""Write the results of the project in the working folder into docs/results.md, in a block that has a name.

Reads params.yaml and the metrics under artifacts/. A document holds a block for every recipe that was run, each
between `<!-- results NAME: ... -->` and `<!-- /results NAME -->`; only the named one is written, what stands
outside of blocks is left as it is, and a block that is not there yet is put at the end.
"""

import argparse
import re
import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline import results_details, results_run, results_tables
from pipeline.markdown import escaped
from pipeline.results_run import Material, percent, read_material, unique
from stages.common.settings import read_params
from stages.results.published import paper
from stages.results.tracks import TRACKS
from stages.run.durable import atomic_file
from stages.run.errors import InputError

DOCUMENT = Path("docs") / "results.md"
# What the document says, and of each track in the template of its name.
_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def begin(name: str) -> str:
    """Return the line that opens the block ``name``."""
    return f"<!-- results {name}: made by `python -m pipeline.results_document {name}` -->"


def end(name: str) -> str:
    """Return the line that closes the block ``name``."""
    return f"<!-- /results {name} -->"


def block(name: str, material: Material) -> str:
    """Return the text of a block: what was run, the tables of each data set, and the trainings."""
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, finalize=lambda found: "\n".join(found) if isinstance(found, list)
                              else found)
    environment.filters.update(escaped=escaped, percent=percent, count="{:,}".format)
    environment.globals.update(run=results_run, tables=results_tables, details=results_details)
    results = material.results
    return environment.get_template("document.md").render(
        name=name, material=material, params=material.params,
        tracks=list({found.track.name: found.track for found in results.blocks}.values()),
        first_blocks=unique(results.blocks), trained=[track for track in TRACKS.values() if results.models_of(track)],
        paper_texts=paper("clld").facts["texts"]).rstrip("\n")


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
        raise InputError(f"the marks of block {name} must stand once each, {begin(name)} before {end(name)}; found "
                         f"{len(opened)} and {closed}. Mend the document, or take all of them out.")
    return document[:start.start()] + whole + document[after + len(end(name)):]


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


def write(name: str, out: Path = DOCUMENT) -> None:
    """Write the block ``name`` of document ``out`` from the artifacts of the project in the working folder.

    Raises:
        InputError: an artifact is missing (the message names the stage to run), or the document's marks are broken.
    """

    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a block; take lower-case letters, digits, - and _, such as "
                         f"qqp-labelled.")
    text = block(name, read_material(read_params()))
    try:
        before = out.read_text(encoding="utf-8") if out.exists() else ""
        made = with_block(before, name, text)
    except UnicodeDecodeError as error:
        raise InputError(f"{out}: not UTF-8. Name another document with --out.") from error
    except InputError as error:
        raise InputError(f"{out}: {error}") from None
    with atomic_file(out) as temporary:
        temporary.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
