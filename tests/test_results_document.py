"""docs/results.md from artifacts: what was run, tables with intervals, and differences between rows."""


import pandas as pd
import pytest
import yaml
from classifier_artifacts import seed_of, write_classifiers
from report_artifacts import over_seeds, write_rewriting

from keycontrast.errors import InputError
from pipeline import results_document
from pipeline.markdown import escaped
from pipeline.results_document import begin, end, with_block
from pipeline.schemas import SCHEMAS
from stages.common.paths import COMPARISON, ModelPaths, RunPaths, row_name
from stages.common.tables import Provenance, write_json, write_table

MODELS = {"hcl": {"seeds": [1, 2]}, "flat": {"overrides": {"graph": {"iterations": 0}}},
          "plain": {"overrides": {"latent": {"enabled": False}}, "init": "artifacts/models/hcl"},
          "calm": {"overrides": {"contrasts": {"instance": {"weight": 0}}}}}
VALUES = {"bleu_1": 0.61, "bleu_2": 0.31, "bleu_3": 0.16, "bleu_4": 0.09, "extrema": 0.58, "average": 0.78,
          "greedy": 0.70, "corpus_bleu_4": 0.15, "sacrebleu": 15.66, "rouge_l": 0.41, "bertscore": 0.71,
          "distinct_1": 0.14, "self_bleu": 0.3, "source_bleu": 0.2, "ibleu": 0.08, "keyword_kept": 0.6,
          "mean_length": 9.66}
NAMES = ("hcl/1", "hcl/2", "flat", "plain", "calm")     # of models and runs, as results call them
# metric, first, second, difference, low, high, p
PAIRED = [("bleu_1", "hcl", "flat", 0.02, 0.004, 0.036, 0.01), ("bleu_2", "flat", "hcl", 0.01, 0.002, 0.02, 0.03),
          ("source_bleu", "hcl", "flat", -0.05, -0.08, -0.02, 0.0005),
          ("greedy", "hcl", "flat", 0.001, -0.01, 0.012, 0.8),
          ("mean_length", "hcl", "flat", 0.5, 0.2, 0.8, 0.001), ("bleu_1", "hcl", "plain", 0.0, -0.1, 0.1, 1.0),
          ("bleu_1", "flat", "plain", 0.0, -0.1, 0.1, 1.0), ("bleu_1", "hcl", "floor copy", -0.2, -0.3, -0.1, 0.001),
          ("source_bleu", "hcl", "floor copy", -0.8, -0.9, -0.7, 0.001)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = {"recipe": "tiny", "datasets": {"qqp": {"source": "x"}}, "ingest": {"neg_source": "retrieved"},
               **{block: {"datasets": ["qqp"]} for block in ("keywords", "graph", "node_vectors")},
               "train_hcl": {"training": {"epochs": 3, "batch_size": 8, "freeze_layers": 4}, "decoder": {"layers": 2}},
               "models": {"hcl": {name: {"dataset": "qqp"} | model for name, model in MODELS.items()}},
               "runs": {"hcl": {name: {"model": name} for name in MODELS}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    write_runs()
    write_comparison()
    write_models()
    return tmp_path


def write_runs():
    for run in NAMES:
        write_json(RunPaths(row_name(run), seed_of(run)).metrics, {
            "run": VALUES | {"mean_length": 10.66 if run == "hcl/2" else 9.66},
            "floors": {"copy": VALUES | {"bleu_1": 0.82, "source_bleu": 1.0}},
            "intervals": {"run": {"bleu_1": [0.6, 0.62]}, "floors": {"copy": {"bleu_1": [0.81, 0.83]}}},
            "counts": {"examples": 500}, "settings": {"split": "test", "emb": {"name": "mini|LM"}, "bertscore": {
                "name": "other", "layer": 6}}})


def write_comparison(runs=("hcl/1", "hcl/2"), others=("flat", "plain", "calm")):
    means = {name: {"mean": value, "sd": 0.003, "low": value - 0.01, "high": value + 0.01}
             for name, value in VALUES.items()}
    means = {name: mean for name, mean in means.items() if name not in ("distinct_1", "mean_length")}
    one = {"mean": 0.59, "sd": None, "low": 0.57, "high": 0.61}
    groups = {"hcl": {"runs": list(runs), "seeds": [1, 2], **means},
              **{run: {"runs": [run], "seeds": [13], "bleu_1": one} for run in (*runs, *others)},
              "floor copy": {"runs": [], "seeds": [], "bleu_1": one}}
    write_json(COMPARISON / "metrics.json", {"qqp/test": {"groups": groups, "items": 500}})
    rows = [{"dataset": "qqp/test", "metric": metric, "first": first, "second": second, "items": 500,
             "first_value": 0.5 + difference, "second_value": 0.5, "difference": difference, "low": low, "high": high,
             "p_value": p} for metric, first, second, difference, low, high, p in PAIRED]
    write_table(COMPARISON / "paired.parquet", SCHEMAS["paired"], pd.DataFrame(over_seeds(rows)),
                Provenance("compare", "0"))


def write_models():
    for name in NAMES:
        paths = ModelPaths(row_name(name), seed_of(name))
        write_json(paths.metrics, {
            "best_epoch": 2, "epochs": 3, "stopped_early": False, "alarms": [], "keywords": {}, "validation": {}})
        paths.history.write_text("epoch,step,best\n1,5,True\n2,10,True\n3,15,False\n")


def made(name="qqp"):
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


def test_what_was_run_is_said(project):
    text = section(made(), "what was run")
    assert row(text, "hcl") == ["hcl", "HCL", "nothing", "1, 2", "2/3 2/3"]
    assert row(text, "flat")[1:3] == ["HCL without the graph", "graph.iterations = 0"]
    assert row(text, "plain")[2] == "latent.enabled = False; starts from hcl"


def test_the_main_table_has_floors_seeds_intervals_and_the_paper(project):
    text = section(made(), "as HCL reports it")
    assert row(text, "*floor: copy*")[1] == "0.8200"
    assert row(text, "**hcl**")[1] == "0.6100 ± 0.0030"
    assert row(text, "95 % interval", "0.6000 to 0.6200")[1] == "0.6000 to 0.6200"
    assert row(text, "95 % interval")[1] == "0.8100 to 0.8300"
    # The values of single runs and their intervals are those of their evaluation.
    assert row(text, "**calm**")[1:3] == ["0.6100", "0.3100"]
    assert row(text, "*paper: Ours*")[1:] == ["0.6430", "0.3517", "0.1845", "0.1153", "0.6701", "0.8495", "0.8661"]
    assert row(text, "*paper: w/o graph*")[1] == "0.6295"
    assert row(text, "*paper: BERT-GEN*")[1] == "0.5452"
    assert text.count("*paper:") == 3


def test_further_metrics_stand_apart(project):
    text = section(made(), "further metrics")
    heads = row(text, "row")
    cells = dict(zip(heads, row(text, "**hcl**"), strict=True))
    assert [cells[name] for name in ("sacreBLEU", "tokens", "input's keyword kept")] == ["15.66 ± 0.00", "10.2 ± 0.7",
                                                                                 "0.6000 ± 0.0030"]
    assert "ROUGE-1" not in heads and "BLEU-4, corpus" in heads


def test_the_full_method_is_compared_with_each_row_and_on_the_leading_metric_with_floors(project):
    text = section(made(), "differences")
    # BLEU-2 was stored the other way round.
    assert row(text, "hcl", "flat", "BLEU-2")[3:] == ["0.5000", "0.5100", "-0.0100", "-0.0200 to -0.0020", "0.030",
                                                      "0.010", "0.0300", "worse"]
    assert row(text, "hcl", "flat", "BLEU-1")[-1] == "better" and row(text, "hcl", "plain")[-1] == "cannot be told"
    assert row(text, "hcl", "floor copy")[2:] == ["BLEU-1", "0.3000", "0.5000", "-0.2000", "-0.3000 to -0.1000",
                                                  "0.001", "0.010", "0.0300", "worse"]


def test_without_the_full_method_rows_are_compared_with_floors_alone(project):
    content = yaml.safe_load((project / "params.yaml").read_text())
    content["runs"]["hcl"]["hcl"]["decode"] = {"keyword": "random"}
    (project / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    text = made()
    compared = [line.split("|")[2].strip() for line in section(text, "differences").splitlines() if "| BLEU-" in line]
    assert set(compared) == {"floor copy"} and "*paper: Ours*" not in text
    assert row(text, "hcl")[1:3] == ["HCL, keyword random", "decode.keyword = random"]


MISSING = [
    (COMPARISON / "metrics.json", "keycontrast run compare"), (COMPARISON / "paired.parquet", "keycontrast run"),
    (RunPaths("flat", 13).metrics, "keycontrast run evaluate_hcl@flat"),
    (ModelPaths("flat", 13).metrics, "keycontrast run train_hcl@flat"),
    (ModelPaths("flat", 13).history, "keycontrast run train_hcl@flat"),
    (RunPaths("lbow", 13).metrics, "keycontrast run evaluate_pgkpr@lbow"),
    (ModelPaths("psi", 13).history, "keycontrast run train_pgkpr@psi"),
    (RunPaths("cl", 13).table("classes"), "keycontrast run evaluate_clld@cl"),
    (ModelPaths("cl", 13).history, "keycontrast run train_clld@cl"),
    (COMPARISON / "mcnemar.parquet", "keycontrast run")]


@pytest.mark.parametrize(("path", "remedy"), MISSING, ids=[path.as_posix() for path, _ in MISSING])
def test_what_is_missing_is_named_with_the_stage_to_run(project, capsys, path, remedy):
    write_rewriting()
    write_classifiers()
    path.unlink()
    assert results_document.main(["qqp"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"results_document: {path}: no such artifact") and remedy in said
    assert not results_document.DOCUMENT.exists()


def test_a_comparison_of_other_runs_is_refused(project):
    write_comparison(runs=("hcl/1", "hcl/2", "gone"))
    with pytest.raises(InputError, match="runs: gone, which params.yaml does not have. Run `keycontrast run comp"):
        made()
    write_comparison(others=("flat", "plain"))
    with pytest.raises(InputError, match="other runs: calm, of params.yaml, is not in it"):
        made()


def test_a_recipe_without_runs_has_no_results(project):
    (project / "params.yaml").write_text(yaml.safe_dump({"recipe": "none", "datasets": {"qqp": {"source": "x"}}}))
    with pytest.raises(InputError, match="runs.hcl, runs.pgkpr and models.clld are empty"):
        made()


# PGKPR

@pytest.fixture
def rewriting(tmp_path, monkeypatch):
    """A project of PGKPR alone."""
    monkeypatch.chdir(tmp_path)
    write_rewriting(train_pgkpr={"sizes": {"layers": 2, "heads": 4, "width": 256, "feed_forward": 512},
                                 "training": {"epochs": 5, "batch_size": 64}})
    return tmp_path


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


# CLLD

@pytest.fixture
def classifying(tmp_path, monkeypatch):
    """A project of CLLD alone."""
    monkeypatch.chdir(tmp_path)
    write_classifiers(train_clld={"training": {"epochs": 4, "batch_size": 32, "patience": 3}})
    return tmp_path


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


def test_all_tracks_stand_in_one_block(project):
    write_rewriting()
    write_classifiers()
    headings = [line.removeprefix("### qqp, ") for line in made().splitlines() if line.startswith("###")]
    assert [heading for heading in headings if "reports it" in heading] == [
        "qqp/test: as HCL reports it", "quora/test: as PGKPR reports it", "20ng/test: as CLLD reports it"]


# The document

def test_blocks_are_put_at_the_end_and_then_replaced(project):
    document = results_document.DOCUMENT
    document.parent.mkdir()
    document.write_text("# Results\n\nBy hand.\n", encoding="utf-8")
    assert results_document.main(["one"]) == results_document.main(["two"]) == 0
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"# Results\n\nBy hand.\n\n{begin('one')}\n### one: what was run")
    assert text.index(end("one")) < text.index(begin("two"))
    between = text.replace(end("one"), f"{end('one')}\n\nWhat it says: nothing.")
    document.write_text(between.replace("Recipe tiny", "stale"), encoding="utf-8")
    results_document.main(["one"])
    text = document.read_text(encoding="utf-8")
    assert text.count("Recipe tiny") == 1 and text.count("stale") == 1
    assert "What it says: nothing." in text and text.count(begin("one")) == 1


@pytest.mark.parametrize("document", [begin("a"), end("a"), f"{end('a')}\n{begin('a')}",
                                      f"{begin('a')}\n{end('a')}\n{begin('a')}\n{end('a')}"])
def test_broken_marks_are_refused(document):
    with pytest.raises(InputError, match="the marks of block a must stand once each"):
        with_block(document, "a", "text")


# Markdown

@pytest.mark.parametrize(("text", "shown"), [
    ("a|b", "a\\|b"), ("<script>", "&lt;script&gt;"), ("*x*_y_`z`", "\\*x\\*\\_y\\_\\`z\\`"),
    ("a\nb\x1b[31m", "a b\\\\x1b\\[31m"),
    ("[x](http://y.z)", "\\[x\\](http\\://y.z)"), ("&amp;", "&amp;amp;"), ("1. x", "1\\. x"), ("- x", "\\- x"),
    ("plain, text.", "plain, text."), ("!" + "x" * 500, "\\!" + "x" * 398 + "…")])
def test_text_from_data_stays_text(text, shown):
    assert escaped(text) == shown
