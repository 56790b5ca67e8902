"""Which ranking names the keyword of a short question: blind sheets, two readings, and what they come to.

`sheets` draws questions, names their keywords by every ranking, pools what they name, and writes two sheets: a row per
question, its candidates in an order by chance that differs between the sheets, and nothing of who named which. A reader
gives each candidate 0 (wrong, or a fragment), 1 (acceptable) or 2 (the best word or phrase for what the question is
about), as one digit per candidate. `read` joins the filled sheets with the key, drops all texts and keeps the grades;
`table` says what they come to.

    python -m benchmarks.question_keywords sheets --data ../data --out blind
    python -m benchmarks.question_keywords read blind
    python -m benchmarks.question_keywords table --write
"""

import argparse
import csv
import hashlib
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.keyphrases import put
from stages.common.methods import METHODS
from stages.common.tables import atomic_file
from stages.keywords.choice import choose_keywords
from stages.metrics.resampling import mean_statistic, paired_bootstrap
from stages.params.root import Params
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError
from stages.text.annotators import load_annotator
from stages.text.tokens import token_table

FILE = Path("qqp") / "first_10k.parquet"
KEPT = Path("metrics") / "evidence" / "question-keywords" / "readings.csv"
BEGIN = "<!-- question-keywords: made by `python -m benchmarks.question_keywords table --write` -->"
END = "<!-- /question-keywords -->"
QUESTIONS, SEED, WORDS = 200, 17, (4, 25)
FIRST, RESAMPLES = 3, 10_000
SHEETS, KEY = ("reading-1.csv", "reading-2.csv"), "key.json"
GRADES = ("first", "second")
PLAIN: Mapping[str, Any] = {"method": "mihalcea", "window": 2, "whole": False}
# The row that all others are compared with: what the default was when the sheets were made.
BASE = "mihalcea, window 2"
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    BASE: ("textrank", PLAIN),
    "mihalcea, window 5": ("textrank", {**PLAIN, "window": 5}),
    "mihalcea, window 2, whole": ("textrank", {**PLAIN, "whole": True}),
    "mihalcea, window 5, whole": ("textrank", {**PLAIN, "window": 5, "whole": True}),
    **{f"{method}, {words}": ("textrank", {"method": method, "chunks": chunks})
       for method in ("pytextrank", "positionrank", "tfidf")
       for words, chunks in (("nouns", "annotated"), ("with adjectives", "adjectives"))},
    "embedrank, nouns": ("embedrank", {"chunks": "annotated"}),
    "embedrank, with adjectives": ("embedrank", {"chunks": "adjectives"}),
    "YAKE": ("yake", {}),
}


def questions(path: Path) -> tuple[list[str], list[str]]:
    """Return the questions drawn, and all distinct ones of the file, over which IDF counts.

    Raises:
        InputError: the file is missing, or has too few questions.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file. Name the folder of the published data sets with --data.")
    table = pq.read_table(path)
    known = sorted({text for name in ("question1", "question2") for text in table[name].to_pylist() if text})
    short = [text for text in known if WORDS[0] <= len(text.split()) <= WORDS[1]]
    if len(short) < QUESTIONS:
        raise InputError(f"{path}: has {len(short)} questions of {WORDS[0]} to {WORDS[1]} words, and {QUESTIONS} are "
                         f"drawn.")
    return random.Random(SEED).sample(short, QUESTIONS), known


def named(tokens: pa.Table, idf: InverseFrequency) -> dict[str, list[list[str]]]:
    """Return, by system, the first keywords of each text: the one that is chosen, then the ranking's next ones."""
    found = {}
    for system, (method, settings) in SYSTEMS.items():
        sys.stderr.write(f"{system}\n")
        block: Any = Params.model_fields[method].annotation
        ranking = METHODS[method].ranker(block(**settings), "en", idf)(tokens).table
        lists = [[keyword] for keyword in choose_keywords(tokens, ranking, method, idf).table["keyword"].to_pylist()]
        for text, keyword in zip(ranking["text_id"].to_pylist(), ranking["keyword"].to_pylist(), strict=True):
            if keyword is not None and keyword not in lists[text] and len(lists[text]) < FIRST:
                lists[text].append(keyword)
        found[system] = lists
    return found


def write_sheets(data: Path, out: Path) -> None:
    """Draw questions, name their keywords, and write two blind sheets and the key apart.

    Raises:
        InputError: the questions are missing, or ``out`` holds something.
    """
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: is not empty; name another folder, so that no filled sheet is lost.")
    drawn, known = questions(data / FILE)
    annotate = load_annotator("embedded", "en")
    idf = InverseFrequency.over_tables([token_table(annotate.columns(range(len(known)), known))])
    lists = named(token_table(annotate.columns(range(len(drawn)), drawn)), idf)
    chance = random.Random(SEED + 1)
    key: list[dict[str, Any]] = []
    for place, text in enumerate(drawn):
        pool = sorted({found[place][0] for found in lists.values()})
        key.append({"question": hashlib.sha256(text.encode()).hexdigest()[:12], "candidates": pool,
                    "orders": [chance.sample(range(len(pool)), len(pool)) for _ in SHEETS],
                    "ranks": {system: [found[place].index(one) + 1 if one in found[place] else None for one in pool]
                              for system, found in lists.items()}})
    out.mkdir(parents=True, exist_ok=True)
    for sheet, name in enumerate(SHEETS):
        rows = chance.sample(range(len(drawn)), len(drawn))
        with (out / name).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["question", "text", "candidates", "grades"])
            writer.writerows([key[row]["question"], drawn[row],
                              " | ".join(key[row]["candidates"][one] for one in key[row]["orders"][sheet]), ""]
                             for row in rows)
    (out / KEY).write_text(json.dumps(key), encoding="utf-8")


def read_sheets(folder: Path) -> pd.DataFrame:
    """Return a row per question and candidate: its grades, and its rank under each system (1 to 3, or none).

    Raises:
        InputError: a grade is missing or is none.
    """
    key = json.loads((folder / KEY).read_text(encoding="utf-8"))
    grades = []
    for name in SHEETS:
        with (folder / name).open(encoding="utf-8", newline="") as stream:
            grades.append({row["question"]: row["grades"].strip() for row in csv.DictReader(stream)})
    rows = []
    for entry in key:
        given = []
        for sheet, name in enumerate(SHEETS):
            digits, order = grades[sheet].get(entry["question"], ""), entry["orders"][sheet]
            if len(digits) != len(order) or set(digits) - set("012"):
                raise InputError(f"{folder / name}: question {entry['question']} has grades {digits!r}; write one of "
                                 f"0, 1 and 2 for each of its {len(order)} candidates.")
            given.append({one: int(digit) for one, digit in zip(order, digits, strict=True)})
        rows += [{"question": entry["question"], "candidate": one,
                  **{grade: given[sheet][one] for sheet, grade in enumerate(GRADES)},
                  **{system: ranks[one] for system, ranks in entry["ranks"].items()}}
                 for one in range(len(entry["candidates"]))]
    found = pd.DataFrame(rows)
    return found.astype({system: "Int64" for system in key[0]["ranks"]})


def scores(kept: pd.DataFrame) -> pd.DataFrame:
    """Return a row per system: its mean grade with an interval over questions, and what else the grades say.

    The grade of a candidate is the mean of its readings. Intervals are percentile bootstraps over questions.
    """
    graded = kept.assign(grade=kept[list(GRADES)].mean(axis=1))
    base = _of_first(graded, BASE)
    rows = []
    for system in kept.columns.drop(["question", "candidate", *GRADES]):
        first = _of_first(graded, system)
        beside = paired_bootstrap(mean_statistic(first["grade"].to_numpy()), mean_statistic(base["grade"].to_numpy()),
                                  RESAMPLES)
        low, high = _interval(first["grade"].to_numpy())
        listed = graded[graded[system].notna()].groupby("question")["grade"].max()
        rows.append({"system": system, "mean": first["grade"].mean(), "low": low, "high": high,
                     **{f"reading {number}": first[name].mean() for number, name in enumerate(GRADES, start=1)},
                     "best": (first["grade"] == 2).mean(), "wrong": (first["grade"] < 1).mean(),
                     "best of three": (listed == 2).mean(), "difference": beside.difference, "from": beside.low,
                     "to": beside.high})
    return pd.DataFrame(rows)


def _of_first(graded: pd.DataFrame, system: str) -> pd.DataFrame:
    return graded[graded[system] == 1].sort_values("question")


def _interval(values: np.ndarray) -> tuple[float, float]:
    found = paired_bootstrap(mean_statistic(values), mean_statistic(np.zeros(len(values))), RESAMPLES)
    return found.low, found.high


def agreement(kept: pd.DataFrame) -> tuple[float, float, float]:
    """Return the share of equal grades of the two readings, Cohen's kappa, and kappa with quadratic weights."""
    from sklearn.metrics import cohen_kappa_score  # slow to import

    first, second = (kept[name] for name in GRADES)
    return (float((first == second).mean()), float(cohen_kappa_score(first, second)),
            float(cohen_kappa_score(first, second, weights="quadratic")))


def as_markdown(kept: pd.DataFrame) -> str:
    """Return the table of all systems, best first, and a line on the readings."""
    share, plain, weighted = agreement(kept)
    lines = [f"| ranking | mean grade of the first | reading 1 | reading 2 | less {BASE} | best | wrong | best in "
             f"the first {FIRST} |", f"| --- |{' ---: |' * 7}"]
    for row in scores(kept).sort_values("mean", ascending=False, kind="stable").to_dict("records"):
        beside = "" if row["system"] == BASE else f"{row['difference']:+.2f} ({row['from']:+.2f} to {row['to']:+.2f})"
        lines.append(f"| {row['system']} | {row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f}) | "
                     f"{row['reading 1']:.2f} | {row['reading 2']:.2f} | {beside} | {100 * row['best']:.0f} % | "
                     f"{100 * row['wrong']:.0f} % | {100 * row['best of three']:.0f} % |")
    return "\n".join([*lines, "", f"{kept['question'].nunique()} questions, {len(kept)} candidates. The readings gave "
                      f"the same grade to {100 * share:.0f} % of them: Cohen's kappa {plain:.2f}, with quadratic "
                      f"weights {weighted:.2f}."])


def _sheets(arguments: argparse.Namespace) -> None:
    write_sheets(arguments.data, arguments.out)


def _read(arguments: argparse.Namespace) -> None:
    found = read_sheets(arguments.folder)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(KEPT) as temporary:
        found.to_csv(temporary, index=False, lineterminator="\n")


def _table(arguments: argparse.Namespace) -> None:
    table = as_markdown(pd.read_csv(KEPT))
    sys.stdout.write(table + "\n")
    if arguments.write:
        put(table, BEGIN, END)


def main(argv: Sequence[str] | None = None) -> int:
    """Write sheets, keep what they say, or show it, as ``argv`` has it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.question_keywords", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], None], said: str) -> argparse.ArgumentParser:
        """Add a command, and return what its arguments are added to."""
        made = commands.add_parser(name, help=said)
        made.set_defaults(run=run)
        return made

    sheets = command("sheets", _sheets, "draw questions and write blind sheets")
    sheets.add_argument("--data", type=Path, required=True, help=f"folder of the published data sets, with {FILE}")
    sheets.add_argument("--out", type=Path, required=True, help="folder for two sheets and the key")
    command("read", _read, f"keep the grades of filled sheets in {KEPT}").add_argument("folder", type=Path)
    command("table", _table, "show what is kept").add_argument("--write", action="store_true",
                                                               help="also put it into docs/results.md")
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except InputError as error:
        sys.stderr.write(f"benchmarks.question_keywords: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
