"""Human evaluation: sheets that tell raters nothing, sheets read back, kappas and paired t (METHODS E.5)."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.stats import ttest_rel
from sklearn.metrics import cohen_kappa_score

from keycontrast.errors import InputError
from pipeline.judgement import command as judge
from pipeline.judgement.design import Design, design_of
from pipeline.judgement.sheets import (
    NO_OUTPUT,
    REFERENCE,
    Outputs,
    assigned,
    make_sheets,
    read_key,
    shared_outputs,
    text_digest,
)
from pipeline.judgement.spreadsheet import as_csv, harmless, read_csv
from pipeline.judgement.statistics import fleiss_kappa, paired_t, pairwise_kappas, rating_counts, summary
from pipeline.schemas import SCHEMAS
from stages.common.paths import RunPaths
from stages.common.tables import Provenance, read_frame, write_table

RUNS = ("hcl-secretname", "baseline-secretname")
ITEMS = 12


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in RUNS:
        write_predictions(run, range(ITEMS))
    return tmp_path


def write_predictions(run, ids, word="answer", source="How do I {}?", track="hcl"):
    rows = [{"example_id": number, "sample": sample, "source": source.format(number), "keyword": None,
             "keyword_known": False, "prediction": f"{word} {len(run)} of {number}, draw {sample}",
             "references": [f"reference of {number}"]} for number in ids for sample in (0, 1)]
    write_table(RunPaths(run, 13).predictions, SCHEMAS["predictions"], pd.DataFrame(rows),
                Provenance(f"generate_{track}@{run}", "0"))


def console():
    return Console(file=io.StringIO(), width=200)


def make(out, **changes):
    shown = console()
    judge.sheets(RUNS, out, shown, **({"items": 5, "seed": 1} | changes))
    return shown.file.getvalue()


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def fill(folder, score):
    """Fill every sheet as ``score(rater, row of the key, criterion)`` says; None leaves a cell empty."""
    key = read_key(folder / "key.json")
    for rater, rows in key.rows.items():
        path = folder / "sheets" / f"{rater}.csv"
        known = {(row.item, row.position): row for row in rows}
        cells = rows_of(path)
        for cell in cells:
            row = known[int(cell["item"]), int(cell["position"])]
            for criterion in key.design.criteria:
                value = score(rater, row, criterion)
                cell[criterion] = "" if value is None else str(value)
        path.write_bytes(as_csv(list(cells[0]), [list(cell.values()) for cell in cells]))
    return key


# Formulas

def test_fleiss_kappa_of_the_published_facts():
    assert fleiss_kappa(np.array([[2, 1, 0], [1, 2, 0], [0, 1, 2], [1, 1, 1]])) == pytest.approx(-0.148936, abs=5e-7)
    assert fleiss_kappa(np.array([[3, 0, 0], [0, 3, 0], [0, 0, 3]])) == 1
    assert np.isnan(fleiss_kappa(np.array([[0, 3], [0, 3]])))
    assert np.isnan(fleiss_kappa(np.zeros((0, 3))))


def test_fleiss_kappa_is_its_equation():
    counts = np.random.default_rng(0).multinomial(5, [0.5, 0.3, 0.2], size=30)
    n, agreements = 5, []
    for row in counts:
        agreements.append((sum(int(c) ** 2 for c in row) - n) / (n * (n - 1)))
    shares = [sum(int(row[c]) for row in counts) / (n * len(counts)) for c in range(3)]
    chance = sum(share**2 for share in shares)
    assert fleiss_kappa(counts) == pytest.approx((sum(agreements) / len(agreements) - chance) / (1 - chance))


@pytest.mark.parametrize("counts", [[[2, 1], [1, 1]], [[1, 0], [0, 1]]])
def test_fleiss_kappa_needs_the_same_number_of_raters(counts):
    with pytest.raises(ValueError, match="same number of raters, two or more"):
        fleiss_kappa(np.array(counts))


def scored(*raters):
    return pd.DataFrame([{"item": item, "run": "a", "rater": f"rater-{number}", "score": score}
                         for number, scores in enumerate(raters, 1) for item, score in enumerate(scores)])


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_cohen_kappa_is_its_equation(weights):
    found = pairwise_kappas(scored([1, 2, 3, 1, 1], [1, 2, 3, 2, 3]), [1, 2, 3], weights)
    table = np.zeros((3, 3))
    for one, other in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2)):
        table[one, other] += 1
    apart = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    cost = {"none": apart > 0, "linear": apart, "quadratic": apart**2}[weights]
    expected = (cost * np.outer(table.sum(1), table.sum(0)) / 5).sum()
    assert found["rater-1", "rater-2"] == (pytest.approx(1 - (cost * table).sum() / expected), 5)


def test_cohen_kappa_at_its_edges():
    assert pairwise_kappas(scored([1, 2, 3], [1, 2, 3]), [1, 2, 3]) == {("rater-1", "rater-2"): (1.0, 3)}
    assert np.isnan(pairwise_kappas(scored([2, 2], [2, 2]), [1, 2, 3])["rater-1", "rater-2"][0])
    assert pairwise_kappas(scored([2], []), [1, 2, 3]) == {}


def test_paired_t_is_that_of_scipy_and_changes_sign():
    draw = np.random.default_rng(2)
    first, second = draw.integers(1, 4, 25) / 3, draw.integers(1, 4, 25) / 3
    ours, back, theirs = paired_t(first, second), paired_t(second, first), ttest_rel(first, second)
    assert (ours.t, ours.p, ours.df) == (pytest.approx(theirs.statistic), pytest.approx(theirs.pvalue), 24)
    assert (back.t, back.difference, back.p) == (-ours.t, -ours.difference, ours.p)


def test_paired_t_of_differences_that_are_all_the_same():
    # Thirds do not add up exactly: these differences differ in their last digit.
    up = paired_t([4 / 3, 5 / 3, 7 / 3], [1, 4 / 3, 2])
    assert up.t == np.inf and up.p == 0 and up.difference == pytest.approx(1 / 3)
    assert paired_t([1, 4 / 3, 2], [4 / 3, 5 / 3, 7 / 3]).t == -np.inf
    none = paired_t([4 / 3, 1], [4 / 3, 1])
    assert np.isnan(none.t) and np.isnan(none.p) and none.difference == 0
    assert np.isnan(paired_t([1], [2]).t) and paired_t([1], [2]).difference == -1


# Design

def test_designs_of_the_papers():
    hcl, pgkpr = design_of("hcl"), design_of("pgkpr")
    assert (hcl.items, hcl.raters, hcl.judges, list(hcl.points)) == (100, 3, 3, [1, 2, 3])
    assert hcl.criteria == ("fluency", "meaningfulness", "differential")
    assert (list(pgkpr.points), pgkpr.criteria) == ([0, 1, 2], ("fluency", "accuracy", "diversity"))
    # 100 sources, 5 systems, each output judged three times: 1,500, which are 150 for each of ten students.
    assert pgkpr.items * 5 * pgkpr.judges == pgkpr.raters * 150 == 1500
    assert design_of("hcl", raters=5).judges == 5


@pytest.mark.parametrize(("given", "message"), [
    ({"like": "hlc"}, "--like: no evaluation is called 'hlc'; did you mean 'hcl'"),
    ({"items": 0}, "--items: 0 is less than 1"),
    ({"raters": 0}, "--raters: 0 is less than 1"),
    ({"per_item": 4}, "--per-item: 4 raters of each item are more than the 3"),
    ({"scale": "3"}, "--scale: '3' is no scale; give its ends, such as 1-3"),
    ({"scale": "3-1"}, "--scale: '3-1' must rise"),
    ({"criteria": "fluency,=1"}, "--criteria: '=1' cannot head a column"),
    ({"criteria": "item"}, "--criteria: 'item' cannot head a column"),
    ({"criteria": "fluency,fluency"}, "names one twice"),
])
def test_impossible_designs_are_named(given, message):
    with pytest.raises(InputError, match=message.replace("?", "\\?")):
        design_of(**given)


# Sheets

def outputs(items=30, systems=("a", "b", "c")):
    return Outputs({n: f"source {n}" for n in range(items)},
                   {name: {n: f"{name} {n}" for n in range(items)} for name in systems})


def test_sheets_hold_every_output_once_and_are_shuffled_for_each_rater():
    made = make_sheets(outputs(), Design(20, 3, None, 1, 3, ("fluency",)), seed=5)
    items = {frozenset(row.example_id for row in sheet.rows) for sheet in made}
    assert len(items) == 1 and len(next(iter(items))) == 20
    for sheet in made:
        assert len({(row.example_id, row.run) for row in sheet.rows}) == len(sheet.rows) == 60
        assert [(row.item, row.position) for row in sheet.rows] == [(i, p) for i in range(1, 21) for p in (1, 2, 3)]
    assert len({tuple(row.example_id for row in sheet.rows) for sheet in made}) == 3
    # The order of systems differs from item to item, and for one item from rater to rater.
    orders = [{row.example_id: [] for row in sheet.rows} for sheet in made]
    for order, sheet in zip(orders, made, strict=True):
        for row in sheet.rows:
            order[row.example_id].append(row.run)
    assert len({tuple(runs) for runs in orders[0].values()}) > 3
    assert any(orders[0][item] != orders[1][item] for item in orders[0])


def test_the_same_seed_gives_the_same_bytes_whatever_the_order_of_runs():
    design = Design(10, 2, None, 1, 3, ("fluency",))
    one, two = outputs(systems=("a", "b")), outputs(systems=("b", "a"))
    assert [s.content for s in make_sheets(one, design, 7)] == [s.content for s in make_sheets(two, design, 7)]
    assert make_sheets(one, design, 7)[0].content != make_sheets(one, design, 8)[0].content


def test_the_sample_does_not_look_at_outputs():
    design = Design(10, 1, None, 1, 3, ("fluency",))
    other = Outputs(outputs().sources, {"a": {n: "x" for n in range(30)}})
    drawn = [[row.example_id for row in make_sheets(made, design, 3)[0].rows] for made in (outputs(), other)]
    assert set(drawn[0]) == set(drawn[1])


def test_raters_share_the_work_evenly():
    shares = assigned(range(100), design_of("pgkpr"), seed=1)
    assert [len(share) for share in shares] == [30] * 10
    counts = np.bincount(np.concatenate(shares))
    assert set(counts) == {3}
    pairs = {(a, b) for a in range(10) for b in range(a) if set(shares[a]) & set(shares[b])}
    assert len(pairs) > 30


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", " =1", "\t=1", "＝1"])
def test_cells_do_nothing_in_a_spreadsheet(text):
    assert harmless(text).startswith("'")
    content = as_csv(["source"], [[text]])
    assert content.startswith(b"\xef\xbb\xbf")
    assert next(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))["source"] == harmless(text)


def test_ordinary_cells_stay_as_they_are():
    for text in ("How are you?", "1 - 2", "", "“减肥”, he said; \"yes\""):
        assert harmless(text) == text
    assert harmless("two\r\nlines") == "two  lines"


def test_sheets_hide_the_runs(project):
    said = make(project / "judged", references=True)
    assert "3 systems, 3 raters" in said
    shown = [path for path in (project / "judged" / "sheets").iterdir()]
    assert sorted(path.name for path in shown) == ["instructions.md", "rater-1.csv", "rater-2.csv", "rater-3.csv"]
    for path in shown:
        text = path.read_text(encoding="utf-8")
        assert "secretname" not in text and REFERENCE not in text
    key = json.loads((project / "judged" / "key.json").read_text())
    assert set(key["runs"]) == {*RUNS, REFERENCE}
    assert len(key["runs"][RUNS[0]]["sha256"]) == 64
    assert str(project) not in json.dumps(key)
    assert list(rows_of(project / "judged" / "sheets" / "rater-1.csv")[0]) == [
        "item", "position", "source", "output", "fluency", "meaningfulness", "differential"]


def test_instructions_name_scale_and_criteria(project):
    make(project / "judged", scale="1-5", criteria="fluency,warmth")
    page = (project / "judged" / "sheets" / "instructions.md").read_text(encoding="utf-8")
    for text in ("whole number from 1 to 5", "**fluency**: Is the output well formed", "**warmth**", "CSV UTF-8",
                 "| `rater-1.csv` | 10 |"):
        assert text in page


def test_runs_share_items_and_sources(project):
    write_predictions("late", range(8, 20))
    shared = shared_outputs({run: read_frame(RunPaths(run, 13).predictions) for run in (*RUNS, "late")})
    assert sorted(shared.sources) == [8, 9, 10, 11]
    with pytest.raises(InputError, match="--items: 5 were asked for, and the runs share 4"):
        judge.sheets([*RUNS, "late"], project / "judged", console(), items=5, seed=1)
    write_predictions("other", range(ITEMS), source="Why {}?")
    with pytest.raises(InputError, match="example 0 has another source than in hcl-secretname"):
        judge.sheets([RUNS[0], "other"], project / "judged", console(), items=5, seed=1)
    assert not (project / "judged").exists()


def test_without_a_number_all_shared_items_are_judged_if_they_are_fewer_than_the_designs(project):
    said = make(project / "judged", items=None)
    assert f"share {ITEMS} items, fewer than the 100 of the design: all of them" in said
    assert read_key(project / "judged" / "key.json").design.items == ITEMS
    assert len(rows_of(project / "judged" / "sheets" / "rater-1.csv")) == ITEMS * len(RUNS)
    with pytest.raises(InputError, match=f"--items: 100 were asked for, and the runs share {ITEMS}"):
        make(project / "others", items=100)


def test_capitals_do_not_give_the_reference_away(project):
    table = read_frame(RunPaths(RUNS[0], 13).predictions)
    table["references"] = [["Reference In Capitals"]] * len(table)
    made = shared_outputs({"run": table}, references=True)
    assert set(made.systems[REFERENCE].values()) == {"reference in capitals"}
    table.loc[0, "prediction"] = "One capital"
    assert set(shared_outputs({"run": table}, references=True).systems[REFERENCE].values()) == {"Reference In Capitals"}


def test_only_first_outputs_are_judged_and_missing_ones_are_said(project):
    table = read_frame(RunPaths(RUNS[0], 13).predictions)
    table.loc[table["sample"] == 0, "prediction"] = " "
    made = make_sheets(shared_outputs({RUNS[0]: table}), Design(3, 1, None, 1, 3, ("fluency",)), 1)
    text = made[0].content.decode("utf-8-sig")
    assert text.count(NO_OUTPUT) == 3 and "draw 1" not in text


@pytest.mark.parametrize(("runs", "message"), [
    (["hcl-secretnam"], "no run 'hcl-secretnam' has predictions; did you mean 'hcl-secretname'"),
    ([RUNS[0], RUNS[0]], "run hcl-secretname is named twice"), ([], "name at least one run")])
def test_runs_that_cannot_be_judged_are_named(project, runs, message):
    with pytest.raises(InputError, match=message):
        judge.sheets(runs, project / "judged", console(), seed=1)


def test_runs_of_the_pgkpr_track_are_judged_as_its_paper_did(project):
    for run in ("first", "second"):
        write_predictions(run, range(ITEMS), track="pgkpr")
    judge.sheets(["first", "second"], project / "judged", console(), items=5, seed=1, references=True)
    key = json.loads((project / "judged/key.json").read_text())
    assert key["design"]["criteria"] == ["fluency", "accuracy", "diversity"]
    assert (key["design"]["low"], key["design"]["high"]) == (0, 2)
    judge.sheets(["first", "second"], project / "as-hcl", console(), like="hcl", items=5, seed=1)
    assert json.loads((project / "as-hcl/key.json").read_text())["design"]["high"] == 3
    with pytest.raises(InputError, match=r"runs of both tracks: hcl-secretname \(hcl\), first \(pgkpr\)"):
        judge.sheets([RUNS[0], "first"], project / "both", console(), items=5, seed=1)
    assert not (project / "both").exists()


def test_runs_that_classify_have_nothing_to_judge(project):
    rows = {"example_id": [0], "text_id": [0], "text": ["a"], "label": ["x"], "predicted": ["x"], "probability": [1.0],
            "probabilities": [[1.0]]}
    write_table(RunPaths("ct", 13).predictions, SCHEMAS["class_predictions"], rows, Provenance("evaluate_clld@ct", "0"))
    with pytest.raises(InputError, match="run ct is of the CLLD track, which classifies"):
        judge.sheets(["ct"], project / "judged", console(), seed=1)


def test_nothing_is_overwritten_but_untouched_sheets(project):
    out = project / "judged"
    make(out)
    before = (out / "sheets" / "rater-1.csv").read_bytes()
    make(out)
    assert (out / "sheets" / "rater-1.csv").read_bytes() == before
    make(out, raters=2)
    assert not (out / "sheets" / "rater-3.csv").exists()
    fill(out, lambda rater, row, criterion: 2 if rater == "rater-2" else None)
    filled = (out / "sheets" / "rater-2.csv").read_bytes()
    with pytest.raises(InputError, match="rater-2.csv is not as it was written: somebody may have filled it in"):
        make(out)
    assert (out / "sheets" / "rater-2.csv").read_bytes() == filled
    with pytest.raises(InputError, match="already holds artifacts. Name another folder"):
        make(project)
    (project / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        make(project / "file")


def test_without_a_seed_the_projects_is_taken(project):
    with pytest.raises(InputError, match="params.yaml: not found"):
        make(project / "judged", seed=None)


# Reading back

def opinion(rater, row, criterion):
    """The first run is better by a point but for one item; rater 3 differs a little."""
    base = 3 if row.run == RUNS[0] and row.example_id % 4 else 2
    return max(1, base - (rater == "rater-3" and row.example_id % 2 == 0))


def test_a_round_trip(project):
    out = project / "judged"
    make(out, items=10, references=True)
    key = fill(out, opinion)
    shown = console()
    judge.read(out, shown)
    table = read_frame(out / "judgements.parquet", SCHEMAS["judgements"])
    assert len(table) == 10 * 3 * 3 * 3
    expected = {(row.example_id, row.run, rater, criterion): opinion(rater, row, criterion)
                for rater, rows in key.rows.items() for row in rows for criterion in key.design.criteria}
    found = {(row.item, row.run, row.rater, row.criterion): row.score for row in table.itertuples()}
    assert found == expected
    content = json.loads((out / "summary.json").read_text())
    level = content["systems"][RUNS[0]]["fluency"]
    by_item = table[(table["run"] == RUNS[0]) & (table["criterion"] == "fluency")].groupby("item")["score"].mean()
    assert level == {"mean": pytest.approx(by_item.mean(), rel=1e-5), "sd": pytest.approx(by_item.std(), rel=1e-5),
                     "items": 10, "ratings": 30}
    page = (out / "results.md").read_text(encoding="utf-8")
    for text in ("Every cell is filled.", "hcl-secretname", "human reference", "Fleiss' kappa", "2.51", "0.56",
                 "no per-annotator data were published"):
        assert text in page
        assert text in shown.file.getvalue()


def test_the_test_of_two_systems_is_on_means_per_item(project):
    out = project / "judged"
    make(out, items=10)
    fill(out, opinion)
    judge.read(out, console())
    test = next(one for one in json.loads((out / "summary.json").read_text())["tests"] if one["criterion"] == "fluency")
    table = read_frame(out / "judgements.parquet").query("criterion == 'fluency'")
    means = table.groupby(["item", "run"])["score"].mean().unstack()
    theirs = ttest_rel(means[test["first"]], means[test["second"]])
    assert (test["items"], test["df"]) == (10, 9)
    assert (test["t"], test["p"]) == (pytest.approx(theirs.statistic, rel=1e-5), pytest.approx(theirs.pvalue, rel=1e-5))


def test_judgements_that_are_all_the_same_are_undefined_and_valid_json(project):
    out = project / "judged"
    make(out, criteria="fluency,warmth", raters=2)
    fill(out, lambda rater, row, criterion: 2 if criterion == "fluency" else 1 + (row.run == RUNS[0]))
    shown = console()
    judge.read(out, shown)
    content = json.loads((out / "summary.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    fluency, warmth = (content["agreement"][name] for name in ("fluency", "warmth"))
    assert fluency["fleiss"] is None and fluency["note"] == "undefined: every rating is the same"
    assert warmth["fleiss"] == 1 and warmth["cohen_mean"] == 1
    same, constant = content["tests"]
    assert same["t"] is None and same["p"] is None and same["note"] == "undefined: no differences"
    assert constant["t"] == "-infinite" and constant["p"] == 0 and constant["difference"] == -1
    assert "undefined: every rating is the same" in shown.file.getvalue()
    assert "## Published" not in shown.file.getvalue()


def test_every_problem_is_named_at_once(project):
    out = project / "judged"
    make(out, items=3, raters=2)
    bad = {(1, 1): "good", (1, 2): "4", (2, 1): "2.5", (2, 2): ""}
    fill(out, lambda rater, row, criterion: bad.get((row.item, row.position), 2) if criterion == "fluency" else 1)
    (out / "sheets" / "rater-2.csv").unlink()
    with pytest.raises(InputError) as caught:
        judge.read(out, console())
    for text in ("5 problems", "rater-1.csv: row 2, column fluency: 'good' is no whole number; give a whole number "
                 "from 1 to 3", "row 3, column fluency: 4 is not on the scale", "row 4, column fluency: '2.5' is no",
                 "row 5, column fluency: empty", "rater-2.csv: not there", "give --partial"):
        assert text in str(caught.value)
    assert not (out / "summary.json").exists()


def test_incomplete_sheets_count_what_is_missing(project):
    out = project / "judged"
    make(out, items=4, raters=3)
    fill(out, lambda rater, row, criterion: None if rater == "rater-2" and row.item > 2 else 1 + row.example_id % 3)
    (out / "sheets" / "rater-3.csv").unlink()
    with pytest.raises(InputError, match="give --partial"):
        judge.read(out, console())
    shown = console()
    judge.read(out, shown, partial=True)
    assert "**Not complete**: 36 of 72 cells are empty (rater-2: 12, rater-3: 24)" in shown.file.getvalue()
    content = json.loads((out / "summary.json").read_text())
    assert content["missing"] == {"rater-1": 0, "rater-2": 12, "rater-3": 24}
    # No output has all three ratings; two raters share four outputs.
    assert content["agreement"]["fluency"]["note"] == "undefined: no output has been judged by all its raters"
    assert [pair["outputs"] for pair in content["agreement"]["fluency"]["cohen"]] == [4]


def test_a_blank_sheet_is_one_line(project):
    make(project / "judged")
    with pytest.raises(InputError) as caught:
        judge.read(project / "judged", console())
    lines = str(caught.value).splitlines()
    assert all("none of its" in line for line in lines[1:-1]) and len(lines) < 10


def test_empty_sheets_say_so_even_when_partial(project):
    make(project / "judged")
    with pytest.raises(InputError, match="no sheet has a score in it"):
        judge.read(project / "judged", console(), partial=True)


def rewrite(path, change):
    text = path.read_bytes().decode("utf-8-sig")
    path.write_bytes(change(text).encode("utf-8"))


def test_a_sheet_may_come_back_sorted_and_with_semicolons(project):
    out = project / "judged"
    make(out)
    key = fill(out, opinion)
    path = out / "sheets" / "rater-1.csv"
    rows = sorted(rows_of(path), key=lambda row: row["output"])
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows({**row, "fluency": f"{row['fluency']}.0"} for row in rows)
    path.write_text(stream.getvalue() + ";;;;;;\n", encoding="utf-8")
    judge.read(out, console())
    table = read_frame(out / "judgements.parquet").query("rater == 'rater-1' and criterion == 'fluency'")
    expected = {(row.example_id, row.run): opinion("rater-1", row, "fluency") for row in key.rows["rater-1"]}
    assert {(row.item, row.run): row.score for row in table.itertuples()} == expected


@pytest.mark.parametrize(("change", "message"), [
    (lambda text: text.replace("position,", "place,", 1), "row 1: column 'position' is missing"),
    (lambda text: text.replace("answer", "question", 1), "row 2: source or output is not that of item 1, position 1"),
    (lambda text: text.replace("\r\n1,1,", "\r\n1,9,", 1), "item '1', position '9' is not of this sheet"),
    (lambda text: text.replace("\r\n1,2,", "\r\n1,1,", 1), "row 3: item '1', position '1' is not of this sheet, or "
                                                           "stands in it twice"),
    (lambda text: text.replace("\r\n1,2,", "\r\nx,2,", 1), "item 'x', position '2' is not of this sheet"),
    (lambda text: "\r\n".join(text.split("\r\n")[:-2]), "item 5, position 2 has no row; put it back"),
])
def test_sheets_that_were_broken_are_refused(project, change, message):
    out = project / "judged"
    make(out)
    fill(out, opinion)
    rewrite(out / "sheets" / "rater-1.csv", change)
    with pytest.raises(InputError, match=message):
        judge.read(out, console())


def test_scores_in_other_files_are_not_lost(project):
    out = project / "judged"
    make(out)
    fill(out, opinion)
    (out / "sheets" / ".~lock.rater-1.csv#").write_text("")
    judge.read(out, console())
    (out / "sheets" / "rater-1 (filled).xlsx").write_text("")
    with pytest.raises(InputError, match="rater-1 .filled..xlsx: no sheet of this evaluation. If scores are"):
        judge.read(out, console(), partial=True)


def test_weights_have_names(project):
    with pytest.raises(InputError, match="no weights are called 'quadrat'; did you mean 'quadratic'"):
        judge.read(project, console(), weights="quadrat")
    out = project / "judged"
    make(out, items=10)
    fill(out, opinion)
    judge.read(out, console(), weights="linear")
    found = json.loads((out / "summary.json").read_text())["agreement"]["fluency"]
    table = read_frame(out / "judgements.parquet").query("criterion == 'fluency'")
    scores = table.set_index(["item", "run", "rater"])["score"].unstack()
    theirs = cohen_kappa_score(scores["rater-1"], scores["rater-3"], labels=[1, 2, 3], weights="linear")
    pair = next(pair for pair in found["cohen"] if pair["raters"] == ["rater-1", "rater-3"])
    assert pair["kappa"] == pytest.approx(theirs, rel=1e-5) and found["cohen_weights"] == "linear"


def test_files_that_are_no_sheets_are_refused(project):
    path = project / "sheet.csv"
    path.write_bytes("item\tpositión".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8 .byte 11.. Save it from the spreadsheet as \"CSV UTF-8\""):
        read_csv(path, ["item"])
    with pytest.raises(InputError, match="key.json: not found"):
        judge.read(project, console())
    (project / "key.json").write_text("[]")
    with pytest.raises(InputError, match="not a key"):
        judge.read(project, console())
    (project / "key.json").write_text('{"version": 99}')
    with pytest.raises(InputError, match="version 99 is not 1"):
        judge.read(project, console())


def test_rows_are_known_by_letters_and_digits_alone():
    assert text_digest("Why?", "=1") == text_digest("why", "'=1")
    assert text_digest("ab", "c") != text_digest("a", "bc")


def test_counts_and_pairs_follow_who_judged_what():
    table = pd.DataFrame([(1, "a", "rater-1", 2), (1, "a", "rater-2", 3), (2, "a", "rater-1", 1),
                          (2, "a", "rater-3", 1), (3, "a", "rater-2", 1)], columns=["item", "run", "rater", "score"])
    assert rating_counts(table, range(1, 4), 2).tolist() == [[0, 1, 1], [2, 0, 0]]
    pairs = pairwise_kappas(table, range(1, 4))
    assert {raters: outputs for raters, (_, outputs) in pairs.items()} == {("rater-1", "rater-2"): 1,
                                                                          ("rater-1", "rater-3"): 1}


def test_a_single_rater_has_nobody_to_agree_with():
    table = pd.DataFrame([(n, "a", "rater-1", "fluency", 1 + n % 2) for n in range(4)],
                         columns=["item", "run", "rater", "criterion", "score"])
    found = summary(table, Design(4, 1, None, 1, 3, ("fluency",)))
    assert found["agreement"]["fluency"]["note"] == "undefined: one rater per output"
    assert found["tests"] == []
