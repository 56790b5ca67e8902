"""Stage ``textrank`` and its noun chunks: the same bytes whoever does the work, and what it records."""

import json
import math
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ranking_tables import by_chance, frequencies, row, table, tagged
from table_files import bytes_of

from keycontrast.keywords import Keywords
from keycontrast.ranking import Settings, rank
from keycontrast.ranking.chunks import with_chunks
from keycontrast.ranking.package import docs, pytextrank
from keycontrast.text.annotate import load_annotator
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import token_table
from pipeline.schemas import SCHEMAS
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.keywords import textrank
from stages.keywords.params import TextRank

ROOT = Path(__file__).resolve().parents[1]
HOME = Path("artifacts/data/toy")
PARAMS = "recipe: t\ndatasets: {{toy: {{source: x}}}}\nruntime: {{workers: {}}}\n"


def triples(*rows):
    """Examples from ``(split, source_id, target_id, negative_id)``."""
    frame = pd.DataFrame(rows, columns=["split", "source_id", "target_id", "negative_id"])
    return frame.assign(example_id=range(len(frame)), reference_ids=[[t] for t in frame["target_id"]], group=0,
                        negative_origin=None)


def project(folder, tokens, examples, kind="examples", workers=1):
    write_table(folder / HOME / "tokens", SCHEMAS["tokens"], tokens,
                Provenance("annotate@toy", "0", models={"spacy": {"name": "x"}}))
    write_table(folder / HOME / "items" / "examples", SCHEMAS[kind], examples, Provenance("ingest@toy", "0"))
    (folder / "params.yaml").write_text(PARAMS.format(workers))


def test_workers_and_hash_seeds_do_not_change_a_byte(tmp_path, monkeypatch):
    tokens = by_chance(1)
    many = pa.concat_tables([tokens.set_column(0, "text_id", pa.array(range(n * 60, n * 60 + 60), pa.int64()))
                             for n in range(80)])  # more than one piece
    project(tmp_path, many, triples(("train", 0, 1, None), ("test", 2, 3, 4)), workers=2)
    ranking = tmp_path / HOME / "textrank"
    done = subprocess.run([sys.executable, "-m", "stages.run.processes", "stages.keywords.textrank", "toy"],
                          cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    two = bytes_of(ranking)
    shutil.rmtree(ranking)
    # This process has another hash seed, drawn by chance.
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS.format(1))
    assert textrank.main(["toy"]) == 0
    assert bytes_of(ranking) == two
    metadata = read_metadata(HOME / "textrank")
    assert metadata["models"] == {"spacy": {"name": "x"}}
    assert sum(metadata["counts"]["texts_by_status"].values()) == many.num_rows
    assert 1 < metadata["counts"]["iterations"] <= 100
    assert metadata["counts"]["residual"] <= 1e-11
    idf = frequencies(many["token"].to_pylist()[:2])
    assert pq.read_table(ranking).replace_schema_metadata(None).equals(
        rank(many, idf=idf).replace_schema_metadata(None))


@pytest.mark.parametrize(("examples", "kind", "best"), [
    (triples(("train", 1, 2, None), ("test", 0, 3, None)), "examples", "rare"),
    (triples(("train", 0, 3, None), ("test", 1, 2, None)), "examples", "common"),
    (pd.DataFrame({"example_id": range(4), "split": ["test", "train", "train", "test"], "text_id": range(4),
                   "label": "a"}), "labelled_examples", "rare")])
def test_ties_fall_by_idf_over_the_texts_of_training_examples(examples, kind, best, tmp_path, monkeypatch):
    tokens = tagged("common/NOUN sees/VERB rare/NOUN", "common/NOUN", "common/NOUN", "rare/NOUN")
    project(tmp_path, tokens, examples, kind)
    monkeypatch.chdir(tmp_path)
    assert textrank.main(["toy"]) == 0
    assert read_frame(HOME / "textrank", SCHEMAS["textrank"])["keyword"].iloc[0] == best


@pytest.mark.parametrize("method", ["pytextrank", "positionrank"])
def test_the_package_itself_ranks_into_the_same_table(method, tmp_path, monkeypatch):
    project(tmp_path, by_chance(3, texts=30), triples(("train", 0, 1, None)), workers=2)
    chosen = {"method": method, "phrases": 4, "window": 4}
    with (tmp_path / "params.yaml").open("a") as file:
        file.write(f"textrank: {json.dumps({**chosen, 'engine': 'package'})}\n")
    monkeypatch.chdir(tmp_path)
    assert textrank.main(["toy"]) == 0
    theirs = read_frame(HOME / "textrank", SCHEMAS["textrank"])
    ours = rank(by_chance(3, texts=30), compat="pytextrank", **chosen).to_pandas()
    assert len(theirs) == len(ours) > 30
    assert theirs[["text_id", "rank", "status"]].equals(ours[["text_id", "rank", "status"]])
    assert theirs["score"].to_numpy() == pytest.approx(ours["score"].to_numpy(), abs=1e-6, nan_ok=True)
    metadata = read_metadata(HOME / "textrank")
    assert metadata["models"] == {"spacy": {"name": "x"}, "pytextrank": {"version": version("pytextrank")}}
    # The package does not tell how far its iteration went.
    assert metadata["counts"].keys() >= {"texts_by_status"} and "iterations" not in metadata["counts"]


@pytest.mark.parametrize("settings", [{"method": "topicrank"}, {"method": "biasedtextrank", "focus": "graph word"}])
def test_methods_of_the_package_alone(settings):
    tokens = by_chance(3, texts=20)
    found = textrank.run(tokens, TextRank(**settings, engine="package", phrases=4)).to_pylist()
    plain = textrank.run(tokens, TextRank(engine="package", phrases=4)).to_pylist()
    assert found != plain and {row["status"] for row in found} >= {"ok"}
    topics = settings["method"] == "topicrank"
    component = pytextrank.TopicRankFactory() if topics else pytextrank.BiasedTextRankFactory()
    for text, doc in docs(tokens):
        if len(doc):
            ranked = component(doc)._.textrank
            phrases = doc._.phrases if topics else ranked.change_focus("graph word", 1.0, 0.0)
            assert [(row["keyword"], row["score"]) for row in found if row["text_id"] == text and row["rank"]] == [
                (normal_form(phrase.text), phrase.rank) for phrase in phrases if normal_form(phrase.text)][:4]


def chunks(words, spaces=None, kind="adjectives"):
    made = with_chunks(table([row(0, words, spaces)]), kind).to_pylist()[0]
    return [" ".join(made["token"][start:end]) for start, end in
            zip(made["chunk_start"], made["chunk_end"], strict=True)]


def words_of(text):
    return [tuple(item.rsplit("/", 1)) for item in text.split()]


@pytest.mark.parametrize(("text", "found"), [
    ("fight/VERB black/ADJ money/NOUN", ["black money"]),
    ("in/ADP New/ADJ York/PROPN", ["New York"]),
    ("Vicks/PROPN Vapor/ADJ Rub/NOUN helps/VERB", ["Vicks Vapor Rub"]),
    ("it/PRON is/AUX new/ADJ and/CCONJ money/NOUN", ["money"]),
    ("money/NOUN black/ADJ", ["money"]),
    ("new/ADJ", []),
    ("", [])])
def test_chunks_keep_the_adjectives_before_their_noun(text, found):
    assert chunks(words_of(text)) == found


WHOLE = {"How can I reduce my belly fat?": "belly fat", "How can I get rid of belly fat in a month?": "belly fat",
         "How do I lose belly fat?": "belly fat", "Why does my bread dough not rise overnight?": "bread dough",
         "What is black money?": "black money", "Does demonetisation stop black money in India?": "black money",
         "What is it like to live in New York?": "new york", "Is New York safe at night?": "new york",
         "What is Vicks Vapor Rub used for?": "vicks vapor rub", "How do I use Vicks Vapor Rub?": "vicks vapor rub"}


def test_the_keywords_of_short_questions_keep_their_words_by_default():
    """As the stage has them, and as `keycontrast keywords` does."""
    columns = load_annotator("embedded", "en").columns(range(len(WHOLE)), list(WHOLE))
    stage = textrank.run(token_table(columns), TextRank(phrases=1))
    command = Keywords().rank(list(WHOLE), top=1).table
    for found in (stage, command):
        assert dict(zip(WHOLE, found["keyword"].to_pylist(), strict=True)) == WHOLE


def test_auto_changes_the_chunks_but_of_chinese_and_of_the_package():
    tokens = tagged("old/ADJ bike/NOUN", " ".join(["old/ADJ bike/NOUN"] + ["is/AUX"] * 100), "is/AUX")
    made = with_chunks(tokens, "auto")
    assert made["chunk_start"].to_pylist() == [[0], [0], []] and made["chunk_end"].to_pylist() == [[2], [2], []]
    assert made.equals(with_chunks(tokens, "adjectives")) and made.equals(Settings().chunked(tokens))
    assert with_chunks(tokens, "annotated") is tokens
    assert with_chunks(tokens, "auto", "zh") is tokens and Settings(language="zh").chunked(tokens) is tokens
    assert Settings(compat="pytextrank").chunked(tokens) is tokens
    assert Settings(engine="package").chunked(tokens) is tokens
    assert Settings(compat="pytextrank", chunks="adjectives").chunked(tokens).equals(made)


def test_tfidf_is_its_formula():
    tokens = tagged("rare/ADJ word/NOUN and/CCONJ plain/NOUN ,/PUNCT rare/ADJ word/NOUN")
    idf = frequencies([["word"], ["plain"], ["word"], ["none"]])
    found = rank(tokens, "tfidf", chunks="adjectives", idf=idf).to_pylist()
    of = idf.of
    assert [(one["keyword"], one["score"]) for one in found] == [
        ("rare word", pytest.approx(math.sqrt(2) * (of("rare") + of("word")) / 10 ** 0.25)),
        ("plain", pytest.approx(of("plain") / 13 ** 0.25))]
    assert [one["score"] for one in rank(tokens, "tfidf", chunks="adjectives").to_pylist()] == [
        pytest.approx(math.sqrt(2) * 2 / 10 ** 0.25), pytest.approx(1 / 13 ** 0.25)]
