"""Human evaluation: sheets that tell raters nothing, sheets read back, kappas and paired t."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.stats import ttest_rel

from keycontrast.errors import InputError
from pipeline import judgement
from pipeline.judgement import NO_OUTPUT, REFERENCE, Design, agreement, fleiss_kappa, make_sheets, shared_outputs
from pipeline.schemas import SCHEMAS
from stages.common.paths import RunPaths
from stages.common.tables import Provenance, read_frame, write_table

RUNS = ("hcl-secretname", "baseline-secretname")
FLUENCY = Design(20, 3, 3, 1, 3, ("fluency",))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in RUNS:
        write_predictions(run, range(12))
    return tmp_path


def write_predictions(run, ids, source="How do I {}?", track="hcl"):
    rows = [{"example_id": number, "sample": sample, "source": source.format(number), "keyword": None,
             "keyword_known": False, "prediction": f"answer {len(run)} of {number}, draw {sample}",
             "references": [f"reference of {number}"]} for number in ids for sample in (0, 1)]
    write_table(RunPaths(run, 13).predictions, SCHEMAS["predictions"], pd.DataFrame(rows),
                Provenance(f"generate_{track}@{run}", "0"))


def make(out, runs=RUNS, **changes):
    console = Console(file=io.StringIO(), width=200)
    judgement.write_sheets(runs, out, console, **({"items": 5, "seed": 1} | changes))
    return console.file.getvalue()


def read(folder, **options):
    judgement.write_results(folder, Console(file=io.StringIO()), **options)
    return (folder / "results.md").read_text(encoding="utf-8")


def fill(folder, score):
    key = json.loads((folder / "key.json").read_text())
    for path in (folder / "sheets").glob("*.csv"):
        rows = {(row["item"], row["position"]): row for row in key["rows"] if row["rater"] == path.stem}
        sheet = pd.read_csv(path, encoding="utf-8-sig", dtype=str, keep_default_na=False)
        for criterion in key["design"]["criteria"]:
            sheet[criterion] = [str(score(rows[int(item), int(position)], criterion))
                                for item, position in zip(sheet["item"], sheet["position"], strict=True)]
        path.write_bytes(sheet.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"))
    return key


def opinion(row, criterion="fluency"):
    return 1 + (row["example_id"] + len(row["run"]) + (row["rater"] == "rater-3")) % 3


def scored(*raters):
    return pd.DataFrame([{"item": item, "run": "a", "rater": f"rater-{number}", "criterion": "fluency", "score": score}
                         for number, scores in enumerate(raters, 1) for item, score in enumerate(scores)])


def outputs(systems="abc"):
    return pd.Series(range(30)), pd.DataFrame({name: {n: f"{name} {n}" for n in range(30)} for name in systems})


def test_fleiss_kappa_is_its_equation():
    counts = np.random.default_rng(0).multinomial(5, [0.5, 0.3, 0.2], size=30)
    agreements = [(sum(int(c) ** 2 for c in row) - 5) / (5 * 4) for row in counts]
    chance = sum((sum(int(row[c]) for row in counts) / (5 * len(counts))) ** 2 for c in range(3))
    assert fleiss_kappa(counts) == pytest.approx((sum(agreements) / len(agreements) - chance) / (1 - chance))
    assert np.isnan([fleiss_kappa(np.array(counts)) for counts in ([[0, 3], [0, 3]], [[0, 1], [1, 0]])]).all()


def test_kappas_of_equal_ratings_are_undefined_and_pairs_follow_who_judged_what():
    assert agreement(scored([2, 2], [2, 2]), FLUENCY)["fluency"].isna().tolist() == [True, False, True, True]
    table = pd.DataFrame([(1, "a", "rater-1", 2), (1, "a", "rater-2", 3), (2, "a", "rater-1", 1),
                          (2, "a", "rater-3", 1), (3, "a", "rater-2", 1)], columns=["item", "run", "rater", "score"])
    kappas = agreement(table.assign(criterion="fluency"), Design(3, 3, 2, 1, 3, ("fluency",)))["fluency"]
    assert kappas["outputs"] == 2 and [*kappas.index[3:]] == ["rater-1 rater-2", "rater-1 rater-3"]
    assert kappas["Fleiss"] == pytest.approx(fleiss_kappa(np.array([[0, 1, 1], [2, 0, 0]])))


def test_the_test_of_two_systems_is_that_of_scipy_on_means_per_item():
    draw = np.random.default_rng(2)
    table = pd.DataFrame([(item, run, f"rater-{rater}", "fluency", draw.integers(1, 4)) for item in range(10)
                          for run in "ab" for rater in range(3)], columns=[*SCHEMAS["judgements"].arrow().names])
    means = table.groupby(["item", "run"])["score"].mean().unstack()
    (test,) = judgement.paired_tests(table).itertuples()
    assert (test.t, test.p) == pytest.approx(ttest_rel(means["a"], means["b"])) and test.items == 10
    assert judgement.levels(table).iloc[0, 2:].tolist() == [means["a"].mean(), means["a"].std(), 10]
    # Thirds do not add up exactly: differences that are all 1/3 differ in their last digit.
    same = pd.concat([scored([1, 2, 2], [1, 1, 2], [2, 1, 3]), scored([1, 1, 2], [1, 1, 2], [1, 1, 2]).assign(run="b")])
    (test,) = judgement.paired_tests(same).itertuples()
    assert np.isnan(test.t) and np.isnan(test.p) and test.difference == pytest.approx(1 / 3)


def test_sheets_have_every_output_once_and_are_shuffled_for_each_rater_by_the_seed():
    sheets = [sheet for _, sheet in make_sheets(*outputs(), FLUENCY, seed=5).groupby("rater")]
    for sheet in sheets:
        assert len(sheet[["example_id", "run"]].drop_duplicates()) == len(sheet) == 60
        assert set(sheet["example_id"]) == set(sheets[0]["example_id"])
    assert len({tuple(sheet["example_id"]) for sheet in sheets}) == 3
    orders = [sheet.groupby("example_id")["run"].agg("".join) for sheet in sheets]
    assert orders[0].nunique() > 3 and (orders[0] != orders[1]).any()
    pd.testing.assert_frame_equal(pd.concat(sheets), make_sheets(*outputs("cab"), FLUENCY, seed=5))
    assert not make_sheets(*outputs(), FLUENCY, seed=6).equals(pd.concat(sheets))


def test_cells_do_nothing_in_a_spreadsheet():
    for text in ("=1+1", "+1", "-1", "@sum", " =1", "\t=1", "＝1"):
        assert judgement.harmless(text).startswith("'")
    for text in ("How are you?", "1 - 2", "", "“减肥”, he said; \"yes\""):
        assert judgement.harmless(text) == text
    assert judgement.harmless("two\r\nlines") == "two  lines"
    digests = [judgement.text_digest(*texts) for texts in (("Why?", "=1"), ("why", "'=1"), ("why1", "'="))]
    assert digests[0] == digests[1] != digests[2]


def test_sheets_hide_the_runs(project):
    assert "5 items, 3 systems, 3 raters" in make(project / "judged", references=True)
    paths = sorted((project / "judged" / "sheets").iterdir())
    assert [path.name for path in paths] == ["instructions.md", "rater-1.csv", "rater-2.csv", "rater-3.csv"]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert "secretname" not in text and REFERENCE not in text
    assert "from 1 (worst) to 3 (best)" in text and "**differential**" in text
    key = json.loads((project / "judged" / "key.json").read_text())
    assert {row["run"] for row in key["rows"]} == {*RUNS, REFERENCE} and len(key["runs"]) == 2
    with pytest.raises(InputError, match="judged already exists. Name another folder"):
        make(project / "judged")


def test_first_outputs_of_shared_items_are_judged_and_the_reference_is_not_given_away(project):
    table = read_frame(RunPaths(RUNS[0], 13).predictions)
    table["references"] = [["Reference In Capitals"]] * len(table)
    late = table[table["example_id"] >= 8].assign(prediction=" ")
    sources, texts = shared_outputs({"run": table, "late": late}, references=True)
    assert sorted(sources.index) == [8, 9, 10, 11] and not texts["run"].str.contains("draw 1").any()
    assert set(texts[REFERENCE]) == {"reference in capitals"}
    rows = make_sheets(sources, texts, Design(4, 1, 1, 1, 3, ("fluency",)), 1)
    assert set(rows["output"][rows["run"] == "late"]) == {NO_OUTPUT}
    assert shared_outputs({"run": table.assign(prediction="A")}, True)[1][REFERENCE].str.istitle().all()


def test_sheets_come_back_sorted_and_with_semicolons(project):
    out = project / "judged"
    make(out, items=10, references=True)
    key = fill(out, opinion)
    path = out / "sheets" / "rater-1.csv"
    sheet = pd.read_csv(path).sort_values("output").astype({"fluency": float})
    path.write_text(sheet.to_csv(index=False, sep=";") + ";;;;;;\n")
    page = read(out)
    for text in ("0 of 270 cells are empty", "hcl-secretname", "human reference", "Fleiss", "rater-1 rater-3"):
        assert text in page
    table = read_frame(out / "judgements.parquet", SCHEMAS["judgements"])
    assert {(row.item, row.run, row.rater, row.criterion): row.score for row in table.itertuples()} == {
        (row["example_id"], row["run"], row["rater"], criterion): opinion(row)
        for row in key["rows"] for criterion in key["design"]["criteria"]}


def test_every_problem_is_named_at_once_and_partial_sheets_are_read_if_asked(project):
    out = project / "judged"
    make(out, items=3)
    bad = {(1, 1): "good", (1, 2): "4", (2, 1): "2.5", (2, 2): ""}
    fill(out, lambda row, criterion: bad.get((row["item"], row["position"]), 2) if criterion == "fluency" else 1)
    (out / "sheets" / "rater-2.csv").unlink()
    with pytest.raises(InputError) as caught:
        read(out)
    for text in ("rater-1.csv: row 2, column fluency: 'good' is not a whole number from 1 to 3", "row 3, column flu",
                 "row 4, column fluency: '2.5'", "row 5, column fluency: ''", "rater-2.csv: missing", "--partial"):
        assert text in str(caught.value)
    fill(out, lambda row, criterion: "" if row["item"] > 2 else 2)
    assert "30 of 54 cells are empty" in read(out, partial=True)
    fill(out, lambda row, criterion: "")
    with pytest.raises(InputError, match="no score is filled in"):
        read(out, partial=True)
