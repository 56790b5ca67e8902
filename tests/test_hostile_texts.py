"""Texts that try to steer a terminal, a page or a spreadsheet, through every command that shows data."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
import yaml
from small_artifacts import PROVENANCE, write_graph
from typer.testing import CliRunner

from keycontrast.errors import InputError, plain
from pipeline.cli import app
from pipeline.schemas import SCHEMAS
from stages.common.tables import write_table

HOSTILE = "=1+1 \x1b[31mred</svg><script>alert(1)</script> [bold]x[/bold]\u202e"
PHRASE = "\x1b]0;title\x07<script>"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    paths = write_graph()
    texts = {"text_id": range(4), "text": [HOSTILE] * 4, "language": ["en"] * 4}
    nodes = {"node_id": range(6), "keyword": [PHRASE, "a", "b", "c", "d", "e"], "texts": [1, 3, 2, 3, 1, 1],
             "degree": [1, 2, 2, 1, 0, 0], "centrality": [0.1, 0.3, 0.2, 0.2, 0.1, 0.1],
             "component": [0, 0, 0, 0, 4, 5], "community": [0, 0, 0, 0, 4, 5]}
    for kind, rows in (("texts", texts), ("phrase_nodes", nodes)):
        write_table(paths.table(kind), SCHEMAS[kind], {name: list(values) for name, values in rows.items()}, PROVENANCE)
    Path("params.yaml").write_text(yaml.safe_dump({
        "recipe": "hostile", "datasets": {"small": {"source": "raw"}}, "keywords": {"datasets": ["small"]}}))
    Path("texts.csv").write_text(f'text\n"{HOSTILE}"\n"the {HOSTILE} of two dogs"\n', encoding="utf-8")
    Path("texts.json").write_text(json.dumps([HOSTILE, 10**30], ensure_ascii=False), encoding="utf-8")
    return paths


@pytest.mark.parametrize("arguments", [
    ["inspect", "artifacts/data/small/items/texts"],
    ["inspect", "artifacts/data/small/items/examples", "--schema"],
    ["inspect", "--sql", "select text, keyword from texts, phrase_nodes"],
    ["inspect", "--sql", "select chr(27) || ']' || chr(8238) as \"a\"", "--csv"],
    ["inspect", "--sql", "select [chr(27) || ']', chr(8238)] as a", "--json"],
    ["inspect", "texts.json"],
    ["explain", "caf\udce9 on the table"],
    ["graph", "caf\udce9"],
    ["inspect", "--sql", f"select '{HOSTILE.replace(chr(27), '')}' as \"{HOSTILE.replace(chr(27), '')}\""],
    ["graph", "a", "--neighbours", "9"],
    ["keywords", "texts.csv", "--column", "text"],
    ["explain", HOSTILE],
    ["use", "nothing\x1b[31m"],
    ["run", "nothing\x1b[31m"],
])
def test_nothing_reaches_the_terminal_as_a_control_character(project, arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit | InputError)
    shown = done.stdout + plain(str(done.exception or ""))      # as `main` prints an InputError
    assert not [sign for sign in ("\x1b]", "\x1b[31mred", "\x07", "\u202e") if sign in shown]


def test_files_for_other_programs_hold_texts_and_nothing_that_is_carried_out(project, tmp_path):
    runner = CliRunner()
    for arguments in (["keywords", "texts.csv", "--column", "text", "--csv"],
                      ["inspect", "--sql", "select text from texts", "--csv"]):
        cells = [cell for row in csv.reader(io.StringIO(runner.invoke(app, arguments).stdout)) for cell in row]
        assert cells and not [cell for cell in cells if cell[:1] in ("=", "@")]
    lines = runner.invoke(app, ["inspect", "--sql", "select text from texts", "--json"]).stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == [HOSTILE] * 4
    assert runner.invoke(app, ["graph", "a", "--svg", "a.svg"]).exit_code == 0
    drawn = Path("a.svg").read_text(encoding="utf-8")
    assert "<script" not in drawn and "\x1b" not in drawn
    ET.fromstring(drawn)
    assert runner.invoke(app, ["export", "g.graphml"]).exit_code == 0
    assert len(nx.read_graphml("g.graphml")) == 6
    for out in ("t.svg", "t.html"):
        assert runner.invoke(app, ["graph", "texts.csv", "--column", "text", "--out", out]).exit_code == 0
        assert "<script>alert" not in Path(out).read_text(encoding="utf-8")
    Path("u.txt").write_text("The foo\uffffbar eats a foo\uffffbar of the zoo.\n", encoding="utf-8")  # XML has none
    for out in ("u.svg", "u.graphml"):
        assert runner.invoke(app, ["graph", "u.txt", "--out", out]).exit_code == 0
        ET.parse(out)
    assert runner.invoke(app, ["inspect", ".", "--sql", "select 1"]).exit_code == 0  # though a number is too large
    Path("ids.jsonl").write_text('{"id": "a\\ud800", "text": "The dog eats."}\n')
    asked = ["keywords", "ids.jsonl", "--column", "text", "--id", "id", "--out", "ids.parquet"]
    assert runner.invoke(app, asked).exit_code == 0
