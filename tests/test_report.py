"""The report: what stands on the page, that it is one safe file, and that it is the same file each time."""

import contextlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml

import stages.reporting.page
from stages.artifacts.paths import REPORT_PAGE, DatasetPaths, ModelPaths, RunPaths
from stages.artifacts.tables import Provenance, write_json, write_table
from stages.comparison.pos_frequency import PosCounts, frequency_table
from stages.report import main
from stages.reporting.examples import Segment, chosen_examples, segments
from stages.reporting.figures import PALETTE, inline_svg
from stages.reporting.gather import RunMaterial
from stages.reporting.labels import rows_of, settings_text
from stages.reporting.plots import best_epoch, history_quantities, neighbourhood, top_keywords
from stages.reporting.results import result_blocks

ATTACK = "<script>alert('x')</script>"
TEXTS = ["How do I lose belly fat?", "What helps against belly fat?", "Is belly fat useful?",
         f"Who wrote {ATTACK}?", "Who is the author?", "Who reads & writes?"]
KEYWORDS = ["belly fat", "belly fat", "belly fat", ATTACK, "author", "reads"]
SHA256 = "ab" * 32


def provenance(stage, **more):
    return Provenance(stage, "0" * 16, **more)


def write_dataset():
    paths = DatasetPaths("tiny")
    write_table(paths.table("examples"), "examples", pd.DataFrame({
        "example_id": [0, 1], "split": "test", "source_id": [0, 3], "target_id": [1, 4], "negative_id": [2, 5],
        "reference_ids": [[1], [4]], "group": [0, 1], "negative_origin": "given"}), provenance("ingest@tiny"))
    write_table(paths.table("texts"), "texts", pd.DataFrame({"text_id": range(6), "text": TEXTS, "language": "en"}),
                provenance("ingest@tiny"))
    write_table(paths.table("keywords"), "keywords", pd.DataFrame({
        "text_id": range(6), "keyword": KEYWORDS, "method": ["textrank"] * 5 + ["idf"], "score": 0.5}),
        provenance("keywords@tiny", fallbacks=["1 text has no ranked keyword: the word of highest IDF was taken"]))
    write_table(paths.table("nodes"), "nodes", pd.DataFrame({
        "node_id": range(4), "keyword": sorted(set(KEYWORDS)), "cluster_size": 1, "in_positive": [0, 0, 2, 0],
        "in_negative": [1, 0, 1, 0], "out_positive": 0, "out_negative": 0, "centrality": 0.25, "component": 0,
        "community": 0}),
        provenance("graph@tiny"))
    write_table(paths.table("edges"), "edges", pd.DataFrame({
        "target": [2, 2, 2, 0], "source": [0, 1, 3, 1], "sign": [1, 1, -1, -1], "count": [3, 1, 2, 1]}),
        provenance("graph@tiny", models={"encoder": {"name": "tiny-encoder", "version": "1", "sha256": SHA256}}))
    write_table(paths.table("side_by_side"), "side_by_side", pd.DataFrame({
        "text_id": range(6), "textrank": [[keyword] for keyword in KEYWORDS], "idf": [["first", "second"]] * 6,
        "attribution": [["fat"], None, None, [ATTACK], [], None], "psi": [["lose"], None, None, ["wrote"], ["x"], None],
        "yake": [["belly"]] * 6}), provenance("side_by_side@tiny"))
    agreement = {"textrank~idf": {"texts": 6, "same_best": 0.25, "shared_word": 0.5, "jaccard": 0.125}}
    write_json(paths.metrics("side_by_side"), {"texts": 6, "agreement": agreement,
                                               "pos_frequency": {"split": "test", "sources": 2}})
    counts = PosCounts()
    counts.add(["NN", "VB", "DT"], ["NOUN", "VERB", "DET"], [1, 1, 0], penn=True)
    paths.pos_frequency.mkdir()
    frequency_table({"psi": counts}).to_csv(paths.pos_frequency / "pos_frequency.csv", index=False)
    write_json(paths.metrics("ingest"), {
        "rows": {"read": 1234, "rejected": 7}, "examples": {"train": 10, "validation": 1, "test": 2},
        "triples_by_negative_source": {"labelled": 345, "retrieved": 678}})
    write_json(paths.metrics("graph"), {"nodes": 4, "edges_positive": 2, "edges_negative": 2,
                                        "share_input_equals_output": 0.4, "share_with_negative_neighbour": 0.515})


def write_model(name):
    ModelPaths(name).weights.mkdir(parents=True)
    (ModelPaths(name).weights / "config.json").write_text(json.dumps({
        "model_type": "keycontrast-hcl", "graph": {"iterations": 2}, "contrasts": {"keyword": {"temperature": 0.1}}}))
    ModelPaths(name).history.write_text(
        "epoch,step,train_reconstruction,train_kl,validation_loss,validation_kl,best\n"
        "1,5,4.5,1.0,6.25,1.5,True\n2,10,4.0,2.0,5.75,2.5,True\n3,15,3.5,3.0,5.9,2.75,False\n")


def metrics_of(bleu_1, source_bleu, **more):
    values = {f"{prefix}_{order}": bleu_1 / order for prefix in ("bleu", "cumulative_m7", "corpus_bleu")
              for order in range(1, 5)}
    return {**values, "sacrebleu": 12.345, "extrema": 0.5, "average": 0.6, "greedy": 0.7, "distinct_1": 0.4,
            "distinct_2": 0.8, "source_bleu": source_bleu, "ibleu": 0.1, "mean_length": 9.5, **more}


def write_run(name, bleu_1, source_bleu, output):
    write_json(RunPaths(name).metrics, {
        "run": metrics_of(bleu_1, source_bleu), "counts": {"examples": 2, "skipped_extrema_average": 1},
        "floors": {"copy": metrics_of(0.9, 1.0), "nearest": metrics_of(0.2, 0.0)},
        "settings": {"split": "test", "emb": {"name": "tiny-encoder", "version": "1", "sha256": SHA256},
                     "sacrebleu": "tok:13a", "tokens": "lower-cased BERT basic tokens"}})
    write_table(RunPaths(name).predictions, "predictions", pd.DataFrame({
        "example_id": [0, 1], "sample": 0, "source": [TEXTS[0], TEXTS[3]], "keyword": [KEYWORDS[0], KEYWORDS[3]],
        "keyword_known": [True, False], "prediction": ["lose Belly  Fat now", output],
        "references": [[TEXTS[1]], [TEXTS[4]]]}), provenance(f"generate_hcl@{name}"))


def write_params(**changes):
    models = {"full": {"dataset": "tiny"}, "plain": {"dataset": "tiny", "seed": 99,
                                                     "overrides": {"graph": {"iterations": 0}}}}
    runs = {"full": {"model": "full"}, "plain": {"model": "plain", "decode": {"num_beams": 1}}}
    content = {"recipe": "tiny-recipe", "seed": 13, "datasets": {"tiny": {"source": "data/tiny.tsv"}},
               "models": {"hcl": models}, "runs": {"hcl": runs}, "report": {"examples": 5}}
    Path("params.yaml").write_text(yaml.safe_dump({**content, **changes}))


def write_project():
    write_params()
    write_dataset()
    for name in ("full", "plain"):
        write_model(name)
    write_run("full", 0.5, 0.3, f"wrote {ATTACK} the author")
    write_run("plain", 0.4, 0.1, "")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder that a test may change; the report is not made yet."""
    monkeypatch.chdir(tmp_path)
    write_project()
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A project folder with its report, made once and only read."""
    folder = tmp_path_factory.mktemp("built")
    with contextlib.chdir(folder):
        write_project()
        assert main([]) == 0
    return folder


@pytest.fixture
def page(built):
    return (built / REPORT_PAGE).read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Checks that tags close in order, and collects ids, links, and the text of each table row."""

    VOID = {"meta", "link", "br", "img", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.rows, self.tags = [], [], [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        for name in ("href", "src", "xlink:href", "aria-labelledby"):
            if name in values:
                self.links.append((name, values[name]))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append([values.get("class") or "", ""])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open) and self.rows and self.rows[-1]:
            self.rows[-1][-1][1] += data


def row_of(page, name, first_column):
    """Cells by heading of row ``name`` in the table that has the column ``first_column``."""
    headings = None
    for row in Outline(page).rows:
        texts = [text.strip() for _, text in row]
        if "system" in texts[:1]:
            headings = texts
        elif headings and first_column in headings and texts[:1] == [name]:
            return {heading: tuple(cell) for heading, cell in zip(headings, row, strict=True)}
    raise AssertionError(f"no row {name} with a column {first_column}")


# -- the page -------------------------------------------------------------------------------------------------

def test_page_is_well_formed_and_its_links_lead_somewhere(page):
    outline = Outline(page)
    assert len(outline.ids) == len(set(outline.ids))
    for name, target in outline.links:
        if name == "aria-labelledby":
            assert target in outline.ids
        elif target.startswith("#"):
            assert target[1:] in outline.ids
        else:
            assert target == "data:,"   # the empty icon: keeps browsers from asking for one


def test_page_stands_alone(page):
    without_namespaces = re.sub(r'xmlns(:xlink)?="[^"]+"', "", page)
    assert "http" not in without_namespaces.replace("http-equiv", "")
    assert "@import" not in page and "<script" not in page and "<link rel=\"stylesheet" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert Outline(page).tags >= {"style", "svg", "table", "mark", "caption"}


def test_texts_cannot_become_markup(page, built):
    assert ATTACK not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    assert "Who reads &amp; writes?" not in page and "Who <mark>reads</mark> &amp; writes?" in page
    # The attack is a keyword too, so it stands in two drawings, written by matplotlib.
    drawings = sorted((built / "artifacts/report/plots").glob("*.svg"))
    assert any("&lt;script&gt;" in file.read_text() for file in drawings)
    for file in drawings:
        assert "<script" not in file.read_text()
        ElementTree.parse(file)


def test_same_artifacts_give_the_same_bytes(built, project):
    """Made in another folder, by another process under another hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(stages.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "stages.report"], check=True, env=environment, cwd=project)
    one, other = ({file.relative_to(folder): file.read_bytes() for file in (folder / "artifacts/report").rglob("*.*")}
                  for folder in (built, project))
    assert one == other
    assert {file.suffix for file in one} == {".html", ".svg", ".png"}


def test_page_holds_no_date_and_no_place(page, built):
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", page)
    assert str(built) not in page


def test_every_plot_is_a_file_too(page, built):
    plots = built / "artifacts/report/plots"
    names = {file.stem for file in plots.glob("*.svg")}
    assert names == {file.stem for file in plots.glob("*.png")}
    assert names >= {"history--full--loss", "history--plain--kl", "keywords--tiny", "degrees--tiny",
                     "neighbourhood--tiny--1"}
    assert page.count('<svg role="img" aria-label="') == len(names)


def test_stage_replaces_the_whole_folder(project, page):
    stray = Path("artifacts/report/plots/old.svg")
    stray.parent.mkdir(parents=True)
    stray.write_text("from an earlier recipe")
    assert main([]) == 0
    assert not stray.exists() and REPORT_PAGE.read_text(encoding="utf-8") == page


def test_colours_have_contrast_in_light_and_dark():
    """Text of every colour on the page's background reaches 4.5 : 1 (WCAG 2 AA)."""
    style = (Path(stages.reporting.page.__file__).parent / "templates" / "page.css").read_text()
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in style.split("@media")[:2])
    assert {name: light[name] for name in PALETTE} == PALETTE

    def luminance(colour):
        channels = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        high, low = sorted((luminance(one), luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for scheme in (light, dark):
        for name in ("ink", "muted", "first", "second", "good", "bad"):
            assert contrast(scheme[name], scheme["paper"]) >= 4.5, name
        assert contrast(scheme["mark-ink"], scheme["mark"]) >= 4.5


# -- what it says ---------------------------------------------------------------------------------------------

def test_header_and_what_ran(page):
    for text in ("tiny-recipe", "seed 13", "1,234", "345", "678", "graph.iterations = 0", "num_beams = 1", SHA256,
                 "tiny-encoder", "the word of highest IDF was taken", "data/tiny.tsv"):
        assert text in page, text
    rows = [[text for _, text in row] for row in Outline(page).rows]
    assert ["plain", "tiny", "99", "graph.iterations = 0"] in rows and ["full", "tiny", "13", "none"] in rows


def test_floors_come_first_and_the_best_run_is_marked(page):
    names = [row[0][1] for row in Outline(page).rows if row and row[0][1] in ("copy", "nearest", "full", "plain")]
    assert names[:4] == ["copy", "nearest", "full", "plain"]
    full, plain, copy = (row_of(page, name, "Extrema ↑") for name in ("full", "plain", "copy"))
    assert full["BLEU-1 ↑"] == ("best", "0.500") and plain["BLEU-1 ↑"] == ("", "0.400")
    assert copy["BLEU-1 ↑"] == ("", "0.900")        # a floor is never the best run
    assert full["Extrema ↑"][0] == plain["Extrema ↑"][0] == ""  # nothing to mark between equals
    assert full["tokens"] == ("", "9.5")
    assert row_of(page, "plain", "source BLEU-4 ↓")["source BLEU-4 ↓"] == ("best", "0.100")
    assert "2 items" in page and "leave out 1 item" in page and "identical texts score above 1" in page


def test_shares_that_bound_a_contrast_stand_beside_the_results(page):
    results = page[page.index('id="results"'):page.index('id="examples"')]
    assert "input and output have the same keyword (40.0\u00a0%)" in results
    assert "at least one negative neighbour (51.5\u00a0%)" in results


def test_examples_stand_side_by_side_with_their_keywords(page):
    examples = page[page.index('id="examples"'):page.index('id="training"')]
    assert "How do I lose <mark>belly fat</mark>?" in examples
    assert "Is <mark>belly fat</mark> useful?" in examples
    assert examples.count("lose <mark>Belly  Fat</mark> now") == 2      # one per run
    assert "not in the training graph" in examples and "(empty)" in examples
    assert "Who is the <mark>author</mark>?" in examples


def test_training_names_the_kept_epoch_and_the_settings(page):
    training = page[page.index('id="training"'):page.index('id="keywords"')]
    assert training.count("3 epochs, weights of epoch 2.") == 2
    assert "full, loss: validation from 6.250 to 5.900 over 3 epochs" in training
    assert "contrasts: keyword: temperature" in training


# -- what is missing ------------------------------------------------------------------------------------------

def test_missing_metrics_of_a_listed_run_are_an_error(project, capsys):
    RunPaths("plain").metrics.unlink()
    assert main([]) == 1
    assert re.search("artifacts/runs/plain/metrics.json: no such artifact.*keycontrast run", capsys.readouterr().err)
    assert not REPORT_PAGE.exists()


def test_files_of_another_kind_are_named(project, capsys):
    RunPaths("plain").metrics.write_text("{}")
    assert main([]) == 1 and "not the metrics of a run" in capsys.readouterr().err
    RunPaths("plain").metrics.write_text("{")
    assert main([]) == 1 and "not valid JSON" in capsys.readouterr().err
    write_run("plain", 0.4, 0.1, "")
    ModelPaths("full").history.write_text("step,loss\n1,2\n")
    assert main([]) == 1 and "history.csv: column 'epoch' is missing" in capsys.readouterr().err


def test_recipe_without_models_and_artifacts_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_params(models={"hcl": {}}, runs={"hcl": {}})
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    Outline(text)
    for sentence in ("this recipe lists no runs", "there are no runs", "this recipe trains no models",
                     "no keywords were made", "no keyword graph was made", "Counts are not available"):
        assert sentence in text


def test_model_without_history_says_so(project):
    ModelPaths("full").history.unlink()
    assert main([]) == 0
    assert "no training history was kept" in REPORT_PAGE.read_text(encoding="utf-8")


def test_no_examples_on_request(project):
    write_params(report={"examples": 0})
    assert main([]) == 0
    assert "<article" not in REPORT_PAGE.read_text(encoding="utf-8")


# -- the parts ------------------------------------------------------------------------------------------------

def test_segments_join_to_the_text_and_mark_whole_words():
    text = "Fat cats: belly  FAT, not fatty."
    parts = segments(text, ["belly fat", "fat", None, "<nokw>"])
    assert "".join(part.text for part in parts) == text
    assert [part.text for part in parts if part.marked] == ["Fat", "belly  FAT"]
    assert segments("减肥方法", ["方法"]) == [Segment("减肥", False), Segment("方法", True)]
    assert segments("c++ (c) is hard", ["c++"])[0] == Segment("c++", True)
    assert segments("", ["a"]) == [] and segments("a b", []) == [Segment("a b", False)]


def test_chosen_examples_are_spread_evenly():
    assert chosen_examples(range(100, 0, -1), 4) == [1, 26, 51, 76]
    assert chosen_examples([5, 3, 3], 9) == [3, 5] and chosen_examples([1], 0) == []


def test_history_columns_are_grouped_by_quantity():
    history = pd.DataFrame({"epoch": [1], "step": [4], "train_kl": [1.0], "validation_kl": [2.0], "beta": [0.1],
                            "validation_loss": [3.0], "train_empty": [float("nan")], "best": [True], "note": ["x"]})
    assert history_quantities(history) == {
        "kl": {"train": "train_kl", "validation": "validation_kl"}, "loss": {"validation": "validation_loss"},
        "beta": {"train": "beta"}}
    assert list(history_quantities(history))[-1] == "beta"
    assert best_epoch(history) == 1 and best_epoch(history.drop(columns="best")) == 0 and best_epoch(None) == 0


def test_neighbourhood_keeps_the_strongest_of_each_sign():
    nodes = pd.DataFrame({"node_id": range(22), "keyword": [f"k{number:02}" for number in range(22)]})
    edges = pd.DataFrame({"target": 0, "source": [*range(1, 11), *range(11, 21), 0],
                          "sign": [1] * 10 + [-1] * 10 + [1], "count": [*range(10, 0, -1), *range(1, 11), 99]})
    graph = neighbourhood(nodes, edges, 0)
    signs = dict(graph.nodes(data="sign"))
    assert [word for word, sign in signs.items() if sign == 1] == [f"k{number:02}" for number in range(1, 9)]
    assert [word for word, sign in signs.items() if sign == -1] == [f"k{number}" for number in range(20, 12, -1)]
    assert graph.edges["k01", "k00"]["count"] == 10 and not graph.has_edge("k00", "k00")


def test_top_keywords_leave_out_texts_without_one():
    keywords = pd.DataFrame({"keyword": ["b", "a", "<nokw>", "<nokw>", "<nokw>", "a", "b", "c"]})
    assert list(top_keywords(keywords).items()) == [("a", 2), ("b", 2), ("c", 1)]


def test_counts_become_readable_rows():
    counts = {"share_source_known": {"test": 0.125}, "rows": {"read": 12345}, "list": [1], "ratio": 1.5, "ok": True}
    assert list(rows_of(counts)) == [
        ("rows: read", "12,345"), ("input keyword is in the training graph: test", "12.5\u00a0%"), ("ratio", "1.500"),
        ("ok", "yes")]
    assert settings_text({"graph": {"iterations": 0}, "a": {"b": {"c": 1}}, "d": {}}) == (
        "graph.iterations = 0, a.b.c = 1, d = {}")


def test_runs_on_other_examples_get_their_own_block():
    def material(name, split, copied):
        metrics = {"run": metrics_of(0.5, 0.1), "floors": {"copy": metrics_of(copied, 1.0)},
                   "counts": {"examples": 3}, "settings": {"split": split}}
        return RunMaterial(name, name, "tiny", {}, metrics, pd.DataFrame())

    blocks = result_blocks([material("a", "test", 0.9), material("b", "validation", 0.8), material("c", "test", 0.9)])
    assert [(block.split, block.runs) for block in blocks] == [("test", ["a", "c"]), ("validation", ["b"])]
    assert [row.name for row in blocks[1].tables[0].rows] == ["copy", "b"]


def test_variety_within_items_gets_columns_only_where_it_was_measured():
    metrics = {"run": metrics_of(0.5, 0.1, intra_distinct_1=0.25, intra_distinct_2=0.75), "counts": {"examples": 1},
               "floors": {"copy": metrics_of(0.9, 1.0)}, "settings": {"split": "test"}}
    table = result_blocks([RunMaterial("a", "a", "tiny", {}, metrics, pd.DataFrame())])[0].tables[0]
    assert [row.cells[-1].text for row in table.rows] == ["–", "0.750"]
    assert table.groups[-1].label == "Within an item"


def test_inline_svg_keeps_only_ids_that_are_used_and_follows_the_theme():
    svg = ('<?xml version="1.0"?>\n<svg xmlns="x" viewBox="0 0 72 36" width="72pt" height="36pt">'
           '<defs><path id="m1" style="fill: #1b1f24"/></defs><g id="axes_1"><use xlink:href="#m1"/></g></svg>')
    inline = inline_svg(svg, "plot", 'say "hi" <b>')
    assert inline == ('<svg role="img" aria-label="say &#34;hi&#34; &lt;b&gt;" style="max-width:96px" xmlns="x" '
                      'viewBox="0 0 72 36"><defs><path id="plot-m1" style="fill: var(--ink)"/></defs>'
                      '<g><use xlink:href="#plot-m1"/></g></svg>')


def test_help_says_what_the_stage_makes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "one self-contained page" in capsys.readouterr().out


def test_keywords_of_every_method_stand_side_by_side_with_their_agreement(page):
    rows = [[text for _, text in row] for row in Outline(page).rows]
    assert [TEXTS[0], "belly fat", "fat", "lose", "belly", "first, second"] in rows
    assert [TEXTS[3], ATTACK, ATTACK, "wrote", "belly", "first, second"] in rows
    # A text without keywords by one of the methods cannot be compared.
    assert not [row for row in rows if row and row[0] == TEXTS[4] and "first, second" in row]
    assert ["TextRank and IDF", "6", "25.0\u00a0%", "50.0\u00a0%", "12.5\u00a0%"] in rows
    assert "Keywords by part of speech, 2 test sources" in page


def test_a_small_number_is_not_shown_as_nothing():
    assert list(rows_of({"centrality_residual": 9.9e-11, "zero": 0.0})) == [
        ("change of centrality at its last iteration", "9.9e-11"), ("zero", "0.000")]
