"""Write the stages in ``docs/running.md``, the layouts in ``docs/data.md`` and the picture of the DAG: `make docs`."""

import argparse
import re
from pathlib import Path
from typing import Any

import yaml

from keycontrast.files import atomic_file
from pipeline.pages import ROOT, table_cell
from pipeline.stage_picture import stage_picture
from stages.ingest.layouts import LAYOUTS, Layout


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Return each document's path below ``root`` and the text that it should have."""
    docs = Path("docs")
    dvc = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    stages, layouts = docs / "running.md", docs / "data.md"
    return {docs / "img" / "dag.svg": stage_picture(root),
            stages: _with_table((root / stages).read_text(encoding="utf-8"), "stages", stage_table(dvc)),
            layouts: _with_table((root / layouts).read_text(encoding="utf-8"), "layouts", layout_table())}


def stage_table(dvc: dict[str, Any]) -> str:
    """Return the stages of ``dvc`` (parsed ``dvc.yaml``) as a Markdown table."""
    lines = ["| stage | one per | what it does | writes |", "| --- | --- | --- | --- |"]
    for stage, entry in dvc["stages"].items():
        body = entry.get("do", entry)
        group, _, name = str(entry.get("foreach", "")).strip("${}").partition(".")
        one_per = f"data set of {group}.datasets" if name == "datasets" else {
            "datasets": "data set", "confusing_pairs": "model", "models": "model", "runs": "run",
            "probes": "probe"}.get(group, "project")
        paths = (item if isinstance(item, str) else next(iter(item))
                 for kind in ("outs", "metrics", "plots") for item in body.get(kind, []))
        writes = ", ".join("`" + re.sub(r"\$\{\w+\}", "*", path.replace("artifacts/", "")) + "`" for path in paths)
        lines.append(f"| `{stage}` | {one_per} | {table_cell(body['desc'])} | {writes} |")
    return "\n".join(lines)


def layout_table() -> str:
    """Return the layouts of data as a Markdown table."""
    return "\n".join(["| layout | a row is | columns |", "| --- | --- | --- |",
                      *(f"| `{layout.name}` | {table_cell(layout.row)} | {_columns(layout)} |"
                        for layout in LAYOUTS.values())])


def _columns(layout: Layout) -> str:
    if layout.published:
        return table_cell(layout.files) or "its own"
    listed = {needed: ", ".join(f"`{role}` ({column.meaning})" for role, column in layout.columns.items()
                                if column.needed == needed) for needed in (True, False)}
    return table_cell(listed[True] + (f"; perhaps {listed[False]}" if listed[False] else ""))


def _with_table(page: str, name: str, table: str) -> str:
    """Return ``page`` with a new table between the two marks called ``name``."""
    first, last = f"<!-- {name}: made by `python -m pipeline.documentation` -->", f"<!-- /{name} -->"
    before, rest = page.split(first)
    return f"{before}{first}\n{table}\n{last}{rest.split(last)[1]}"


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m pipeline.documentation", description=__doc__).parse_args()
    for path, text in documents().items():
        with atomic_file(ROOT / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
