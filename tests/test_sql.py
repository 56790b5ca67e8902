"""`keycontrast inspect --sql`: every artifact is a view, and nothing can be written."""

import csv
import io
import json
import logging
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_artifacts import write_graph
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline.cli import app
from pipeline.sql import answer, catalog, single_file


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    write_graph()
    for run in ("hcl", "hcl-no-graph"):
        scored, predicted = (tmp_path / "artifacts" / group / run / "13" for group in ("runs", "predictions"))
        scored.mkdir(parents=True)
        predicted.mkdir(parents=True)
        (scored / "metrics.json").write_text(json.dumps({"run": {"bleu_1": 0.5}, "empty": {}}))
        pq.write_table(pa.table({"example_id": [1], "prediction": [f"by {run}"]}), predicted / "predictions.parquet")
    model = tmp_path / "artifacts" / "models" / "hcl" / "13"
    (model / "model").mkdir(parents=True)
    (model / "model" / "config.json").write_text("{}")
    (model / "history.csv").write_text("epoch,loss\n1,0.25\n2,0.125\n")
    return tmp_path


def asked(*arguments):
    done = CliRunner().invoke(app, ["inspect", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def rows(sql, **settings):
    with answer(sql, settings.pop("files", None) or catalog(), **settings) as found:
        return list(found.rows)


def test_tables_answer_by_short_and_by_full_name(project):
    assert rows("select keyword from nodes where cluster_size = 2") == [("belly fat",)]
    assert rows("select count(*) from small.edges join small.nodes on node_id = source where sign < 0") == [(2,)]
    assert rows("select prediction from runs_hcl_no_graph.predictions") == [("by hcl-no-graph",)]
    assert rows("select max(loss) from history") == [(0.25,)]
    assert rows("select run.bleu_1 from runs_hcl.metrics") == [(0.5,)]


def test_the_catalog_lists_each_file_once(project):
    assert set(catalog().schemas) == {"small", "runs_hcl", "runs_hcl_no_graph", "models_hcl"}
    assert catalog().datasets == {"small": "small"}
    assert set(catalog().schemas["models_hcl"]) == {"history"}
    assert ("small", "nodes") in {(row[1], row[2]) for row in rows("show all tables")}
    shutil.copytree(project / "artifacts/models/hcl/13", project / "artifacts/models/hcl/14")
    assert {"models_hcl_13", "models_hcl_14", "runs_hcl"} <= set(catalog().schemas)


def test_a_name_in_several_places_is_not_guessed(project):
    with pytest.raises(InputError, match=r"predictions does not exist"):
        rows("select * from predictions")
    write_graph("other-one")
    with pytest.raises(InputError, match=r"nodes does not exist"):
        rows("select * from nodes")
    assert rows("select count(*) from nodes", dataset="other-one") == [(6,)]
    with pytest.raises(InputError, match=r"--dataset smal: no artifacts of that data set; did you mean 'small'\?"):
        rows("select 1", dataset="smal")


def test_names_that_sql_reserves_or_that_collide_are_made_distinct(project):
    for name in ("main", "a-b", "a_b", "20ng"):
        write_graph(name)
    assert catalog().datasets == {"20ng": "20ng", "a-b": "a_b", "a_b": "a_b_", "main": "main_", "small": "small"}
    assert rows('select count(*) from a_b_.nodes, main_.nodes, "20ng".nodes') == [(216,)]


@pytest.mark.parametrize(("sql", "message"), [
    ("select keywrd from nodes", "keyword"), ("select * from nodess", "`show all tables` lists all views"),
    ("selec 1", r"Parser Error: syntax error at or near \"selec\""),
    ("select 'a'::int", "Could not convert string 'a'"),
    ("", "no statement with an answer"), ("select '\udcff'", "not valid in the encoding"),
])
def test_errors_name_what_is_wrong_and_what_is_near(project, sql, message):
    with pytest.raises(InputError, match=message):
        rows(sql)


@pytest.mark.parametrize("sql", [
    "delete from nodes", "create table t as select 1", "drop view small.nodes", "set threads = 1",
    "copy nodes to 'out.csv'", "attach 'x.db' as x", "install httpfs",
    "copy (select 1) to 'artifacts/data/small/graph/nodes' (use_tmp_file false)",
    "with w as (copy (select 1) to 'artifacts/data/small/graph/nodes' (use_tmp_file false)) select * from w",
    "explain analyze copy (select 1) to 'artifacts/data/small/graph/nodes' (use_tmp_file false)",
    "select * from query('with w as (copy (select 1) to ''out.csv'') select * from w')",
    "select * from 'artifacts/data/small/graph/nodes'", "select * from read_text('params.yaml')",
    "select * from glob('*')", "select * from files",
])
def test_nothing_is_written_and_no_file_is_read_by_its_path(project, sql):
    (project / "params.yaml").write_text("secret")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="--sql"):
        rows(sql)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_the_table_is_cut_with_a_note_and_safe_to_print(project):
    shown = asked("--sql", "select keyword from nodes order by node_id", "--rows", "5")
    assert "First 5 rows" in shown and "--rows 10 shows more" in shown and "zzz" not in shown
    assert "\x1b[31m" not in shown and r"减肥 \x1b[31m" in shown
    whole = asked("--sql", "select keyword, null as nothing from nodes")
    assert "6 rows" in whole and "There are more" not in whole and "<script>" in whole and "null" in whole
    assert "[bold]belly fat[/bold]" in asked("--sql", "select text from texts")
    assert "Filters" in (plan := asked("--sql", "explain select * from nodes where node_id = 1")) and "┏" not in plan


def test_csv_and_json_hold_the_whole_answer(project):
    text = asked("--sql", "select node_id, node_id, [1, null] as list, keyword from nodes order by 1", "--csv")
    table = list(csv.reader(io.StringIO(text)))
    assert table[0] == ["node_id", "node_id_", "list", "keyword"] and len(table) == 7
    assert table[5] == ["4", "4", "[1, null]", r"减肥 \x1b[31m"]
    text = asked("--sql", "select 1.5::decimal(3, 1) as d, ['nan'::double] as n, 'x'::blob as b", "--json")
    assert json.loads(text) == {"d": 1.5, "n": [None], "b": "b'x'"}
    cut = CliRunner().invoke(app, ["inspect", "--sql", "select * from nodes", "--json", "--rows", "2"])
    assert len(cut.stdout.splitlines()) == 2 and "cut after 2 rows" in cut.stderr


def test_a_folder_is_queried_alone_and_one_file_is_the_view_artifact(project):
    assert set(catalog(project / "artifacts" / "runs").schemas) == {"hcl", "hcl_no_graph"}
    assert "6" in asked("artifacts/data/small", "--sql", "select count(*) from nodes")
    assert "0.125" in asked("artifacts/models/hcl/13/history.csv", "--sql", "select min(loss) from artifact")
    file = single_file(project / "artifacts/runs/hcl/13/metrics.json")
    assert rows("select run.bleu_1 from artifact", files=file) == [(0.5,)]
    with pytest.raises(InputError, match=r"histoy\.csv: no such file; did you mean 'history\.csv'\?"):
        asked("artifacts/models/hcl/13/histoy.csv", "--sql", "select 1")
    for name, text in (("a.json", '[{"i": 1}, {"n": "x"}]'), ("a.jsonl", '{"i": 1}\n' * 200_000 + '{"n": "x"}')):
        (project / name).write_text(text)  # with a column that begins late
        assert rows("select count(n) from artifact", files=single_file(project / name)) == [(1,)]
    (project / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"notes\.txt: cannot query a file of kind \.txt; valid endings: \.csv"):
        asked("notes.txt", "--sql", "select 1")


def test_a_broken_file_is_named_and_left_out(project, caplog, monkeypatch):
    (project / "artifacts" / "data" / "small" / "broken.parquet").write_text("no")
    # The project's logger does not propagate once a command has configured it.
    monkeypatch.setattr(logging.getLogger("keycontrast.sql"), "handlers", [caplog.handler])
    assert rows("select count(*) from nodes") == [(6,)]
    assert "broken.parquet: left out, not a readable parquet file" in caplog.text


def test_without_artifacts_or_with_options_that_do_not_belong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="artifacts: no artifacts to query. Make artifacts with `keycontrast run`"):
        asked("--sql", "select 1")
    with pytest.raises(InputError, match="nothing to inspect. Name a file or folder"):
        asked()
    with pytest.raises(InputError, match="--dataset, --csv and --json go with --sql"):
        asked("x.parquet", "--csv")
    assert not list(tmp_path.iterdir())
