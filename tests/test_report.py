"""The report: what stands on the page, that it is one safe file, and that it is the same file each time."""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_artifacts import (
    ATTACK,
    CLOSING,
    ITEMS,
    SCRIPTS,
    SHA256,
    TEXTS,
    metrics_of,
    over_seeds,
    provenance,
    write_params,
    write_project,
    write_run,
)
from report_outline import Outline, assert_sound, part, row_of, rows

import stages.results.page.context
from pipeline.schemas import SCHEMAS
from stages.common.paths import (
    COMPARISON,
    MODELS,
    PREDICTED,
    REPORT_PAGE,
    RUNS,
    DatasetPaths,
    ModelPaths,
    RunPaths,
    corpus_page,
)
from stages.common.tables import write_table
from stages.results.corpus_page import main as corpus_main
from stages.results.gather import blocks_of
from stages.results.model import BETTER, Model, Run
from stages.results.page.answers import answer
from stages.results.page.corpus import explorer_data, read_graph, size
from stages.results.page.curves import curve_groups
from stages.results.page.examples import segments, shown_examples
from stages.results.page.tables import result_tables
from stages.results.report import main
from stages.results.tracks.hcl import HCL


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder that a test may change; the report is not made yet."""
    monkeypatch.chdir(tmp_path)
    write_project()
    return tmp_path


@pytest.fixture
def quick(project, monkeypatch):
    """The same without curves, because drawing takes seconds."""
    monkeypatch.setattr(stages.results.page.context, "curve_groups", lambda *_: [])
    return project


def made():
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    assert_sound(text)
    return text


@pytest.fixture(scope="module")
def built(made_report):
    """A project folder with its report, made once and only read."""
    return made_report("hcl")


@pytest.fixture
def page(built):
    return (built / REPORT_PAGE).read_text(encoding="utf-8")


def test_policy_allows_our_scripts_by_their_hashes_and_nothing_from_outside(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1].replace("&#39;", "'")
    script, = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
                      f"base-uri 'none'; form-action 'none'")


def test_texts_cannot_become_markup(page):
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert ATTACK not in page and CLOSING not in page and "<img" not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in markup and "&lt;img src=x onerror=" in markup
    assert "Who wrote <mark>&lt;script&gt;alert(" in markup


def test_embedded_data_are_escaped_and_come_back_as_they_were(page):
    blocks = dict(re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', page, re.DOTALL))
    assert set(blocks) == {"graph-tiny"} and not set(blocks["graph-tiny"]) & set("<>&\u2028\u2029")
    texts = [text for row in json.loads(blocks["graph-tiny"])["texts"] for text in row[1:]]
    assert TEXTS[6] in texts and TEXTS[7] in texts and CLOSING in TEXTS[6] and SCRIPTS in TEXTS[7]


@pytest.mark.whole
def test_same_artifacts_give_the_same_bytes(built, project):
    """Made in another folder, by another process under another hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(stages.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "stages.run.processes", "stages.results.report"], check=True,
                   env=environment, cwd=project)
    one, other = ({file.relative_to(folder): file.read_bytes() for file in (folder / "artifacts/report").rglob("*.*")}
                  for folder in (built, project))
    assert one == other
    assert {file.suffix for file in one} == {".html", ".svg"}


def test_header_and_what_ran(page):
    for text in ("tiny-recipe", "seed 13", "graph.iterations = 0", "num_beams = 1", SHA256, "tiny-encoder",
                 "data/tiny.tsv"):
        assert text in page, text
    rows = [[text for _, text in row] for row in Outline(page).rows]
    assert ["plain", "tiny", "99", "graph.iterations = 0", "3", "2", "5.750"] in rows
    assert ["full", "tiny", "13", "none", "3", "2", "5.750"] in rows


def test_baselines_come_first_and_the_best_run_is_marked(page):
    names = [row[0][1] for row in Outline(page).rows if row and row[0][1] in ("copy", "nearest", "full", "plain")]
    assert names[:4] == ["copy", "nearest", "full", "plain"]
    full, plain, copy = (row_of(page, name, "Extrema ↑") for name in ("full", "plain", "copy"))
    assert full["BLEU-1 ↑"] == ("best", "0.5000.450 to 0.550") and plain["BLEU-1 ↑"] == ("", "0.4000.350 to 0.450")
    assert copy["BLEU-1 ↑"] == ("", "0.9000.800 to 1.000")        # a baseline is never the best run
    assert full["Extrema ↑"][0] == plain["Extrema ↑"][0] == ""  # nothing to mark between equals
    assert row_of(page, "full", "tokens")["tokens"] == ("", "9.5")
    # Less of the source is better, but the comparison calls this difference chance.
    assert row_of(page, "plain", "source BLEU-4 ↓")["source BLEU-4 ↓"] == ("", "0.100")
    assert "Intervals are 90\u00a0%." in page
    assert f"{ITEMS} items" in page and "leave out 1 item" in page and "identical texts score above 1" in page


def test_examples_stand_side_by_side_with_their_keywords(page):
    examples = part(page, "hcl-examples")
    assert "How do I lose <mark>belly fat</mark>?" in examples
    assert examples.count("lose <mark>Belly  Fat</mark> now") == 2 * 4      # both runs, a third of twelve items
    assert "not in the training graph" in examples and "(empty)" in examples


def test_training_shows_all_models_of_a_quantity_in_one_picture(page):
    training = part(page, "hcl-training")
    assert "loss: full validation from 6.250 to 5.900 over 3 epochs; plain validation from 6.250" in training
    # Both lines of a model carry its mark and its values, and so does the ring at the kept epoch.
    assert training.count('data-part="series-1" data-hint="plain: validation from 1.500 to 2.750') == 3
    assert training.count('data-part="legend"') == training.count("<figure>") == 4


def test_missing_metrics_of_a_listed_run_are_an_error(project, capsys):
    RunPaths("plain", 99).metrics.unlink()
    assert main([]) == 1
    assert re.search("artifacts/runs/plain/99/metrics.json: no such artifact.*keycontrast run", capsys.readouterr().err)
    assert not REPORT_PAGE.exists()


def test_files_of_another_kind_are_named(project, capsys):
    RunPaths("plain", 99).metrics.write_text("{}")
    assert main([]) == 1 and "not the metrics of a run" in capsys.readouterr().err
    RunPaths("plain", 99).metrics.write_text("{")
    assert main([]) == 1 and "not valid JSON" in capsys.readouterr().err
    write_run("plain", 0.4, 0.1, "")
    ModelPaths("full", 13).history.write_text("step,loss\n1,2\n")
    assert main([]) == 1 and "history.csv: column 'epoch' is missing" in capsys.readouterr().err


def test_segments_join_to_the_text_and_mark_whole_words():
    text = "Fat cats: belly  FAT, not fatty."
    parts = segments(text, ["belly fat", "fat", None, "<nokw>"])
    assert "".join(piece for piece, _ in parts) == text
    assert [piece for piece, marked in parts if marked] == ["Fat", "belly  FAT"]
    assert segments("减肥方法", ["方法"]) == [("减肥", False), ("方法", True)]
    assert segments("c++ (c) is hard", ["c++"])[0] == ("c++", True)
    assert segments("", ["a"]) == [] and segments("a b", []) == [("a b", False)]


def run_material(name, bleu_1=0.5, settings=None, **decode):
    metrics = {"run": metrics_of(bleu_1, 0.1), "baselines": {"copy": metrics_of(0.9, 1.0)}, "counts": {"examples": 3},
               "settings": {"split": "test"}}
    return Run(name, "hcl", name, "d", 1, HCL.row(settings or {}, decode), metrics, decode=decode)


def blocks_in(*runs, comparison=None, paired=()):
    return blocks_of(HCL, runs, {"d": "qqp"}, comparison or {}, pd.DataFrame(over_seeds(paired)), pd.DataFrame())


def tables_of(*runs):
    return result_tables(blocks_in(*runs)[0])


def group(*runs, mean=0.5, sd=None):
    return {"runs": list(runs), "seeds": list(range(len(runs))),
            "bleu_1": {"mean": mean, "sd": sd, "low": mean - 0.1, "high": mean + 0.1}}


def pair(first, second, difference, reach, metric="bleu_1"):
    return {"dataset": "d/test", "metric": metric, "first": first, "second": second, "items": 3,
            "first_value": 0.5 + difference, "second_value": 0.5, "difference": difference, "low": difference - reach,
            "high": difference + reach, "p_value": 0.01}


def test_strata_have_tables_of_their_own_behind_the_others():
    groups = {"hcl": group("hcl", mean=0.25), "plain": group("plain"), "baseline copy": group()}
    comparison = {"d/test": {"groups": groups, "strata": {"known": {"items": 2, "groups": groups}}}}
    strata = pd.DataFrame(over_seeds([{"stratum": "known", **pair("hcl", "plain", 0.1, 0.05)}]))
    runs = [run_material(name) for name in ("hcl", "plain")]
    block, = blocks_of(HCL, runs, {"d": "qqp"}, comparison, pd.DataFrame(), strata)
    *_, table = result_tables(block)
    assert table.layout.title == "Stratum: known"
    assert table.layout.note.startswith("Only where a training item has the") and ": 2 items" in table.layout.note
    assert [(row.name, [(cell.text, cell.more) for cell in row.cells]) for row in table.rows] == [
        ("copy", [("0.500", "0.400 to 0.600")]), ("hcl", [("0.250", "0.150 to 0.350")]),
        ("plain", [("0.500", "0.400 to 0.600")])]
    assert block.strata["known"].difference("plain", "hcl", "bleu_1").difference == -0.1


def test_runs_that_differ_in_their_seed_are_compared_as_one():
    comparison = {"d/test": {"groups": {"hcl (2 seeds)": group("hcl-s1", "hcl-s2", sd=0.02), "plain": group("plain"),
                                        "hcl-s1": group("hcl-s1"), "hcl-s2": group("hcl-s2"),
                                        "baseline copy": group()}}}
    paired = [pair("hcl (2 seeds)", "plain", 0.1, 0.05), pair("hcl-s1", "plain", 0.3, 0.05),
              pair("hcl (2 seeds)", "baseline copy", -0.4, 0.5),
              pair("hcl (2 seeds)", "plain", 0.1, 0.05, "source_bleu")]
    runs = run_material("hcl-s1", 0.4), run_material("hcl-s2", 0.6), run_material("plain")
    block, = blocks_in(*runs, comparison=comparison, paired=paired)
    seeds = next(row for row in result_tables(block)[0].rows if row.kind == "seeds")
    assert (seeds.name, seeds.kind, seeds.cells[0].text, seeds.cells[0].more) == (
        "hcl (2 seeds)", "seeds", "0.500", "± 0.020")
    # Better than every other row: its seeds together, and none of them alone.
    assert [row.name for row in result_tables(block)[0].rows if row.cells[0].best] == ["hcl (2 seeds)"]
    # A metric that the comparison does not have is taken from the runs.
    assert (seeds.cells[1].text, seeds.cells[1].more) == ("0.250", "± 0.071")
    found = [block.difference(other, "hcl (2 seeds)", "bleu_1") for other in ("plain", "baseline copy")]
    assert [(one.name, one.verdict_word(BETTER), one.difference) for one in found] == [
        ("plain", "worse", -0.1), ("baseline copy", "no difference seen", 0.4)]
    assert block.difference("plain", "hcl (2 seeds)", "source_bleu").verdict == 1     # less of a source is better


def test_published_values_are_below_ours_with_notes_on_misprints():
    runs = [run_material("one", 0.6123), run_material("cut", settings={"graph": {"iterations": 0}}),
            run_material("swapped", keyword="random"), run_material("new", settings={"architecture": "new"})]
    table = tables_of(*runs)[0]
    assert [(row.name, row.published) for row in table.rows if row.kind == "run"] == [
        ("one", False), ("paper, Table 1a: Ours", True), ("paper, Table 2: Ours", True),
        ("cut", False), ("paper, Table 2: w/o graph", True), ("swapped", False), ("new", False)]
    assert [row.cells[0].text for row in table.rows[1:3]] == ["0.612", "0.6430"]
    # Cells that do not add up are printed as published, with a note.
    block, = blocks_of(HCL, [run_material("gpt", settings={"architecture": "dialogpt"})], {"d": "rocstories"}, {},
                       pd.DataFrame(), pd.DataFrame())
    table = result_tables(block)[0]
    cell = next(row for row in table.rows if row.published).cells[6]
    assert cell.text == "6103" and "Printed without" in table.notes[cell.note - 1]
    # Several seeds are followed by the published row once.
    comparison = {"d/test": {"groups": {"hcl (2 seeds)": group("one", "two", mean=0.4, sd=0.01)}}}
    block, = blocks_in(run_material("one"), run_material("two"), comparison=comparison)
    assert [row.name for row in result_tables(block)[0].rows[1:]] == [
        "one", "two", "hcl (2 seeds)", "paper, Table 1a: Ours", "paper, Table 2: Ours"]


def write_large_graph(count, neighbours, letters):
    """A graph of ``count`` phrases, each of which shares texts with the next ``neighbours``."""
    paths = DatasetPaths("large")
    source = np.repeat(np.arange(count), neighbours)
    target = (source + np.tile(np.arange(1, neighbours + 1), count)) % count
    low, high = np.minimum(source, target), np.maximum(source, target)
    for kind, columns in (
            ("phrase_nodes", {"node_id": range(count), "keyword": [f"phrase {number:06}" for number in range(count)],
                              "texts": 1, "degree": 2 * neighbours, "centrality": 0.0, "component": 0, "community": 0}),
            ("phrase_edges", {"source": low, "target": high, "weight": low + high}),
            ("phrase_texts", {"text_id": range(count), "node_id": range(count)}),
            ("texts", {"text_id": range(count), "language": "en",
                       "text": [f"{number} {'x' * letters}" for number in range(count)]})):
        write_table(paths.table(kind), SCHEMAS[kind], pd.DataFrame(columns), provenance("phrases@large"))
    return paths


def test_large_graphs_are_cut_to_their_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = read_graph(write_large_graph(3000, 30, 500), limit=1000)
    assert len(graph.nodes) == 1000 and graph.total == 3000
    whole, cut = explorer_data(graph, 10**8), explorer_data(graph, 200_000)
    assert len(whole["nodes"]) == 1000
    assert size(cut) <= 200_000 and 50 < len(cut["nodes"]) < 1000
    # Estimated from above, but not by much.
    assert size(cut) > 150_000
    for data in (whole, cut):
        node = data["nodes"][0]
        neighbours, counts = node[2][::2], node[2][1::2]
        assert len(neighbours) == 24 and counts == sorted(counts, reverse=True) and node[1] == 60
        assert max(place for one in data["nodes"] for place in one[2][::2]) < len(data["names"])
        assert data["names"][0] == "phrase 000000" and data["texts"][node[3][0]][0] == 0
        assert all(len(text) <= 400 for _, text in data["texts"])


def test_explorer_names_neighbours_and_texts(built):
    with contextlib.chdir(built):
        graph = read_graph(DatasetPaths("tiny"))
    data = explorer_data(graph, 10**6)
    names = data["names"]
    assert (names[0], data["total"]) == ("belly fat", 6)        # in most texts
    fat, author = data["nodes"][0], data["nodes"][names.index("author")]
    assert [(names[place], count) for place, count in zip(fat[2][::2], fat[2][1::2], strict=True)] == [
        ("sleep", 3), (ATTACK, 2), ("author", 1)]
    assert [data["texts"][place] for place in fat[3]] == [[number, TEXTS[number]] for number in range(3)]
    assert author[:2] == [1, 2] and data["texts"][author[3][0]] == [4, TEXTS[4]]


def test_rows_stand_side_by_side_by_their_first_seed_on_items_evenly_spread():
    def made(name, keyword, items):
        return replace(run_material(name), predictions=pd.DataFrame([
            {"example_id": number, "keyword": keyword, "keyword_known": True, "source": f"s{number}",
             "references": ["r"], "prediction": f"{name} {number}"} for number in items]))

    comparison = {"d/test": {"groups": {"hcl (2 seeds)": group("hcl/1", "hcl/2")}}}
    runs = [made("hcl/1", None, range(100)), made("hcl/2", None, range(100)), made("cut", "k", range(10, 90))]
    block, = blocks_in(*runs, comparison=comparison)
    found = shown_examples(block, runs, 4)
    assert [one.example_id for one in found] == [10, 30, 50, 70]
    assert (found[0].keywords, found[0].source, found[0].outputs) == (["k"], "s10", {"hcl/1": "hcl/1 10",
                                                                                     "cut": "cut 10"})
    assert shown_examples(block, runs, 0) == []


def test_page_says_what_it_left_out(project, monkeypatch):
    monkeypatch.setattr(stages.results.page.context, "GRAPH_BYTES", 400)
    assert main([]) == 0
    assert re.search(r"[1-5] of 6 phrases can be opened here", REPORT_PAGE.read_text(encoding="utf-8"))


def test_curves_are_grouped_by_the_question_they_answer():
    history = pd.DataFrame({"epoch": [1, 2], "validation_loss": [2.0, 1.0], "validation_active_units": [3, 4],
                            "train_keyword_vanished": [0.0, 1.0], "rate_rest": [0.1, 0.2]})
    groups = curve_groups([Model("a", "hcl", "d", 1, history=history), Model("b", "hcl", "d", 1)], HCL.questions)
    # Rates answer no question: they stay in the history.
    assert [[plot.name for plot in plots] for _, plots in groups] == [
        ["history--loss"], ["history--active_units"], ["history--keyword_vanished"]]
    assert groups[0][1][0].notes == {"series-0": "a: validation from 2.000 to 1.000 over 2 epochs"}
    assert curve_groups([Model("b", "hcl", "d", 1)], HCL.questions) == []


def answered(verdicts, seeds=3):
    """A block of ``full``, an ablation, a baseline and a baseline; each is so far from ``full``."""
    settings = {"full": {}, "cut": {"graph": {"iterations": 0}}, "other": {"architecture": "seq2seq"}}
    runs = [Run(name, "hcl", name, "d", 1, HCL.row(own, {}),
                {"run": metrics_of(0.5, 0.1), "baselines": {"copy": metrics_of(0.9, 1.0)}, "counts": {"examples": 64},
                 "settings": {"split": "test"}}) for name, own in settings.items()]
    groups = {name: {"runs": [name] if name in settings else [], "bleu_1": {"mean": 0.5}}
              for name in (*settings, "baseline copy")}
    paired = pd.DataFrame(over_seeds([{"dataset": "d/test", "metric": "bleu_1", "first": name, "second": "full",
                            "items": 64, "first_value": 0.5 + far, "second_value": 0.5, "difference": far,
                            "low": far - 0.05, "high": far + 0.05, "p_value": 0.01} for name, far in verdicts.items()],
                                     seeds))
    found, = blocks_of(HCL, runs, {}, {"d/test": {"groups": groups}}, paired, pd.DataFrame())
    return answer(found)


@pytest.mark.parametrize(("cut", "other", "copy", "said"), [
    (-0.1, 0.1, -0.1, "the graph helps; it is better than baseline copy; it is worse than other"),
    (0.1, -0.1, 0.1, "the graph hurts; it is better than other; it is worse than baseline copy"),
    (0.01, -0.1, 0.0, "the graph has no clear effect; it is better than other; it is not clearly different from "
                      "baseline copy"),
])
def test_each_table_is_answered_in_a_sentence(cut, other, copy, said):
    assert answered({"cut": cut, "other": other, "baseline copy": copy}).sentence == (
        f"full reaches 0.500 in BLEU-1, order alone, on 64 items; {said}.")


def test_each_row_says_what_its_difference_means():
    found = answered({"cut": -0.1, "other": 0.01, "baseline copy": 0.2})
    assert [(system.name, row.words, row.interval, row.verdict) for system, row in found.differences] == [
        ("copy", "better", "+0.150 to +0.250", "better-text"),
        ("cut", "the graph: helps", "\u22120.150 to \u22120.050", "worse-text"),
        ("other", "no difference seen", "\u22120.040 to +0.060", "")]
    assert answered({}).differences == [] and answered({}).sentence.endswith("on 64 items.")


def test_two_seeds_give_an_interval_over_seeds_and_no_verdict():
    two = pd.DataFrame(over_seeds([pair("plain", "hcl", 0.1, 0.05)], seeds=2)).assign(low_seeds=-0.2, high_seeds=0.4)
    groups = {"d/test": {"groups": {name: group(name) for name in ("hcl", "plain")}}}
    block, = blocks_of(HCL, [run_material("hcl"), run_material("plain")], {}, groups, two, pd.DataFrame())
    found = block.difference("hcl", "plain", "bleu_1")
    assert found.ends == (-0.4, 0.2) and not found.judged


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_row_of_one_or_two_seeds_gets_no_verdict(seeds):
    found = answered({"cut": -0.1, "other": 0.1, "baseline copy": 0.2}, seeds)
    assert {(row.words, row.verdict) for _, row in found.differences} == {("", "")}
    # Baselines are compared as this training ended.
    assert found.sentence.endswith("on 64 items; it is worse than baseline copy.") and found.few_seeds


def test_top_keywords_stand_by_method_the_most_frequent_first(quick):
    corpus = part(made(), "corpus")
    table = rows(corpus[corpus.index('<table class="tops">'):])
    assert table[0] == ["TextRank", "attribution", "PSI", "YAKE", "IDF"]
    assert table[1] == ["belly fat (3)", f"{ATTACK} (1)", "lose (1)", "belly (6)", "first (6)"]
    assert table[4][:2] == ["reads (1)", ""]
    assert corpus.index("6 phrases") < corpus.index('class="explorer"') < corpus.index('class="tops"')


def test_keywords_alone_make_a_page_without_empty_sections(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_params(models={"hcl": {}}, runs={"hcl": {}}, probes={"hcl": {}})
    write_table(DatasetPaths("tiny").table("keywords"), SCHEMAS["keywords"], pd.DataFrame({
        "text_id": [0, 1], "keyword": ["god", ATTACK], "method": "textrank", "score": 0.5}), provenance("keywords@x"))
    text = made()
    assert re.findall(r'<section aria-labelledby="([^"]+)"', text) == ["corpus", "ran"]
    assert "2 texts</p>" in text and "god (1)" in text and 'class="explorer"' not in text and ATTACK not in text


def test_the_page_of_a_corpus_shows_keywords_and_graph(project):
    assert corpus_main(["tiny"]) == 0
    path = corpus_page("tiny")
    page = path.read_text(encoding="utf-8")
    for words in ("made before anything was trained", 'href="../report/index.html"', "graph-tiny", "belly fat"):
        assert words in page, words
    for words in ("trained model", "contrast_vanished_keyword", 'id="hcl"', "Paired semantic importance"):
        assert words not in page, words
    assert not list(path.parent.glob(".*"))


def test_later_artifacts_change_no_byte_of_the_page_of_a_corpus(project):
    assert corpus_main(["tiny"]) == 0
    before = corpus_page("tiny").read_bytes()
    for folder in (DatasetPaths("tiny").table("keyword_comparison"), MODELS, RUNS, PREDICTED, COMPARISON):
        shutil.rmtree(folder)
    assert corpus_main(["tiny"]) == 0 and corpus_page("tiny").read_bytes() == before


def test_a_graph_that_cannot_be_read_is_named(project, capsys):
    (DatasetPaths("tiny").table("phrase_edges") / "part-00000.parquet").write_bytes(b"cut off")
    assert corpus_main(["tiny"]) == 1 and "phrase_edges/part-00000.parquet" in capsys.readouterr().err
    assert not corpus_page("tiny").exists()
