"""The key of a set of sheets: which row is whose, kept apart from what raters see."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.judgement.design import Design
from pipeline.judgement.sheets import KeyRow, Sheet
from stages.runtime.errors import InputError

VERSION = 1


@dataclass(frozen=True)
class Key:
    """Everything that turns filled sheets back into judgements.

    Attributes:
        design: of the evaluation.
        seed: that everything was drawn from.
        runs: for each system, where its outputs come from: file and sha256 (empty for references).
        rows: rows of each rater's sheet.
        written: sha256 of each sheet as it was made, empty of scores.
    """

    design: Design
    seed: int
    runs: dict[str, dict[str, str]]
    rows: dict[str, tuple[KeyRow, ...]]
    written: dict[str, str]

    def as_values(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"version": VERSION, "seed": self.seed, "design": asdict(self.design), "runs": self.runs,
                "sheets": {rater: {"sha256": self.written[rater], "rows": [asdict(row) for row in rows]}
                           for rater, rows in self.rows.items()}}


def key_of(sheets: Sequence[Sheet], design: Design, seed: int, runs: Mapping[str, dict[str, str]]) -> Key:
    """Return the key of ``sheets``."""
    return Key(design, seed, dict(runs), {sheet.rater: sheet.rows for sheet in sheets},
               {sheet.rater: hashlib.sha256(sheet.content).hexdigest() for sheet in sheets})


def read_key(path: Path) -> Key:
    """Read a key.

    Raises:
        InputError: it is missing, or no key that this version reads.
    """
    if not path.is_file():
        raise InputError(f"{path}: not found. Name the folder that `keycontrast judge sheets --out` wrote; filled "
                         f"sheets mean nothing without their key.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise InputError(f"{path}: version {content['version']} is not {VERSION}; read it with the version of "
                             f"Keycontrast that wrote it.")
        design = content["design"]
        return Key(Design(**{**design, "criteria": tuple(design["criteria"])}), content["seed"], content["runs"],
                   {rater: tuple(KeyRow(**row) for row in sheet["rows"]) for rater, sheet in content["sheets"].items()},
                   {rater: sheet["sha256"] for rater, sheet in content["sheets"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a key ({type(error).__name__}: {error}). Put the file back as it was "
                         f"written.") from error
