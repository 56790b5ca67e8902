"""Write the documents that are made from the code.

They are in ``docs/``: ``data-dictionary.md``, ``commands.md`` and ``api.md`` (:mod:`pipeline.reference`), the table of
stages in ``running.md``, that of layouts in ``data.md``, and the picture of the DAG (:mod:`pipeline.stage_picture`).

``python -m pipeline.documentation`` writes them; ``--check`` only compares, for the tests.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from keycontrast.files import atomic_file
from pipeline.reference import api_page, command_page
from pipeline.schemas import SCHEMAS
from pipeline.stage_picture import stage_picture
from stages.common.schemas import SCHEMA_VERSION, TableSchema
from stages.ingest.layouts import LAYOUTS, Layout

ROOT = Path(__file__).resolve().parent.parent
DICTIONARY, COMMANDS, API = (Path("docs") / name for name in ("data-dictionary.md", "commands.md", "api.md"))
STAGES, LAYOUTS_PAGE, PICTURE = (Path("docs") / name for name in ("running.md", "data.md", "img/dag.svg"))
MARKS = {name: (f"<!-- {name}: made by `python -m pipeline.documentation` -->", f"<!-- /{name} -->")
         for name in ("stages", "layouts")}


def data_dictionary() -> str:
    """Return the data dictionary as Markdown: every table, its key, its columns and what they mean."""
    parts = ["# Data dictionary", "",
             "Made from `pipeline/schemas.py` by `python -m pipeline.documentation`. Every table is Parquet "
             f"(zstd), sorted by its key, schema version {SCHEMA_VERSION}: below `artifacts/data` a folder of parts, "
             "of a model or run one file. `keycontrast inspect FILE` shows the same beside the data."]
    for schema in SCHEMAS.values():
        parts += ["", *_table_section(schema)]
    return "\n".join(parts) + "\n"


def _table_section(schema: TableSchema) -> list[str]:
    lines = [f"## {schema.name}", "", schema.description, "",
             f"Key: {', '.join(f'`{name}`' for name in schema.key)}{'' if schema.unique else ' (may repeat)'}.", "",
             "| column | type | meaning |", "| --- | --- | --- |"]
    return lines + [f"| `{name}` | {str(kind).replace('element: ', '')} | {_cell(text)} |"
                    for name, kind, text in schema.fields]


def stage_table(dvc: dict[str, Any]) -> str:
    """Return the stages of ``dvc`` (parsed ``dvc.yaml``) as a Markdown table."""
    lines = ["| stage | one per | what it does | writes |", "| --- | --- | --- | --- |"]
    for name, entry in dvc["stages"].items():
        body = entry.get("do", entry)
        lines.append(f"| `{name}` | {_instance(entry)} | {_cell(body['desc'])} | {', '.join(_outputs(body))} |")
    return "\n".join(lines)


def _instance(entry: dict[str, Any]) -> str:
    group, _, name = str(entry.get("foreach", "")).strip("${}").partition(".")
    if name == "datasets":
        return f"data set of {group}.datasets"
    return {"datasets": "data set", "confusing_pairs": "model", "models": "model", "runs": "run",
            "probes": "probe"}.get(group, "project")


def _outputs(body: dict[str, Any]) -> list[str]:
    names = []
    for kind in ("outs", "metrics", "plots"):
        for item in body.get(kind, []):
            path = item if isinstance(item, str) else next(iter(item))
            short = re.sub(r"\$\{\w+\}", "*", path.replace("artifacts/", ""))
            names.append(f"`{short}`")
    return names


def layout_table(layouts: Iterable[Layout]) -> str:
    """Return ``layouts`` as a Markdown table."""
    return "\n".join(["| layout | a row is | columns |", "| --- | --- | --- |",
                      *(f"| `{layout.name}` | {_cell(layout.row)} | {_columns(layout)} |" for layout in layouts)])


def _columns(layout: Layout) -> str:
    if layout.published:
        return _cell(layout.files) or "its own"
    listed = {needed: ", ".join(f"`{role}` ({column.meaning})" for role, column in layout.columns.items()
                                if column.needed == needed) for needed in (True, False)}
    return _cell(listed[True] + (f"; perhaps {listed[False]}" if listed[False] else ""))


def with_table(page: str, name: str, table: str) -> str:
    """Return ``page`` with a new table between the two marks called ``name``.

    Raises:
        ValueError: the marks are missing.
    """
    first, last = MARKS[name]
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page for the table of {name} lacks the marks {first} and {last}")
    return f"{before}{first}\n{table}\n{last}{after}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Return each generated document's path (below ``root``) and the text that it should have."""
    dvc = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    stages, layouts = ((root / page).read_text(encoding="utf-8") for page in (STAGES, LAYOUTS_PAGE))
    return {DICTIONARY: data_dictionary(), COMMANDS: command_page(), API: api_page(root), PICTURE: stage_picture(root),
            STAGES: with_table(stages, "stages", stage_table(dvc)),
            LAYOUTS_PAGE: with_table(layouts, "layouts", layout_table(LAYOUTS.values()))}


def main(argv: list[str] | None = None) -> int:
    """Write the documents, or with ``--check`` name those that are stale and return 1."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.documentation", description=__doc__,
                                     epilog="example: python -m pipeline.documentation --check",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(argv).check
    stale = {path: text for path, text in documents().items()
             if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text}
    if check:
        for path in stale:
            sys.stderr.write(f"{path} is stale; run `python -m pipeline.documentation`\n")
        return 1 if stale else 0
    for path, text in stale.items():
        with atomic_file(ROOT / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
