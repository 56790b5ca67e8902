"""A project outside of a clone, whose code is an installation's: what is brought up to date before it runs.

Where params name nothing from elsewhere, DVC watches a file of the clone that no stage reads
(:mod:`stages.params.watched`). Such a project has none of these; files that stand for them are made.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.common.shipped import shipped
from stages.common.tables import atomic_file
from stages.run.installed import INSTALLED, described

_OF_A_CLONE = ("data/language/", "models/", "stages/")


def renew(params: Mapping[str, Any], root: Path = Path()) -> str | None:
    """Bring ``installed.yaml`` up to date, and make what stands for files of a clone; nothing in a clone.

    Args:
        params: as plain values.
        root: the project's folder.

    Returns:
        What to say if other code is installed than the project last ran with.
    """
    file = root / INSTALLED
    if not file.exists():
        return None
    for name in sorted(_named(params)):
        # No package comes of `stages/` and `models/`, which have no `__init__.py`: the installed ones are imported.
        if not (root / name).exists() and shipped(name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"# Stands for {name} of the installed version, which {INSTALLED} names.\n",
                                     encoding="utf-8")
    if file.read_text(encoding="utf-8") == described():
        return None
    with atomic_file(file) as temporary:
        temporary.write_text(described(), encoding="utf-8")
    return "Keycontrast has changed since this project last ran: what depends on its code is made anew."


def _named(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for value in values.values():
            yield from _named(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _named(value)
    elif isinstance(values, str) and values.startswith(_OF_A_CLONE):
        yield values
