"""Keywords of five methods beside each other: lists, agreement, parts of speech, picture."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ingest_rows import token_rows

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.seeds import flipped
from stages.common.tables import Provenance, read_metadata, read_table, write_table
from stages.keywords import keyword_comparison, yake
from stages.keywords.keyword_comparison import COLUMNS, Agreement, best
from stages.keywords.params import Yake
from stages.keywords.pos_frequency import COUNTED, FAMILIES, OTHER, Counted, counted_rows, frequency_table
from stages.tracks.pgkpr.items import fixed_masks

TEXTS = ["The oven burns bread", "Bread needs an oven", "She sings loudly"]
TAGS = [["DT", "NN", "VBZ", "NN"], ["NN", "VBZ", "DT", "NN"], ["PRP", "VBZ", "RB"]]
POS = [["DET", "NOUN", "VERB", "NOUN"], ["NOUN", "VERB", "DET", "NOUN"], ["PRON", "VERB", "ADV"]]


def tables():
    words = [text.split() for text in TEXTS]
    places = [list(range(len(row))) for row in words]
    tokens = pa.table(token_rows(
        range(3), words, lemma=[[w.lower() for w in row] for row in words], pos=POS, tag=TAGS, start=places, end=places,
        is_stop=[[w.lower() in ("the", "an", "she") for w in row] for row in words],
        sentence_start=[[True] + [False] * (len(row) - 1) for row in words]), schema=SCHEMAS["tokens"].arrow())
    textrank = pa.table({
        "text_id": [0, 0, 1, 2], "rank": [1, 2, 1, 0], "phrase": ["oven", "bread", "Bread", None],
        "keyword": ["oven", "bread", "bread", None], "score": [0.5, 0.4, 0.3, None], "token_start": [1, 3, 0, None],
        "token_end": [2, 4, 1, None], "status": ["ok", "ok", "ok", "no_candidate"]}, schema=SCHEMAS["textrank"].arrow())
    scores = {"text_id": [0, 0, 2], "mode": ["xx", "xy", "xx"], "pair": [0, 1, 2],
              "word": [words[0], words[0], words[2]]}
    attribution = pa.table({**scores, "score": [[0.9, 0.2, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.5, 1.0]]},
                           schema=SCHEMAS["attribution"].arrow())
    psi = pa.table({**scores, "score": [[0.0, 0.3, -0.1, 0.2], [0.0] * 4, [0.0, 0.05, 0.4]],
                    "primary": [[False, True, False, True], [False] * 4, [False, False, True]]},
                   schema=SCHEMAS["psi"].arrow())
    by_yake = yake.run(tokens, Yake())
    return {"tokens": tokens, "textrank": textrank, "attribution": attribution, "psi": psi, "yake": by_yake}


def examples():
    return pa.table({"example_id": [0, 1], "split": ["train", "test"], "source_id": [0, 2], "target_id": [1, 0],
                     "negative_id": pa.array([None, 1], pa.int64())})


def run(given, rows=None, top=2):
    """Return the table of the stage, of tables in any order, and what it counts."""
    ordered = {name: table.sort_by("text_id") for name, table in given.items()}
    made = [SCHEMAS["keyword_comparison"].arrow().empty_table()]
    found = keyword_comparison.run(lambda columns: [ordered["tokens"].select(columns)],
                             {name: [ordered[name].select(columns)] for name, columns in COLUMNS.items()},
                             examples() if rows is None else rows, top, "en", 1, made.append)
    return pa.concat_tables(made), found


def test_each_method_names_its_keywords():
    made = run(tables())[0].to_pylist()
    assert made[0]["textrank"] == ["oven", "bread"]
    assert made[0]["attribution"] == ["bread", "oven"]      # the stop word and the word of score 0 are left out
    assert made[0]["psi"] == ["oven", "bread"] and made[2]["psi"] == ["loudly"]     # "sings" is not primary
    assert made[0]["idf"] == ["burns", "oven"]              # in one training text of two; the others in both
    assert "bread" in made[0]["yake"][0]
    assert made[1]["attribution"] is None and made[1]["psi"] is None
    assert made[2]["textrank"] == []


def test_counts_say_how_far_methods_agree_and_where_tags_were_counted():
    counts = run(tables())[1].counts
    assert counts["texts_with_keywords"] == {"textrank": 2, "attribution": 2, "psi": 2, "yake": 3, "idf": 3}
    assert counts["agreement"]["textrank~psi"] == {"texts": 1, "same_best": 1.0, "shared_word": 1.0, "jaccard": 1.0}
    assert counts["agreement"]["textrank~attribution"]["same_best"] == 0.0
    assert counts["pos_frequency"] == {"split": "test", "sources": 1}


def test_agreement_by_hand():
    found = Agreement()
    found.add([["belly fat", "gym"], ["a"], None, []], [["fat", "belly"], ["b"], ["c"], ["d"]])
    assert found.shares() == {"texts": 2, "same_best": 0.0, "shared_word": 0.5, "jaccard": round((2 / 3 + 0) / 2, 6)}
    assert Agreement().shares() == {"texts": 0, "same_best": 0.0, "shared_word": 0.0, "jaccard": 0.0}


def test_best_words_are_distinct_and_ties_go_to_the_earlier():
    assert best([0, 1, 2, 3], ["Tea", "cup", "tea", "pot"], [0.5, 0.5, 0.9, 0.5], 3) == ["tea", "cup", "pot"]


def counted_in(given, sources, seed):
    """Keyword tokens by part of speech of ``sources`` (text by example), by method."""
    ids = np.array(list(sources.values()))
    counted = Counted("test", np.array(list(sources)), ids)
    table = frequency_table(counted_rows(given["tokens"], given, ids), counted, "en", seed)
    return {method: rows.set_index("pos") for method, rows in table.groupby("method")}


def test_parts_of_speech_are_counted_with_the_coins_that_the_models_read():
    """Examples of one source have coins of their own; each counts, whatever the order of the rows."""
    given, names = tables(), [40, 7, 8, 9]
    words, probabilities = TEXTS[0].split(), [0.9, 0.2, 0.0, 1.0]
    sources = dict.fromkeys(names, 0)
    rows = pd.DataFrame({"example_id": names, "source_words": [words] * 4,
                         "score_xx": [np.array(probabilities, dtype="f4")] * 4})
    expected, exact = dict.fromkeys((*FAMILIES, OTHER), 0), dict.fromkeys((*FAMILIES, OTHER), 0)
    for mask in fixed_masks(rows, "xx", 5):
        for tag, flipped_up in zip(TAGS[0], mask.tolist(), strict=True):  # DT, NN, VBZ, NN
            expected[{"DT": OTHER, "VBZ": "VB"}.get(tag, tag)] += flipped_up
            exact[tag if tag == "NN" else OTHER] += flipped_up
    counts = counted_in(given, sources, 5)
    found, total = counts["attribution"], sum(expected.values())
    assert found["keywords"].to_dict() == expected and found["exact_tag"].to_dict() == exact
    assert (found["keyword_share"] == round(total / 16, 6)).all()
    assert found["share"].to_dict() == {name: round(count / total, 6) for name, count in expected.items()}
    pd.testing.assert_frame_equal(found, counted_in(given, dict(reversed(sources.items())), 5)["attribution"])
    assert counts["attribution_expected"]["keywords"].sum() == pytest.approx(4 * sum(probabilities))
    assert counts["psi"]["keywords"].sum() == 4 * 2
    assert all((table[["keywords", "keyword_share"]] == 0).all(axis=None)
               for table in counted_in(given, {1: 1}, 5).values())  # was not scored
    with pytest.raises(InputError, match="table tokens: text 6 has no row"):
        counted_in(given, {1: 0, 2: 6}, 5)
    spaced = pa.Table.from_pylist([{"text_id": 0, "tag": ["NN", "_SP", "NN"], "pos": ["NOUN", "SPACE", "NOUN"],
                                    "score": [0.5, 0.0, 0.5], "primary": [True] * 3}], schema=COUNTED)
    table = frequency_table(spaced, Counted("test", np.array(names), np.zeros(4, dtype=int)), "en", 5)
    read = fixed_masks(rows.assign(score_xx=[np.full(2, 0.5)] * 4), "xx", 5)    # of words alone
    assert table.query("method == 'attribution' and pos == 'NN'")["keywords"].item() == np.concatenate(read).sum()
    masks = [flipped(np.full(30, 0.5), 5, "xx", name)[:17].tolist() for name in names]
    half = pd.DataFrame({"example_id": names, "source_words": [["w"] * 30] * 4, "score_xx": [np.full(30, 0.5)] * 4})
    assert masks == [mask.tolist() for mask in fixed_masks(half, "xx", 5, max_length=17)] and masks[0] != masks[1]


@pytest.mark.parametrize("texts", [1, 2])
def test_pieces_make_the_table_and_the_counts_of_the_whole(texts, monkeypatch):
    whole, counted = run(tables())
    pieces = keyword_comparison.pieces
    monkeypatch.setattr(keyword_comparison, "pieces", lambda batches: pieces(
        (batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)), texts))
    made, found = run(tables())
    assert made.combine_chunks().equals(whole.combine_chunks()) and found.counts == counted.counts
    pd.testing.assert_frame_equal(found.frequencies, counted.frequencies)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths, count = DatasetPaths("d"), 2
    for kind, table in tables().items():
        write_table(paths.table(kind), SCHEMAS[kind], table, Provenance(kind, "", {kind: {"from": "here"}}))
    more = {"reference_ids": [[]] * count, "group": [0] * count, "negative_origin": ["given"] * count}
    write_table(paths.table("examples"), SCHEMAS["examples"], {
        **{name: examples()[name] for name in examples().column_names}, **more}, Provenance("ingest", ""))
    write_params()
    return paths


def write_params():
    blocks = ("keywords", "attribution", "psi", "keyword_comparison")
    asked = "".join(f"{block}: {{datasets: [d]}}\n" for block in blocks)
    Path("params.yaml").write_text(f"recipe: r\ndatasets: {{d: {{source: raw}}}}\n{asked}")


def test_the_stage_reads_the_compared_methods_alone(project):
    assert keyword_comparison.main(["d"]) == 0
    made = read_table(project.table("keyword_comparison"), SCHEMAS["keyword_comparison"])
    assert made.column_names == ["text_id", "textrank", "attribution", "psi", "yake", "idf"]
    models = read_metadata(project.table("keyword_comparison"))["models"]
    assert set(models) == {"textrank", "attribution", "psi", "yake"}
