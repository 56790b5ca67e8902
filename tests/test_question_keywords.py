"""Blind sheets of the keywords of questions: what they show, what they keep, and what is made of the grades."""

import csv
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import question_keywords
from benchmarks.question_keywords import BASE, FILE, KEPT, SHEETS, SYSTEMS, agreement, as_markdown, main, scores

QUESTIONS = ["How do I lose belly fat quickly?", "What is the best way to fight black money?",
             "Where can one buy cheap books in New York?", "Is the old bridge of this town safe?"]
KEPT_SYSTEMS = (BASE, "pytextrank, with adjectives", "YAKE")


@pytest.fixture
def sheets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(question_keywords, "QUESTIONS", 3)
    monkeypatch.setattr(question_keywords, "SYSTEMS", {name: SYSTEMS[name] for name in KEPT_SYSTEMS})
    (tmp_path / "data" / FILE).parent.mkdir(parents=True)
    pq.write_table(pa.table({"question1": QUESTIONS, "question2": ["Why?", *QUESTIONS[:2], None]}),
                   tmp_path / "data" / FILE)
    assert main(["sheets", "--data", "data", "--out", "blind"]) == 0
    return tmp_path / "blind"


def filled(path, grade):
    """Write ``grade(candidate)`` for every candidate of a sheet."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["question", "text", "candidates", "grades"])
        writer.writeheader()
        writer.writerows({**row, "grades": "".join(map(grade, row["candidates"].split(" | ")))} for row in rows)
    return rows


def test_sheets_show_questions_and_candidates_and_not_whose_they_are(sheets):
    written = [(sheets / name).read_text(encoding="utf-8") for name in SHEETS]
    assert written[0] != written[1]
    assert not any(system in text for text in written for system in KEPT_SYSTEMS)
    first, second = (filled(sheets / name, lambda _: "0") for name in SHEETS)
    assert {row["text"] for row in first} == {row["text"] for row in second} and len(first) == 3
    assert {row["text"] for row in first} <= set(QUESTIONS)
    assert all(len(set(row["candidates"].split(" | "))) == len(row["candidates"].split(" | ")) for row in first)


def test_what_is_kept_has_grades_of_both_readings_and_no_text(sheets, tmp_path):
    filled(sheets / SHEETS[0], lambda one: str(min(2, one.count(" "))))
    filled(sheets / SHEETS[1], lambda one: "1")
    assert main(["read", str(sheets)]) == 0
    text = (tmp_path / KEPT).read_text(encoding="utf-8")
    assert not any(word in text for word in ("belly", "money", "york", "bridge"))
    kept = pd.read_csv(tmp_path / KEPT)
    pools = {row["question"]: row["candidates"] for row in json.loads((sheets / "key.json").read_text())}
    for row in kept.itertuples():
        assert (row.first, row.second) == (min(2, pools[row.question][row.candidate].count(" ")), 1)
    assert all((kept[system] == 1).sum() == 3 for system in KEPT_SYSTEMS)


@pytest.mark.parametrize("grades", ["", "1", "3333333", "x"])
def test_a_grade_that_is_missing_or_none_is_named(sheets, capsys, grades):
    for name in SHEETS:
        filled(sheets / name, lambda _: "1")
    rows = filled(sheets / SHEETS[1], lambda _: "1")
    changed = (sheets / SHEETS[1]).read_text(encoding="utf-8").splitlines()
    changed[1] = ",".join([*changed[1].split(",")[:-1], grades])
    (sheets / SHEETS[1]).write_text("\n".join(changed), encoding="utf-8")
    assert main(["read", str(sheets)]) == 1
    error = capsys.readouterr().err
    assert SHEETS[1] in error and rows[0]["question"] in error and "write one of 0, 1 and 2" in error


def test_sheets_are_never_written_over(sheets, capsys):
    assert main(["sheets", "--data", "data", "--out", str(sheets)]) == 1
    assert "no filled sheet is lost" in capsys.readouterr().err


def kept(*rows):
    """Return what is kept of candidates given as (question, both grades, rank under the base, rank under the other)."""
    return pd.DataFrame([{"question": question, "candidate": place, "first": first, "second": second, BASE: base,
                          "other": other} for place, (question, first, second, base, other) in enumerate(rows)])


def test_scores_are_means_over_questions_of_the_first_keyword():
    found = scores(kept(("a", 2, 1, 2, 1), ("a", 0, 0, 1, 2), ("b", 2, 2, 1, 1))).set_index("system")
    assert found.loc[BASE, "mean"] == 1.0 and found.loc["other", "mean"] == 1.75
    assert found.loc["other", ["reading 1", "reading 2"]].tolist() == [2.0, 1.5]
    assert found.loc[BASE, ["best", "wrong", "best of three"]].tolist() == [0.5, 0.5, 0.5]
    assert found.loc["other", "difference"] == 0.75 and found.loc["other", "from"] == 0.0
    assert found.loc["other", "to"] == 1.5


def test_agreement_is_that_of_the_readings():
    table = kept(("a", 0, 0, 1, 1), ("b", 1, 1, 1, 1), ("c", 2, 1, 1, 1), ("d", 0, 0, 1, 1))
    share, plain, weighted = agreement(table)
    assert (share, plain) == (0.75, pytest.approx(0.6)) and weighted > plain
    assert "3 of" not in as_markdown(table) and "75 % of them: Cohen's kappa 0.60" in as_markdown(table)
