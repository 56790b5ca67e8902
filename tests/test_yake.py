"""YAKE: the package's phrases among our tokens, and the way from a text to its keyword."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ranking_tables import frequencies, row, table
from rich.console import Console
from test_keywords import examples
from yake import KeywordExtractor

from keycontrast.errors import InputError
from keycontrast.text.annotate import load_annotator
from keycontrast.text.tokens import token_table
from pipeline import inspection, sql
from pipeline.schemas import SCHEMAS
from stages.common.tables import Provenance, column_names, read_metadata, read_table, write_table
from stages.keywords import embedrank, ranking_stage
from stages.keywords import yake as stage
from stages.keywords.params import Yake

TEXTS = [
    "The rocket of NASA flies to the red planet.", "Graph methods rank words; words rank graph methods.",
    "World leaders don't agree on the world's climate change costs.", "", ". , !", "🙂", "10 3.5", "the of", "name",
    "state-of-the-art e-mail\tfilters in  São Paulo\n\nNew rules"]


@pytest.fixture(scope="module")
def tokens():
    return token_table(load_annotator("embedded", "en").columns(range(len(TEXTS)), TEXTS))


def written(*texts):
    """Token table of texts that are words between spaces."""
    return table([row(number, [(word, "NOUN") for word in text.split()]) for number, text in enumerate(texts)])


def test_phrases_and_scores_are_the_packages(tokens):
    rows = stage.run(tokens, Yake(phrases=4)).to_pylist()
    extractor = KeywordExtractor(lan="en", n=3, top=5)
    found = 0
    for place, text in enumerate(TEXTS):
        # A phrase across paragraphs is none, and the next takes its place.
        theirs = [score for phrase, score in extractor.extract_keywords(text) if phrase != "Paulo New rules"]
        theirs = sorted(theirs[:4])
        mine = [line for line in rows if line["text_id"] == place and line["rank"]]
        assert [1 / line["score"] for line in mine] == pytest.approx(theirs)
        assert [line["rank"] for line in mine] == list(range(1, len(theirs) + 1))
        found += len(mine)
    assert found > 12


def test_a_phrase_is_written_as_in_the_text(tokens):
    rows = stage.run(tokens, Yake(phrases=20)).to_pylist()
    phrases = {line["phrase"]: line for line in rows if line["text_id"] == 2}
    # The package leaves the clitic out: "world climate change".
    assert phrases["world's climate change"]["keyword"] == "world's climate change"
    words = tokens["token"].to_pylist()
    for line in rows:
        if line["rank"]:
            covered = "".join(words[line["text_id"]][line["token_start"]:line["token_end"]])
            assert "".join(covered.split()) == "".join(line["phrase"].split())
    assert {"São Paulo", "e-mail filters"} <= {line["phrase"].replace("\t", " ") for line in rows if line["phrase"]}


def test_ties_fall_by_idf(tokens):
    text = written("alpha gamma")
    idf = frequencies([["alpha"], ["alpha"], ["gamma"]])
    assert stage.run(text, Yake(ngrams=1))["keyword"].to_pylist() == ["alpha", "gamma"]
    assert stage.run(text, Yake(ngrams=1), idf)["keyword"].to_pylist() == ["gamma", "alpha"]


def project(folder, tokens, params):
    home = folder / "artifacts" / "data" / "toy"
    write_table(home / "tokens", SCHEMAS["tokens"], tokens, Provenance("annotate@toy", "0", models={"x": {}}))
    write_table(home / "items" / "examples", SCHEMAS["examples"], examples(("train", 0, 1, None)),
                Provenance("ingest@toy", "0"))
    Path("params.yaml").write_text(f"recipe: t\ndatasets: {{toy: {{source: x}}}}\n{params}\n")
    return home


def test_the_stage_writes_the_table_of_its_name(tokens, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = project(tmp_path, tokens, "keywords: {datasets: [toy], method: yake}")
    assert stage.main(["toy"]) == 0
    found = pq.read_table(home / "yake")
    idf = frequencies(tokens["token"].to_pylist()[:2])
    assert found.replace_schema_metadata(None).equals(stage.run(tokens, Yake(), idf).replace_schema_metadata(None))
    metadata = read_metadata(home / "yake")
    assert sum(metadata["counts"]["texts_by_status"].values()) == tokens.num_rows
    assert metadata["models"].keys() == {"x", "yake"} and "reason" not in metadata


@pytest.mark.parametrize("ranking", [stage, embedrank])
def test_a_table_that_nothing_reads_has_no_rows_and_a_reason(ranking, tokens, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    home = project(tmp_path, tokens, "keywords: {datasets: [toy], method: textrank}")
    name = ranking.__name__.rpartition(".")[2]
    monkeypatch.setattr(ranking_stage, "ranker_of", None)
    assert ranking.main(["toy"]) == 0
    path = home / name
    assert pq.read_table(path).num_rows == 0 and column_names(path) == SCHEMAS[name].arrow().names
    assert read_metadata(path)["reason"].startswith("keywords.method is textrank")
    with pytest.raises(InputError, match=f"{name}: was left without rows: keywords.method is textrank"):
        read_table(path, SCHEMAS[name])
    inspection.show(path, Console(width=200))
    assert "It has no rows: keywords.method is textrank" in capsys.readouterr().out
    for query, noted in ((f"SELECT * FROM {name}", True), ("SELECT * FROM tokens", False)):
        sql.run(query, None, None, "csv", None, Console())
        assert (f"{name} was left without rows: keywords.method is" in capsys.readouterr().err) == noted
