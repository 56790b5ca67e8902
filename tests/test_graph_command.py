"""`keycontrast graph` and `keycontrast export`: a keyword among its neighbours, drawn, and the graph as GraphML."""

import re
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from small_artifacts import EDGES, KEYWORDS, PROVENANCE, nodes, write_graph
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline.cli import app
from pipeline.neighbourhood import example_texts, near_keywords
from pipeline.schemas import SCHEMAS
from stages.common.tables import write_table

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return write_graph()


def asked(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def labels(svg):
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_command_prints_the_node_its_neighbours_and_texts(paths):
    shown = asked("graph", "--signed", "Belly  FAT")
    assert "belly fat  (node 1 of small)" in shown and "2 training examples whose input has this keyword" in shown
    assert "2 positive, 1 negative neighbours" in shown and "0.3, rank 2 of 6" in shown
    assert "4 keywords" in shown and "5 keywords" in shown        # community 0, component 0
    row = next(line for line in shown.splitlines() if "sleep" in line and "+" in line)
    assert row.count("+3") == 2
    assert re.search(r"− .*<script> .*−2 .*·", shown)
    assert "What melts [bold]belly fat[/bold]?" in shown and "A <script> & more" in shown
    assert ".keycontrast/graphs/small-belly-fat-signed.svg" in shown
    further = asked("graph", "--signed", "belly fat", "--hops", "2", "--neighbours", "1")
    assert "1 more positive neighbours with smaller counts are left out" in further
    assert r"2 edges away (1): 减肥 \x1b[31m" in further and "\x1b[31m" not in further
    assert "It has no neighbours." in asked("graph", "--signed", "zzz")


def test_examples_come_from_the_cluster_or_from_where_else_the_keyword_stands(paths):
    own = example_texts(paths, "belly fat")
    assert own["role"].unique().tolist() == ["input"] and own["example_id"].tolist() == [0, 1]
    assert own["negative"].tolist()[0] == "A <script> & more" and own["negative"].isna().tolist() == [False, True]
    assert example_texts(paths, "sleep")[["example_id", "role"]].values.tolist() == [[1, "output"], [2, "output"]]
    assert example_texts(paths, "<script>")["role"].tolist() == ["negative"]
    assert example_texts(paths, "zzz").empty


def test_the_drawing_is_xml_with_every_label_escaped_and_the_same_bytes_twice(paths, tmp_path):
    asked("graph", "--signed", "belly fat", "--hops", "2", "--svg", "one.svg")
    asked("graph", "--signed", "belly fat", "--hops", "2", "--svg", "two.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text and "diet &amp; rest" in text and "\x1b" not in text
    assert {"belly fat", "sleep", "diet & rest", "<script>", "减肥 \\x1b[31m"} == set(labels(text))
    lines = {frozenset(line.findtext(f"{SVG}title").split(": ")[0].split(" – ")): line
             for line in ET.fromstring(text).iter(f"{SVG}line")}
    dashed, solid = lines[frozenset({"belly fat", "<script>"})], lines[frozenset({"belly fat", "sleep"})]
    assert dashed.get("stroke-dasharray") and not solid.get("stroke-dasharray")
    assert solid.findtext(f"{SVG}title").endswith(": 6") and dashed.findtext(f"{SVG}title").endswith(": -2")
    assert float(solid.get("stroke-width")) > float(dashed.get("stroke-width"))


def test_data_sets_of_the_params_in_force_go_first(paths, tmp_path, monkeypatch):
    """Artifacts of another recipe remain beside them, and are still there for who names them."""
    write_graph("remains")
    (tmp_path / "params.yaml").write_text("recipe: r\ndatasets: {small: {source: x}, bare: {source: x}}\n")
    assert "(node 1 of small)" in asked("graph", "--signed", "belly fat")
    assert "(node 1 of remains)" in asked("graph", "--signed", "belly fat", "--dataset", "remains")
    counted = asked("inspect", "--sql", "select count(*) as n from nodes", "--csv").split()
    assert counted == ["n", str(len(KEYWORDS))]
    (tmp_path / "params.yaml").write_text("recipe: r\ndatasets: {bare: {source: x}}\n")
    with pytest.raises(InputError, match="several data sets have a table nodes: remains, small; choose with --dataset"):
        asked("graph", "--signed", "belly fat")
    with pytest.raises(InputError, match=r"data/smal/graph/nodes: no such artifact; did you mean 'small'\?"):
        asked("graph", "--signed", "sleep", "--dataset", "smal")
    (tmp_path / "artifacts" / "data" / "fresh").mkdir()
    with pytest.raises(InputError, match="--stop-words goes with a file of texts and --out; leave it out"):
        asked("graph", "sleep", "--dataset", "small", "--stop-words", "words.txt")
    with pytest.raises(InputError, match="`keycontrast run graph@fresh` makes it"):
        asked("graph", "--signed", "sleep", "--dataset", "fresh")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(InputError, match="no data set has a table nodes .*; make it with `keycontrast run`"):
        asked("graph", "--signed", "sleep")


def test_graphml_goes_round_through_networkx(paths):
    shown = asked("export", "--signed", "graph.graphml")
    assert "6 keywords, 6 edges of small" in shown and "1 keywords have control characters that XML forbids" in shown
    graph = nx.read_graphml("graph.graphml")
    assert graph.is_directed() and not graph.is_multigraph()
    table, names = nodes(), [keyword.replace("\x1b", "\ufffd") for keyword in KEYWORDS]
    for node, name in enumerate(names):
        assert graph.nodes[name] == {column: values[node] for column, values in table.items()
                                     if column not in ("node_id", "keyword")}
    assert {(source, target): data for source, target, data in graph.edges(data=True)} == {
        (names[source], names[target]): {"sign": sign, "count": count} for target, source, sign, count in EDGES}
    # Keywords that differ in what XML forbids stay two nodes.
    columns = nodes() | {"keyword": ["a\x1b", "a\x1c", *KEYWORDS[2:]]}
    write_table(paths.table("nodes"), SCHEMAS["nodes"], columns, PROVENANCE)
    assert "3 keywords have control characters" in asked("export", "--signed", "graph.graphml")
    assert {"a\ufffd", "a\ufffd (1)"} < set(nx.read_graphml("graph.graphml"))


def test_phrases_are_shown_with_those_that_share_their_texts(paths, tmp_path):
    shown = asked("graph", "Belly FAT", "--svg", "fat.svg")
    assert "belly fat  (node 1 of small)" in shown and "training" not in shown and "sign" not in shown
    found = re.findall(r"(sleep|diet & rest) +\W (\d) +\W (\d)", shown)
    assert found == [("sleep", "2", "3"), ("diet & rest", "1", "2")]
    assert "How do I lose belly fat?" in shown and "What melts [bold]belly fat[/bold]?" in shown
    assert {"belly fat", "sleep", "diet & rest"} == set(labels((tmp_path / "fat.svg").read_text(encoding="utf-8")))
    assert "1 more neighbours with smaller counts are left out" in asked("graph", "belly fat", "--neighbours", "1")
    assert "2 edges away (1): diet & rest" in asked("graph", "sleep", "--hops", "2")
    assert "It has no neighbours." in asked("graph", "zzz")
    with pytest.raises(InputError, match="the graph of small has no 'fat'; similar keywords: 'belly fat'.*best phr"):
        asked("graph", "fat")
    assert near_keywords(paths.table("nodes"), "belly fat loss")[0] == "belly fat"
    assert near_keywords(paths.table("nodes"), "slep") == ["sleep"] and near_keywords(paths.table("nodes"), " ") == []


def test_the_phrase_graph_goes_round_through_networkx(paths):
    assert "6 keywords, 3 edges of small" in asked("export", "graph.graphml")
    graph = nx.read_graphml("graph.graphml")
    assert not graph.is_directed() and graph.nodes["sleep"]["texts"] == 3
    assert {frozenset(edge[:2]): edge[2]["weight"] for edge in graph.edges(data=True)} == {
        frozenset({"belly fat", "sleep"}): 2, frozenset({"belly fat", "diet & rest"}): 1,
        frozenset({"diet & rest", "<script>"}): 1}
    asked("export", "part.graphml", "--keyword", "sleep", "--hops", "2")
    assert set(nx.read_graphml("part.graphml")) == {"sleep", "belly fat", "diet & rest"}


def test_export_is_whole_or_not_at_all(paths, tmp_path):
    (tmp_path / "graph.graphml").write_text("before")
    (paths.table("edges") / "part-00000.parquet").write_text("broken")
    with pytest.raises(InputError, match="edges/part-00000.parquet: not a readable Parquet file"):
        asked("export", "--signed", "graph.graphml")
    assert (tmp_path / "graph.graphml").read_text() == "before"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["artifacts", "graph.graphml"]
    with pytest.raises(InputError, match=r"graph\.gml: a graph is written as GraphML. Name a file that ends in"):
        asked("export", "--signed", "graph.gml")
