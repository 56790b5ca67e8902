"""``keycontrast keywords``: files in, phrases out, whatever is in them."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from keycontrast import cli
from keycontrast.cli import app, explain
from keycontrast.errors import InputError
from keycontrast.keywords import Keywords
from keycontrast.text.pipelines import EMBEDDED_FOLDER

TEXTS = ["The distributed system keeps a copy of each file.", "Black money in New York helps nobody.", "Why not?"]


def keywords(*arguments, given=None):
    done = CliRunner().invoke(app, ["keywords", *map(str, arguments)], input=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def test_every_text_has_all_its_phrases(lines):
    found = [json.loads(line) for line in keywords(lines, "--jsonl").splitlines()]
    assert [one["row"] for one in found] == [0, 1, 2]
    assert [phrase["keyword"] for phrase in found[1]["phrases"]] == ["black money", "new york"]
    assert found[1]["phrases"][0]["score"] > found[1]["phrases"][1]["score"] > 0
    assert found[2]["phrases"] == []
    assert [len(one["phrases"]) for one in map(json.loads, keywords(lines, "--jsonl", "--top", 1).splitlines())] == [
        1, 1, 0]
    shown = keywords(lines)
    assert "1  Black money" in shown and "(no phrase)" in shown and "New York" in shown


def test_parquet_csv_json_and_python_say_the_same(lines, tmp_path):
    out = tmp_path / "phrases.parquet"
    shown = keywords(lines, "--out", out)
    found = pq.read_table(out)
    assert found.equals(Keywords().rank(TEXTS).table)
    assert shown == f"{out}: {found.num_rows} rows of {len(TEXTS)} texts\n"
    rows = [{name: str(value) for name, value in row.items()} for row in found.to_pylist()]
    assert list(csv.DictReader(io.StringIO(keywords(lines, "--csv")))) == rows
    assert keywords("-", "--csv", given="\n".join(TEXTS)) == keywords(lines, "--csv")
    objects = map(json.loads, keywords(lines, "--jsonl").splitlines())
    assert [{"row": one["row"], **phrase} for one in objects for phrase in one["phrases"]] == found.to_pylist()


def test_methods_stand_side_by_side_in_every_form(lines, tmp_path):
    asked = lines, "--compare", "tfidf, yake", "--top", 2
    wanted = Keywords().compare(["tfidf", "yake"], TEXTS, 2).table
    rows = list(csv.DictReader(io.StringIO(keywords(*asked, "--csv"))))
    assert rows == [{name: str(value) for name, value in row.items()} for row in wanted.to_pylist()] and len(rows) == 4
    objects = [json.loads(line) for line in keywords(*asked, "--jsonl").splitlines()]
    assert [{"row": one["row"], **row} for one in objects for row in one["phrases"]] == wanted.to_pylist()
    keywords(*asked, "--out", tmp_path / "c.parquet")
    assert pq.read_table(tmp_path / "c.parquet").equals(wanted)
    shown = keywords(*asked)
    assert shown.splitlines()[0].split() == ["tfidf", "yake"] and "     2  new york" in shown and "(no phrase)" in shown


def test_words_vocabularies_and_pipelines_come_from_files(lines, tmp_path):
    (tmp_path / "words.txt").write_text("black\n", encoding="utf-8")
    (tmp_path / "phrases.txt").write_text("new york\ncopy of each\n", encoding="utf-8")

    def found(*arguments):
        return [row["keyword"] for row in csv.DictReader(io.StringIO(keywords(lines, "--csv", *arguments)))]

    assert {"money", "new york"} < set(found("--stop-words", tmp_path / "words.txt"))
    assert found("--candidates", tmp_path / "phrases.txt") == ["copy of each", "new york"]
    assert found("--threshold", 1.8) == ["distributed system", "black money"]
    seeded = found("--method", "pytextrank", "--seed-words", "money, copy", "--top", 1)
    assert seeded == ["copy", "black money"] != found("--method", "pytextrank", "--top", 1)
    assert found("--pipeline", EMBEDDED_FOLDER) == found()


def test_ids_are_carried_along_and_rows_without_text_may_be_left_out(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("key,text\na7,A red ball.\na8,\na9,NA\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 2: column 'text' is empty. .* --skip-empty"):
        keywords(file)
    found = list(csv.DictReader(io.StringIO(keywords(file, "--csv", "--id", "key", "--skip-empty"))))
    assert [(row["row"], row["id"], row["keyword"]) for row in found] == [("0", "a7", "red ball"), ("2", "a9", "na")]
    keywords(file, "--id", "key", "--skip-empty", "--out", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet")["id"].to_pylist() == ["a7", "a9"]


def test_lines_are_counted_with_empty_ones(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("Black money helps nobody.\n\n \nA distributed system.\n\n")
    for answer in (keywords(path, "--jsonl"), keywords("-", "--jsonl", given=path.read_text())):
        assert [json.loads(line)["row"] for line in answer.splitlines()] == [0, 3]
    (path := tmp_path / "texts.jsonl").write_text('{"text": "A red ball."}\n\n{"text": "A dog."}\n')
    assert [json.loads(line)["row"] for line in keywords(path, "--jsonl").splitlines()] == [0, 2]


def test_places_are_those_of_the_cell_and_ids_stay_numbers(tmp_path):
    file, texts = tmp_path / "t.jsonl", ["  A red ball.", "A red ball.", "A gate."]
    file.write_text("".join(json.dumps({"key": key, "text": text}) + "\n"
                            for key, text in zip((-5, None, float("nan")), texts, strict=True)), encoding="utf-8")
    found = list(csv.DictReader(io.StringIO(keywords(file, "--csv", "--id", "key"))))
    assert [row["id"] for row in found] == ["-5", "", ""]
    assert texts[0][int(found[0]["start"]):int(found[0]["end"])] == "red ball"
    lines = keywords(file, "--jsonl", "--id", "key").splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["id"] for line in lines] == [-5, None, None]
    file.write_text('{"key": {"a": [1e999, "-5"]}, "text": "A ball."}\n{"key": "-5", "text": "A dog."}\n')
    (first, second) = keywords(file, "--jsonl", "--id", "key").splitlines()
    assert json.loads(first, parse_constant=pytest.fail)["id"] == {"a": [None, "-5"]} and '"id": "-5"' in second
    assert '"{""a"": [null, ""-5""]}"' in keywords(file, "--csv", "--id", "key")
    file.write_text('{"key": null, "text": "A dog."}\n')
    assert keywords(file, "--csv", "--id", "key").startswith("row,id,")


def test_options_of_reading_are_followed_or_refused(tmp_path):
    given = "The caf\u00e9 gate.".encode("latin-1")
    assert "caf\u00e9 gate" in keywords("-", "--csv", "--encoding", "latin-1", given=given)
    with pytest.raises(InputError, match="--quoting and --separator: standard input is read line by line"):
        keywords("-", "--separator", ";", given="A ball.")
    (tmp_path / "t.txt").write_text("A ball.")
    for option, value in (("--separator", ";"), ("--quoting", "none")):
        with pytest.raises(InputError, match=f"{option}: .*neither CSV nor TSV"):
            keywords(tmp_path / "t.txt", option, value)


def test_nothing_that_is_printed_is_obeyed(tmp_path):
    path = tmp_path / "evil.jsonl"
    letters = "\x1b[31m", "\x9b31m", "\u202e"
    path.write_text("".join(json.dumps({"text": f"The {letter}graph theory and =SUM(A1) helps."}) + "\n"
                            for letter in letters), encoding="utf-8")
    for form in ((), ("--csv",), ("--jsonl",)):
        shown = keywords(path, *form)
        assert not any(letter in shown for letter in "\x1b\x9b\u202e")


@pytest.mark.parametrize("opening", ["=", "+", "-", "@"])
def test_no_cell_is_a_formula(tmp_path, opening, monkeypatch):
    monkeypatch.setattr(cli, "printable", lambda text: opening + text)
    path = tmp_path / "t.txt"
    path.write_text("Graph theory helps.\n", encoding="utf-8")
    row = next(csv.DictReader(io.StringIO(keywords(path, "--csv"))))
    assert row["phrase"] == f"'{opening}Graph theory" and row["keyword"] == f"'{opening}graph theory"


@pytest.mark.parametrize(("content", "arguments", "message"), [
    (None, (), "t.csv: no such file"),
    (b"abstract\nGraphs help.\n", ("--column", "abstrct"), "no column 'abstrct' .--column.; did you mean 'abstract'"),
    (b"text\nGraphs help.\n", ("--method", "tfidff"), "--method: no ranking is called 'tfidff'; did you mean 'tfidf'"),
    (b"text\nGraphs help.\n", ("--csv", "--jsonl"), "choose one")])
def test_bad_input_is_named(tmp_path, content, arguments, message):
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        keywords(tmp_path / "t.csv", *arguments)


def test_the_graph_of_a_file_needs_a_place(lines, tmp_path):
    import pipeline.cli  # noqa: F401 - its command takes a keyword or a file

    asked = CliRunner().invoke(app, ["graph", str(lines)])
    assert asked.exit_code == 1 and "--out graph.graphml" in str(asked.exception)
    (tmp_path / "t.csv").write_text('text;note\nA dog of "Spot";\nA dog;x\n', encoding="utf-8")
    made = CliRunner().invoke(app, ["graph", str(tmp_path / "t.csv"), "--out", str(tmp_path / "g.graphml"),
                                    "--separator", ";", "--quoting", "none"])
    assert made.exit_code == 0 and "<keyword graph: " in made.output and (tmp_path / "g.graphml").exists()
    for name, opening in (("g.svg", "<svg"), ("g.html", "<!DOCTYPE html>")):
        assert CliRunner().invoke(app, ["graph", str(lines), "--out", str(tmp_path / name)]).exit_code == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(opening)
    odd = CliRunner().invoke(app, ["graph", str(lines), "--out", "g.gexf"])
    assert "--out: g.gexf must end in .graphml, .svg or .html" in str(odd.exception)


def test_graph_and_explain_take_the_options_of_the_ranking(tmp_path, capsys):
    import pipeline.cli  # noqa: F401 - its command passes them on

    (tmp_path / "t.txt").write_text("A red ball hits the old fence.\nThe red ball and the gate.\n", encoding="utf-8")
    (tmp_path / "words").write_text("ball\nfence\n", encoding="utf-8")
    words = str(tmp_path / "words")
    for options, nodes in (((), 3), (("--candidates", words), 2), (("--stop-words", words), 1),
                           (("--threshold", "9"), 0), (("--method", "pytextrank", "--seed-words", "gate"), 3)):
        made = CliRunner().invoke(app, ["graph", str(tmp_path / "t.txt"), "--out", str(tmp_path / "g.graphml"),
                                        *options])
        assert f"<keyword graph: {nodes} node" in made.output, (options, made.output, made.exception)
    assert "'no-such' is neither an installed" in str(CliRunner().invoke(app, [
        "graph", str(tmp_path / "t.txt"), "--out", str(tmp_path / "g.svg"), "--pipeline", "no-such"]).exception)
    text = "A red ball hits the old fence."
    explain(text, "pytextrank", tmp_path / "words", "fence")
    assert "Keyword: fence" in capsys.readouterr().out
    explain(text, stop_words=tmp_path / "words")
    shown = capsys.readouterr().out
    assert "red ball" not in shown and "old fence" not in shown     # parts of phrases that a stop word ends
    explain(f"The new deep neural network training data system approach is good. {text}", "tfidf")
    assert "'red ball' has the highest score" in capsys.readouterr().out    # of phrases of at most five words
    (tmp_path / "words").write_text("dog\n", encoding="utf-8")
    explain("A dog.", stop_words=tmp_path / "words")
    assert "Keyword: dog" not in capsys.readouterr().out
    explain(text, threshold=9)
    assert "No phrase is left to choose" in capsys.readouterr().out
