"""Stage ``keywords``: ties, fall-backs and counts."""

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ranking_tables import frequencies
from table_files import bytes_of

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.keywords import keywords
from stages.keywords.choice import ranking_columns, with_ranking
from stages.keywords.params import Keywords

ROOT = Path(__file__).resolve().parents[1]
STOPS = {"the", "a", "who"}
def tokens(texts):
    """Token table of texts that are words between spaces."""
    split = [text.split() for text in texts]
    lists = {"token": split, "lemma": split, "is_stop": [[word in STOPS for word in words] for words in split]}
    empty = [[] for _ in split]
    return pa.table({name: lists.get(name, list(range(len(split))) if name == "text_id" else empty)
                     for name in SCHEMAS["tokens"].arrow().names}, schema=SCHEMAS["tokens"].arrow())


def ranking(phrases):
    """Ranking from ``(text_id, keyword, score, start, end)``; a keyword None is a text without phrases."""
    rows = [{"text_id": text, "rank": 0 if word is None else place, "phrase": word, "keyword": word, "score": score,
             "token_start": start, "token_end": end, "status": "ok" if word else "no_candidate"}
            for place, (text, word, score, start, end) in enumerate(phrases, start=1)]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["textrank"].arrow())


def examples(*rows):
    """Examples from ``(split, source_id, target_id, negative_id)``."""
    frame = pd.DataFrame(rows, columns=["split", "source_id", "target_id", "negative_id"])
    frame["negative_id"] = frame["negative_id"].astype("Int64")
    return as_table(SCHEMAS["examples"], frame.assign(
        example_id=range(len(frame)), reference_ids=[[t] for t in frame["target_id"]], group=range(len(frame)),
        negative_origin="given"))


def attribution(rows):
    """Attribution from ``(text_id, mode, pair, words, scores)``."""
    names = SCHEMAS["attribution"].arrow().names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows],
                                schema=SCHEMAS["attribution"].arrow())


TABLE = tokens(["the red fox", "a red dog", "blue dog", "who ?", "green frog", "the toad"])
PHRASES = [(0, "red fox", 0.4, 1, 3), (1, "red", 0.3, 1, 2), (1, "dog", 0.3, 2, 3), (2, "dog", 0.2, 1, 2),
           (3, None, None, None, None), (4, "green frog", 0.2, 0, 2), (5, None, None, None, None)]
EXAMPLES = examples(("train", 1, 2, 0), ("train", 0, 2, 2), ("train", 2, 1, None), ("validation", 4, 5, 3),
                    ("test", 2, 5, 3))


def test_keywords_of_all_texts_and_their_counts():
    made = keywords.run(TABLE, ranking(PHRASES), EXAMPLES, Keywords())
    # "red" and "dog" tie in text 1, and each is in two of the three training texts: the earlier one.
    assert made.keywords.to_pylist() == [
        {"text_id": 0, "keyword": "red fox", "method": "textrank", "score": 0.4},
        {"text_id": 1, "keyword": "red", "method": "textrank", "score": 0.3},
        {"text_id": 2, "keyword": "dog", "method": "textrank", "score": 0.2},
        {"text_id": 3, "keyword": NO_KEYWORD, "method": "none", "score": None},
        {"text_id": 4, "keyword": "green frog", "method": "textrank", "score": 0.2},
        {"text_id": 5, "keyword": "toad", "method": "idf", "score": pytest.approx(math.log(4) + 1)}]
    assert made.counts == {
        "texts_by_method": {"idf": 1, "none": 1, "textrank": 4},
        "keywords": {"distinct": 5, "distinct_in_training": 3},
        "share_source_known": {"validation": 0.0, "test": 1.0}}
    assert made.fallbacks == ["1 texts have no ranked keyword: the word of highest IDF was taken",
                              "1 texts have no keyword at all"]


def test_attribution_takes_the_strongest_content_word_and_falls_back_elsewhere():
    rows = [(0, "xx", 0, ["the", "red", "fox"], [1.0, 0.2, 0.6]), (0, "xy", 1, ["the", "red", "fox"], [0, 1.0, 0]),
            (1, "xx", 1, ["a", "red", "dog"], [1.0, 0.5, 0.5])]
    made = keywords.run(TABLE, attribution(rows), EXAMPLES, Keywords(method="attribution"))
    found = made.keywords.to_pylist()
    assert found[0] == {"text_id": 0, "keyword": "fox", "method": "attribution", "score": pytest.approx(0.6)}
    assert (found[1]["keyword"], found[1]["method"]) == ("red", "attribution")
    assert (found[2]["keyword"], found[2]["method"]) == ("blue", "idf")
    assert made.fallbacks[0] == "4 texts have no row in table attribution: their keyword is by IDF"


def test_a_text_falls_back_only_where_no_word_of_it_was_scored():
    # text 0: its one content word is the weakest of those that the network saw; text 1: it saw none
    table = tokens(["the fox", "a red dog"])
    rows = [(0, "xx", 0, ["the", "fox"], [1.0, 0.0]), (1, "xx", 1, ["a", "red", "dog"], [0.0, 0.0, 0.0])]
    made = keywords.run(table, attribution(rows), examples(("train", 0, 1, None)), Keywords(method="attribution"))
    assert [(row["keyword"], row["method"], row["score"]) for row in made.keywords.to_pylist()] == [
        ("fox", "attribution", 0.0), ("red", "idf", pytest.approx(math.log(3 / 2) + 1))]
    assert made.counts["texts_by_method"] == {"attribution": 1, "idf": 1}
    assert made.fallbacks == ["1 texts have no ranked keyword: the word of highest IDF was taken"]


def psi(rows):
    """PSI from ``(text_id, mode, pair, words, scores, primary)``."""
    names = SCHEMAS["psi"].arrow().names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SCHEMAS["psi"].arrow())


def test_psi_takes_the_most_important_primary_content_word():
    rows = [(0, "xx", 0, ["the", "red", "fox"], [9.0, 3.0, 2.0], [True, False, True]),
            (0, "xy", 1, ["the", "red", "fox"], [0.0, 9.0, 0.0], [True, True, True]),
            (1, "xx", 1, ["a", "red", "dog"], [1.0, 0.5, 0.5], [True, False, False])]
    made = keywords.run(TABLE, psi(rows), EXAMPLES, Keywords(method="psi"))
    assert made.keywords.to_pylist()[0] == {"text_id": 0, "keyword": "fox", "method": "psi", "score": 2.0}
    # Text 1 was scored, but has no primary word.
    assert made.keywords.to_pylist()[1]["method"] == "idf"
    assert made.fallbacks[0] == "4 texts have no row in table psi: their keyword is by IDF"
    for text, message in ((0, "table psi: text 0 has 1 scores for 3 tokens"),
                          (9, "table psi: 1 texts, the first of them 9, are not in both tables")):
        with pytest.raises(InputError, match=message):
            keywords.run(TABLE, psi([(text, "xx", text, ["a"], [1.0], [True])]), EXAMPLES, Keywords(method="psi"))


def test_a_keyword_by_its_lemma_has_the_lemma_of_its_head():
    table = tokens(["the Red Foxes", "dogs'", "feet", "it"])
    lemmas = [["the", "red", "Fox"], ["dog"], ["foot"], ["it"]]
    table = table.set_column(2, "lemma", pa.array(lemmas))
    # Apostrophes are left out of the second keyword, so it does not end with its last token.
    phrases = ranking([(0, "red foxes", 0.4, 1, 3), (1, "dogs", 0.3, 0, 1), *((n, None, None, None, None)
                                                                            for n in (2, 3))])
    used = examples(("train", 0, 1, None))
    lemmatised = keywords.run(table, phrases, used, Keywords(lemmatize=True)).keywords.to_pylist()
    assert [row["keyword"] for row in lemmatised] == ["red fox", "dogs", "foot", "it"]
    plain = keywords.run(table, phrases, used, Keywords()).keywords.to_pylist()
    assert [row["keyword"] for row in plain] == ["red foxes", "dogs", "feet", "it"]


def test_labelled_texts_have_keywords_and_no_shares():
    labelled = as_table(SCHEMAS["labelled_examples"], {"example_id": range(6), "split": ["train"] * 3 + ["test"] * 3,
                                              "text_id": range(6), "label": ["a"] * 6})
    made = keywords.run(TABLE, ranking(PHRASES), labelled, Keywords())
    assert made.keywords["keyword"].to_pylist()[:3] == ["red fox", "red", "dog"]
    assert made.counts == {"texts_by_method": {"idf": 1, "none": 1, "textrank": 4},
                           "keywords": {"distinct": 5, "distinct_in_training": 3}}


def slow_choice(phrases, said, stops, idf):
    """The rule in words, for one text: score, IDF, position; then the rarest content word; then nothing."""
    ranked = sorted((phrase for phrase in phrases if phrase[1] > 0), key=lambda phrase: (
        -round(phrase[1], 9), -round(np.mean([idf.of(word) for word in said[phrase[2]:phrase[3]]]), 9), *phrase[2:4]))
    if ranked:
        return ranked[0][0], "textrank", ranked[0][1]
    words = sorted((-round(idf.of(word), 9), place) for place, word in enumerate(said)
                   if word.isalpha() and not stops[place])
    if words:
        word = said[words[0][1]]
        return word.lower(), "idf", idf.of(word)
    return NO_KEYWORD, "none", None


@pytest.mark.parametrize("seed", range(3))
def test_all_texts_at_once_are_chosen_as_a_loop_chooses_each(seed):
    draw = random.Random(seed)
    words = ["red", "Fox", "the", "dog", "x1", "who", "a", "blue"]
    table = tokens([" ".join(draw.choices(words, k=draw.randint(0, 7))) for _ in range(80)])
    phrases = []
    for text, said in zip(range(80), table["token"].to_pylist(), strict=True):
        starts = [draw.randrange(len(said)) for _ in range(draw.randint(0, 4))] if said else []
        phrases += [(text, said[start].lower(), draw.choice([0.0, 0.1, 0.3, 0.1 + 1e-12]), start, start + 1)
                    for start in starts] or [(text, None, None, None, None)]
    used = examples(*(("train", n, n + 1, None) for n in range(0, 40, 2)), ("test", 70, 71, 72))
    made = keywords.run(table, ranking(phrases), used, Keywords()).keywords.to_pylist()
    idf = frequencies(table["token"].to_pylist()[:40])
    for row, said, stops in zip(made, table["token"].to_pylist(), table["is_stop"].to_pylist(), strict=True):
        mine = [rest for text, *rest in phrases if text == row["text_id"] and rest[0] is not None]
        assert (row["keyword"], row["method"], row["score"]) == slow_choice(mine, said, stops, idf)


def test_rankings_come_piece_by_piece_beside_the_tokens():
    rows = ranking([*PHRASES[:5], *PHRASES[5:]]).select(ranking_columns("textrank"))
    whole = [(piece["text_id"].to_pylist(), found["text_id"].to_pylist()) for piece, found in
             with_ranking([TABLE.slice(0, 2), TABLE.slice(2, 3), TABLE.slice(5)],
                          [rows.slice(0, 2), rows.slice(2, 0), rows.slice(2, 1), rows.slice(3)], "textrank")]
    assert whole == [([0, 1], [0, 1, 1]), ([2, 3, 4], [2, 3, 4]), ([5], [5])]
    with pytest.raises(InputError, match="table textrank: 2 texts, the first of them 4"):
        list(with_ranking([TABLE.slice(0, 4)], [rows], "textrank"))
    assert [found.num_rows for _, found in with_ranking([TABLE], [], "attribution")] == [0]


def test_the_stage_reads_the_ranking_of_its_method_and_writes_the_same_bytes(tmp_path, monkeypatch, capsys):
    home = tmp_path / "artifacts" / "data" / "toy"
    origin = Provenance("x", "0", models={"spacy": "s"})
    write_table(home / "tokens", SCHEMAS["tokens"], TABLE, origin)
    write_table(home / "textrank", SCHEMAS["textrank"], ranking(PHRASES), origin)
    write_table(home / "items" / "examples", SCHEMAS["examples"], EXAMPLES, origin)
    (tmp_path / "params.yaml").write_text("recipe: t\ndatasets: {toy: {source: x}}\n")
    done = subprocess.run([sys.executable, "-m", "stages.run.processes", "stages.keywords.keywords", "toy"],
                          cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr
    outs = [home / "keywords", home / "metrics" / "keywords.json"]
    written = [bytes_of(path) for path in outs]
    # This process has another hash seed, drawn by chance.
    monkeypatch.chdir(tmp_path)
    assert keywords.main(["toy"]) == 0
    assert [bytes_of(path) for path in outs] == written
    assert json.loads(written[1])["texts_by_method"]["textrank"] == 4
    metadata = read_metadata(home / "keywords")
    assert metadata["models"] == {"spacy": "s"}
    assert len(metadata["fallbacks"]) == 2
    assert read_frame(home / "keywords", SCHEMAS["keywords"])["keyword"].tolist()[0] == "red fox"
    with Path("params.yaml").open("a") as handle:
        handle.write("keywords: {method: attribution}\n")
    assert keywords.main(["toy"]) == 1
    assert "data/toy/attribution: no such artifact" in capsys.readouterr().err
