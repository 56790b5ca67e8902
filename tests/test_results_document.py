"""docs/results.md from artifacts: what was run, tables with intervals, what each part is worth, and the monitors."""

import json
import re

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
from stages.common.paths import COMPARISON, DatasetPaths, ModelPaths, ProbePaths, RunPaths, row_name
from stages.common.tables import Provenance, write_json, write_table
from stages.run.process import RECORDS

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
    write_counts()
    write_runs()
    write_comparison()
    write_models()
    RECORDS.mkdir(parents=True)
    for name, seconds in (("ingest@qqp", 5), ("train_hcl@hcl", 4000), ("generate_hcl@hcl", 40), ("compare@all", 2),
                          ("train_hcl@other", 90000)):
        (RECORDS / f"{name}.json").write_text(json.dumps({"seconds": seconds, "cpu_seconds": 1} | (
            {"device": "Some GPU"} if name.startswith("generate") else {})))
    return tmp_path


def write_counts():
    paths = DatasetPaths("qqp")
    write_json(paths.metrics("ingest"), {
        "examples": {"train": 3000, "validation": 200, "test": 500}, "negative_source": "retrieved",
        "rule": "undirected_one", "split_by": "component",
        "labelled_triples_by_rule": {"undirected_one": 2354, "undirected_all": 5892},
        "triples_by_negative_source": {"labelled": 2354, "retrieved": 78442}})
    write_json(paths.metrics("graph"), {"nodes": 3819, "edges_positive": 4760, "edges_negative": 3886,
                                        "share_input_equals_output": 0.436, "share_output_equals_negative": 0.1433,
                                        "share_with_negative_neighbour": 0.9277, "share_masked": 0.0393})
    write_json(paths.metrics("keywords"), {"share_source_known": {"test": 0.448}})


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
        alarms = [{"name": "contrast_vanishing", "epoch": 2, "message": "keyword | below 0.01 for 95 %",
                   "advice": "raise <t>"}] if name == "flat" else []
        write_json(paths.metrics, {
            "best_epoch": 2, "epochs": 3, "stopped_early": False, "alarms": alarms, "keywords": {},
            "validation": {"loss": 3.86321, "reconstruction": 54.123, "kl": 5.871, "active_units": 187.0,
                           "reconstruction_prior": 55.5, "reconstruction_zero": 60.25, "kl_train": 2.5,
                           "under_floor": 0.25, "reconstruction_mean": 54.75, "swap_prior": 0.31,
                           "swap_outputs": 0.0125}})
        paths.history.write_text("epoch,step,train_instance_vanished,train_keyword_vanished,best\n"
                                 "1,5,0.1,,True\n2,10,0.925,,True\n3,15,0.99,,False\n")


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


def test_strata_stand_in_a_section_of_their_own(project):
    assert "how well training knows" not in made()
    path = COMPARISON / "metrics.json"
    found = json.loads(path.read_text())
    groups = {"hcl": {"runs": ["hcl/1", "hcl/2"], "seeds": [1, 2], "bleu_1": {"mean": 0.55, "sd": 0.01}},
              "flat": {"runs": ["flat"], "seeds": [13], "bleu_1": {"mean": 0.5, "sd": None}},
              "floor copy": {"runs": [], "seeds": [], "bleu_1": {"mean": 0.7, "sd": None}}}
    found["qqp/test"]["strata"] = {name: {"items": items, "groups": groups}
                                   for name, items in (("cluster3", 175), ("unseen", 30))}
    write_json(path, found)
    rows = [{"dataset": "qqp/test", "stratum": stratum, "metric": "bleu_1", "first": "flat", "second": "hcl",
             "items": 175, "first_value": 0.5, "second_value": 0.55, "difference": -0.05, "low": low, "high": -0.01,
             "p_value": 0.01} for stratum, low in (("cluster3", -0.09), ("unseen", -0.2))]
    rows[1]["high"] = 0.1
    write_table(COMPARISON / "by_stratum.parquet", SCHEMAS["by_stratum"], pd.DataFrame(over_seeds(rows)),
                Provenance("compare", "0"))
    text = section(made(), "by how well training knows the keyword")
    assert row(text, "cluster of 3", "**flat**")[1:4] == [
        "175", "**flat**", "0.5000 (**+0.0500**, +0.0100 to +0.0900)"]
    assert row(text, "unseen", "**flat**")[1:4] == ["30", "**flat**", "0.5000 (+0.0500, -0.1000 to +0.2000)"]
    assert row(text, "cluster of 3", "**hcl**")[3] == "0.5500" and row(text, "unseen", "*floor: copy*")[3] == "0.7000"


def test_what_was_run_is_said(project):
    text = section(made(), "what was run")
    assert row(text, "negatives", "**retrieved** (taken)")[2:] == ["78,442", "174.5 %"]
    assert row(text, "rule, labelled negatives", "undirected\\_one")[2:] == ["2,354", "5.2 %"]
    assert all(share in text for share in ("43.6 %", "14.3 %", "92.8 %", "44.8 % of the inputs of test"))
    assert row(text, "hcl") == ["hcl", "HCL", "nothing", "1, 2", "2/3 2/3"]
    assert row(text, "flat")[1:3] == ["HCL without the graph", "graph.iterations = 0"]
    assert row(text, "plain")[2] == "latent.enabled = False; starts from hcl"
    assert "(1 h 07 min; some ran side by side)" in text and "training 1 h 06 min" in text, text
    assert "decoding 40.0 s" in text


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
    assert "mini\\|LM" in text


def test_ordinary_metrics_stand_apart(project):
    text = section(made(), "ordinary metrics")
    heads = row(text, "row")
    cells = dict(zip(heads, row(text, "**hcl**"), strict=True))
    assert [cells[name] for name in ("sacreBLEU", "tokens", "input's keyword kept")] == ["15.66 ± 0.00", "10.2 ± 0.7",
                                                                                 "0.6000 ± 0.0030"]
    assert "ROUGE-1" not in heads and "BERTScore: F1 under other, layer 6, raw." in text and "BLEU-4, corpus" in heads
    assert dict(zip(heads, row(text, "*floor: copy*"), strict=True))["source BLEU-4"] == "1.0000"


def test_each_part_helps_hurts_or_cannot_be_told(project):
    text = section(made(), "what each part is worth")
    found = row(text, "flat", "HCL without the graph")
    # BLEU-2 was stored the other way round; less source BLEU is better; a length is neither.
    assert found[2:] == ["BLEU-1, source BLEU-4", "BLEU-2", "Greedy", "+0.0 %", "-2.1 %"]
    assert row(text, "plain", "BERT-GEN")[2:6] == [
        "–", "–", "BLEU-1", "+0.0 %"]
    assert row(text, "calm", "HCL without the instance contrast")[2:] == ["–", "–", "(not compared)", "+0.0 %", "–"]
    assert row(text, "flat", "BLEU-2", "0.030")[2:] == ["0.5000", "0.5100", "-0.0100", "-0.0200 to -0.0020", "0.030",
                                                        "0.010", "0.0300", "hurts"]
    assert row(text, "flat", "source BLEU-4", "< 0.001")[4:] == ["-0.0500", "-0.0800 to -0.0200", "< 0.001",
                                                                  "0.010", "0.0300", "helps"]
    assert row(text, "*floor: copy*") == ["*floor: copy*", "source BLEU-4", "BLEU-1", "–"]


def test_a_single_row_is_set_against_the_floors_alone(project):
    content = yaml.safe_load((project / "params.yaml").read_text())
    content["runs"]["hcl"] = {"hcl": {"model": "hcl"}}
    (project / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    write_comparison(others=())
    text = section(made(), "what each part is worth")
    assert row(text, "*floor: copy*")[1:] == ["source BLEU-4", "BLEU-1", "–"] and "<details>" not in text


def test_without_the_full_method_nothing_is_compared(project):
    content = yaml.safe_load((project / "params.yaml").read_text())
    content["runs"]["hcl"]["hcl"]["decode"] = {"keyword": "random"}
    (project / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    text = made()
    assert "No row is the full method" in section(text, "what each part is worth")
    assert "*paper: Ours*" not in text
    assert row(text, "hcl")[1:3] == ["HCL, keyword random", "decode.keyword = random"]


def test_monitors_and_alarms(project):
    text = section(made(), "monitors and alarms")
    assert row(text, "flat")[1:] == ["3.8632", "5.87", "2.50", "0.25", "187", "54.12", "55.50", "54.75", "60.25",
                                     "0.31", "0.0125", "92.5 %", "–"]
    assert row(text, "flat", "**contrast\\_vanishing**")[2:] == ["2", "keyword \\| below 0.01 for 95 %",
                                                                "raise &lt;t&gt;"]
    for name in MODELS:
        write_json(ModelPaths(name, 13).metrics, {"best_epoch": 1, "epochs": 1, "validation": {}})
    assert "No alarm was raised." in section(made(), "monitors and alarms")


MISSING = [
    (DatasetPaths("qqp").metrics("ingest"), "keycontrast run ingest@qqp"),
    (DatasetPaths("qqp").metrics("graph"), "keycontrast run graph@qqp"),
    (COMPARISON / "metrics.json", "keycontrast run compare"), (COMPARISON / "paired.parquet", "keycontrast run"),
    (RunPaths("flat", 13).metrics, "keycontrast run evaluate_hcl@flat"),
    (ModelPaths("flat", 13).metrics, "keycontrast run train_hcl@flat"),
    (ModelPaths("flat", 13).history, "keycontrast run train_hcl@flat"),
    (DatasetPaths("quora").metrics("paraphrase_items"), "keycontrast run paraphrase_items@quora"),
    (RunPaths("lbow", 13).metrics, "keycontrast run evaluate_pgkpr@lbow"),
    (ModelPaths("psi", 13).history, "keycontrast run train_pgkpr@psi"),
    (DatasetPaths("20ng").metrics("linear_floor"), "keycontrast run linear_floor@20ng"),
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


def test_each_step_of_clld_is_answered(classifying):
    text = section(made("20ng"), "what each step adds")
    assert "- **Does the contrast help?** Of 2 comparisons it helps in 1, cannot be told in 1." in text
    assert "- **Does the label distance help beyond it?** Of 2 comparisons it hurts in 1, cannot be told in 1." in text
    assert "- **Does another contrast help?**" not in text
    assert "- **Against the linear floor** better: ct (2 seeds)." in text
    assert row(text, "cl (2 seeds) − ct (2 seeds)")[1:] == [
        "TextCNN", "CT+CL − CT", "helps", "75.00", "+5.00", "+2.00 to +8.00", "0.002", "0.010", "3.00",
        "0.022, 0.250", "+5.00"]
    assert row(text, "clald − cl (2 seeds)")[2:6] == ["CT+CLALD − CT+CL", "hurts", "66.00", "-4.00"]
    assert row(text, "clsled − ct (2 seeds)")[10:] == ["–", "+6.00"]


def test_what_is_confused_and_what_moved_is_said(classifying):
    text = section(made("20ng"), "what is confused")
    assert re.match(r"alt\.atheism / talk\.religion\.misc \(\d+ \+ \d+\);", row(text, "clald")[1])
    assert row(text, "clald")[2] == "alt.atheism / talk.religion.misc (1.00 to 3.10)"
    assert row(text, "mini")[2] == "–" and "<script>" not in text and "&lt;script&gt;" in text


def test_all_tracks_stand_in_one_block(project):
    write_rewriting()
    write_classifiers()
    headings = [line.removeprefix("### qqp") for line in made().splitlines() if line.startswith("###")]
    assert headings[-6:] == [
        ", 20ng/test: as CLLD reports it", ", 20ng/test: what each step adds", ", 20ng/test: what is confused",
        ": monitors and alarms", ": validation losses of PGKPR's models", ": validation of CLLD's models"]


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
    document.write_text(between.replace("3,000 train", "stale"), encoding="utf-8")
    results_document.main(["one"])
    text = document.read_text(encoding="utf-8")
    assert text.count("3,000 train") == 1 and text.count("stale train") == 0 and text.count("stale") == 1
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


def test_the_keyword_swap_and_the_latent_space_are_told_in_numbers(project):
    content = yaml.safe_load((project / "params.yaml").read_text())
    (project / "params.yaml").write_text(yaml.safe_dump(content | {"probes": {"hcl": {"seen": {"model": "hcl"}}}}))
    assert "Table 4 in numbers" not in made()  # which is not made yet
    write_json(ProbePaths("seen").metrics, {
        "keyword_swap": {"items": 40, "random": {
            "items": 38, "share_changed": 0.25, "edit_distance": 0.125, "share_shows_keyword": 0.05,
            "share_shows_unasked": None, "intervals": {"share_changed": [0.125, 0.375], "edit_distance": [0.1, 0.2],
                                                       "share_shows_keyword": None}}, "given": {"items": 0}},
        "latent": {"items": 40, "distance_from_input": {"positive": 1.25}, "share_positive_nearer": 0.75,
                   "share_own_target": 0.5, "share_own_target_by_chance": 0.025, "share_same_kind": None,
                   "intervals": {"positive": [1.0, 1.5], "share_positive_nearer": [0.6, 0.9]}}})
    text = made()
    assert row(text, "another node at random") == ["another node at random", "38", "25.0 % (12.5 % to 37.5 %)",
                                                   "0.12 (0.10 to 0.20)", "5.0 %", "–"]
    assert row(text, "to mu_q of the target")[1] == "1.25 (1.00 to 1.50)"
    assert row(text, "target nearer than negative")[1] == "75.0 % (60.0 % to 90.0 %)"
    assert row(text, "inputs whose nearest target is their own")[1] == "50.0 % (by chance 2.5 %)"
    assert "a given one" not in text and "**hcl on qqp, the same inputs under other keywords**" in text
