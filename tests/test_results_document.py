"""docs/results.md from artifacts: what was run, tables with intervals, and differences between rows."""

import json

import pytest
import yaml
from classifier_artifacts import write_classifiers
from report_artifacts import write_project, write_rewriting

from keycontrast.errors import InputError
from pipeline import results_document
from pipeline.markdown import escaped
from pipeline.results_document import begin, end, with_block
from stages.common.paths import COMPARISON, ModelPaths, RunPaths


@pytest.fixture
def rewriting(tmp_path, monkeypatch):
    """A project of PGKPR alone."""
    monkeypatch.chdir(tmp_path)
    write_rewriting()
    return tmp_path


@pytest.fixture
def classifying(tmp_path, monkeypatch):
    """A project of CLLD alone."""
    monkeypatch.chdir(tmp_path)
    write_classifiers(train_clld={"training": {"epochs": 4, "batch_size": 32, "patience": 3}})
    return tmp_path


def made(name):
    results_document.write(name)
    return results_document.DOCUMENT.read_text(encoding="utf-8")


def row(text, first, *others):
    """Return the cells of the first row of a table that begins with ``first`` and has ``others``."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and cells[0] == first and all(other in cells for other in others):
            return cells
    raise AssertionError(f"no row {first} {others}")


def section(text, heading):
    return text.split(f": {heading}\n")[1].split("\n### ")[0]


def test_what_was_run_is_said(rewriting):
    text = section(made("quora"), "what was run")
    assert row(text, "pgkpr (2 seeds)")[1:] == ["PGKPR", "nothing", "13, 99", "2/2 2/2"]
    assert row(text, "w-o-con")[1:3] == ["PGKPR without the contrast of pairs",
                                         "contrast.weight = 0.0, decode.num\\_beams = 4"]


def test_the_main_table_of_pgkpr_is_in_the_paper_s_unit(rewriting):
    text = section(made("quora"), "as PGKPR reports it")
    assert row(text, "row") == ["row", *(f"BLEU-{order}" for order in range(1, 5)), "ROUGE-1", "ROUGE-2", "ROUGE-L",
                                "source BLEU-4", "iBLEU", "source's keywords kept"]
    assert row(text, "*floor: copy*")[1:] == ["71.00", "36.00", "24.33", "18.50", "35.00", "35.00", "35.00", "30.00",
                                              "10.00", "75.00"]
    # The comparison has the mean of some metrics; of the others it is taken over the runs.
    assert row(text, "**pgkpr (2 seeds)**")[1:3] == ["54.32 ± 1.23", "28.50 ± 3.54"]
    assert row(text, "**lbow**")[1] == "51.00"
    assert row(text, "95 % interval", "50.00 to 60.00")[2] == "–"
    assert row(text, "*paper: PGKPR* (!9)")[1:8] == ["58.89", "45.08", "35.69", "29.23", "60.94", "36.69", "58.16"]
    assert row(text, "*paper: PGKPR-ref*")[1:3] == ["58.89 (!4)", "45.07"]
    for name in ("LBOW-gumbel", "PGKPR-PSI+S", "w/o L\\_con"):
        assert row(text, f"*paper: {name}*")
    assert text.count("*paper:") == 5 and "\n(!4) " in text and "\n(!9) " in text


def test_further_metrics_stand_apart(rewriting):
    text = section(made("quora"), "further metrics")
    cells = dict(zip(row(text, "row"), row(text, "**pgkpr (2 seeds)**"), strict=True))
    assert (cells["sacreBLEU"], cells["BLEU-1, corpus"], cells["tokens"]) == (
        "12.35 ± 0.00", "0.5500 ± 0.0707", "9.5 ± 0.0")
    assert "source BLEU-4" not in cells


def test_the_full_method_is_compared_with_each_row_and_on_the_leading_metric_with_floors(rewriting):
    text = section(made("quora"), "differences")
    compared = ["BLEU-1", "50.00", "40.00", "+10.00", "+5.00 to +15.00", "0.002", "0.010", "3.00", "better"]
    for other in ("w-o-con", "lbow", "floor copy"):
        assert row(text, "pgkpr (2 seeds)", other)[2:] == compared
    # Without the full method rows are compared with floors alone.
    content = yaml.safe_load((rewriting / "params.yaml").read_text())
    content["runs"]["pgkpr"]["pgkpr"]["decode"] = {"keywords": "xy"}
    (rewriting / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    lines = [line for line in section(made("quora"), "differences").splitlines() if "| BLEU-1 " in line]
    assert lines and all("| floor copy |" in line for line in lines)


def test_the_main_table_of_clld_is_in_per_cent_with_the_paper_below(classifying):
    text = section(made("20ng"), "as CLLD reports it")
    assert row(text, "row") == ["row", "accuracy", "macro F1", "weighted F1", "NLL", "Brier", "ECE"]
    assert row(text, "*floor: majority*")[1:] == ["25.00", "8.00", "10.00", "–", "–", "–"]
    assert row(text, "**ct (2 seeds)**")[1] == "71.23 ± 1.23" and row(text, "*paper: TextCNN*")[1:3] == ["78.8", "–"]
    # On 20NG the ablation's rows are nearer than those of Table II.
    assert row(text, "*paper: CT*")[1] == "85.30" and row(text, "*paper: CT+CL*")[1] == "86.30"
    assert "*paper: TextCNN+CLLD*" in text and text.count("*paper:") == 4


def test_each_step_of_clld_is_compared(classifying):
    text = section(made("20ng"), "differences")
    assert row(text, "cl (2 seeds)", "ct (2 seeds)", "accuracy")[3:] == [
        "75.00", "70.00", "+5.00", "+2.00 to +8.00", "0.002", "0.010", "3.00", "better"]
    assert row(text, "clald", "cl (2 seeds)")[-1] == "worse"
    assert row(text, "ct (2 seeds)", "floor linear")[-1] == "better"


def test_all_tracks_stand_in_one_block(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project()
    write_rewriting()
    write_classifiers()
    headings = [line.removeprefix("### all, ") for line in made("all").splitlines() if line.startswith("###")]
    assert [heading for heading in headings if "reports it" in heading] == [
        "tiny/test: as HCL reports it", "quora/test: as PGKPR reports it", "20ng/test: as CLLD reports it"]
    assert "<script>" not in made("all")


@pytest.mark.parametrize(("path", "remedy"), [
    (COMPARISON / "metrics.json", "keycontrast run compare"), (COMPARISON / "paired.parquet", "keycontrast run"),
    (RunPaths("lbow", 13).metrics, "keycontrast run evaluate_pgkpr@lbow"),
    (ModelPaths("psi", 13).metrics, "keycontrast run train_pgkpr@psi"),
    (ModelPaths("psi", 13).history, "keycontrast run train_pgkpr@psi"),
    (RunPaths("cl", 13).table("classes"), "keycontrast run evaluate_clld@cl"),
    (COMPARISON / "mcnemar.parquet", "keycontrast run")], ids=lambda value: str(value))
def test_what_is_missing_is_named_with_the_stage_to_run(rewriting, capsys, path, remedy):
    write_classifiers()
    path.unlink()
    assert results_document.main(["qqp"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"results_document: {path}: no such artifact") and remedy in said
    assert not results_document.DOCUMENT.exists()


@pytest.mark.parametrize(("change", "message"), [
    (lambda groups: groups.update(gone={"runs": ["gone"]}), "runs: gone, which params.yaml does not have. Run `keyc"),
    (lambda groups: groups.pop("lbow"), "other runs: lbow, of params.yaml, is not in it")])
def test_a_comparison_of_other_runs_is_refused(rewriting, change, message):
    found = json.loads((COMPARISON / "metrics.json").read_text())
    change(found["quora/test"]["groups"])
    (COMPARISON / "metrics.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match=message):
        made("quora")


def test_a_recipe_without_runs_has_no_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"recipe": "none", "datasets": {"qqp": {"source": "x"}}}))
    with pytest.raises(InputError, match="runs.hcl, runs.pgkpr and models.clld are empty"):
        made("qqp")


# The document

def test_blocks_are_put_at_the_end_and_then_replaced(rewriting):
    document = results_document.DOCUMENT
    document.parent.mkdir()
    document.write_text("# Results\n\nBy hand.\n", encoding="utf-8")
    assert results_document.main(["one"]) == results_document.main(["two"]) == 0
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"# Results\n\nBy hand.\n\n{begin('one')}\n### one: what was run")
    assert text.index(end("one")) < text.index(begin("two"))
    between = text.replace(end("one"), f"{end('one')}\n\nWhat it says: nothing.")
    document.write_text(between.replace("Recipe tiny-pgkpr", "stale"), encoding="utf-8")
    results_document.main(["one"])
    text = document.read_text(encoding="utf-8")
    assert text.count("Recipe tiny-pgkpr") == 1 and text.count("stale") == 1
    assert "What it says: nothing." in text and text.count(begin("one")) == 1


@pytest.mark.parametrize("document", [begin("a"), end("a"), f"{end('a')}\n{begin('a')}",
                                      f"{begin('a')}\n{end('a')}\n{begin('a')}\n{end('a')}"])
def test_broken_marks_are_refused(document):
    with pytest.raises(InputError, match="marks of block a must stand once each"):
        with_block(document, "a", "text")


# Markdown

@pytest.mark.parametrize(("text", "shown"), [
    ("a|b", "a\\|b"), ("<script>", "&lt;script&gt;"), ("*x*_y_`z`", "\\*x\\*\\_y\\_\\`z\\`"),
    ("a\nb\x1b[31m", "a b\\\\x1b\\[31m"),
    ("[x](http://y.z)", "\\[x\\](http\\://y.z)"), ("&amp;", "&amp;amp;"), ("1. x", "1\\. x"), ("- x", "\\- x"),
    ("plain, text.", "plain, text."), ("!" + "x" * 500, "\\!" + "x" * 398 + "…")])
def test_text_from_data_stays_text(text, shown):
    assert escaped(text) == shown
