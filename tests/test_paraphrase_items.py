"""Pairs as words with tags and scores, and the vocabulary: facts, counts, bad inputs, the stage."""

import json
import shutil
from collections import namedtuple
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from ingest_rows import token_rows
from table_files import bytes_of

from keycontrast.errors import InputError
from keycontrast.text.tokens import pieces
from models import common as special
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.annotate.params import Annotate
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.tracks.pgkpr import paraphrase_items
from stages.tracks.pgkpr.items import PENN_WORD_TAGS, SPECIALS, Vocabulary, read_words

# Text ids are not positions. Text 20 has white space before its first word and after its last.
TEXTS = {
    10: [("What", "WP"), ("is", "VBZ"), ("HSC", "NNP"), ("?", ".")],
    20: [("  ", "_SP"), ("Explain", "VB"), ("the", "DT"), ("HSC", "NNP"), ("\n", "_SP")],
    30: [("A", "DT"), ("man", "NN"), ("is", "VBZ"), ("running", "VBG")],
    40: [("The", "DT"), ("man", "NN"), ("runs", "VBZ")],
    50: [("A", "DT"), ("runner", "NN")],
    60: [("Somebody", "NN"), ("is", "VBZ"), ("running", "VBG"), ("fast", "RB"), ("!", ".")],
    70: [("the", "DT"), ("[unk]", "NN"), ("man", "NN")],
    80: [("Whose", "WP$"), ("is", "VBZ"), ("zyzzyva", "NN"), ("``", "``")],
    90: [("\u3000", "_SP")],
}
# A pair, a group of five captions, a validation item, a test item.
EXAMPLES = [("train", 10, [20]), ("train", 30, [40, 50, 60, 70]), ("validation", 20, [10]), ("test", 80, [40])]

# (text, rank, first token, token behind the last): the best phrase of text 30 is "man is running", of 20 "HSC \n".
RANKED = ("text_id", "rank", "token_start", "token_end")
PHRASES = [(10, 1, 2, 3), (10, 2, 0, 1), (20, 1, 3, 5), (30, 1, 1, 4), (30, 2, 0, 2), (40, 1, 0, 2),
           (50, 0, None, None), (60, 1, 0, 1), (70, 1, 2, 3), (80, 2, 2, 3), (80, 1, 0, 1), (90, 0, None, None)]


def score(text, pair):
    """Some probabilities: the first token has 0, the last 1, those between hang on the pair."""
    count = len(TEXTS[text])
    return [0.5] if count == 1 else [0.0, *((text + pair) % 100 / 100 for _ in range(count - 2)), 1.0]


def primary(text, pair):
    return [(text + pair + place) % 3 == 0 for place in range(len(TEXTS[text]))]


def make_tables(examples=EXAMPLES, texts=TEXTS):
    """All tables that the stage reads, as schemas have them, scores for every source and reference."""
    count = len(examples)
    ids, nothing = sorted(texts), [None] * count
    frame = pd.DataFrame({
        "example_id": range(100, 100 + count), "split": [row[0] for row in examples],
        "source_id": [row[1] for row in examples], "target_id": [row[2][0] for row in examples],
        "negative_id": pd.array(nothing, dtype="Int64"),
        "reference_ids": [row[2] for row in examples], "group": range(7, 7 + count), "negative_origin": nothing})
    words, tags = ([[token[place] for token in texts[text]] for text in ids] for place in (0, 1))
    tokens = token_rows(ids, words, tag=tags)
    keys = sorted({(source, mode, other) for _, source, references in examples
                   for mode, others in (("xx", [source]), ("xy", references)) for other in others})
    columns = {"text_id": [key[0] for key in keys], "mode": [key[1] for key in keys], "pair": [key[2] for key in keys],
               "word": [[token for token, _ in texts[key[0]]] for key in keys]}
    sources = sorted({row[1] for row in examples})
    tagged = {"text_id": sources, "word": [[token for token, _ in texts[source]] for source in sources],
              "probability": [score(source, 3) for source in sources],
              "primary": [primary(source, 3) for source in sources]}
    phrases = {**{name: [row[place] for row in PHRASES] for place, name in enumerate(RANKED)},
               **dict.fromkeys(("phrase", "keyword"), ["x"] * len(PHRASES)), "score": [0.5] * len(PHRASES),
               "status": ["ok"] * len(PHRASES)}
    rows = {"examples": frame, "tokens": tokens, "s_tags": tagged, "textrank": phrases,
            "texts": {"text_id": ids, "text": [f"text {text}" for text in ids], "language": ["en"] * len(ids)},
            "attribution": {**columns, "score": [score(text, pair) for text, _, pair in keys]},
            "psi": {**columns, "score": [score(text, pair) for text, _, pair in keys],
                    "primary": [primary(text, pair) for text, _, pair in keys]}}
    return {kind: as_table(SCHEMAS[kind], content) for kind, content in rows.items()}


Joined = namedtuple("Joined", ("items", "vocabulary", "metrics", "fallbacks"))


def made(tables=None, vocabulary=8000, max_length=17, rows=1000):
    """Items, vocabulary, metrics and what is left out, of tables that are read some ``rows`` at a time."""
    ordered = {kind: table.sort_by([(key, "ascending") for key in SCHEMAS[kind].key])
               for kind, table in (tables or make_tables()).items()}
    pieces, written = {}, []
    for kind, table in ordered.items():
        pieces[kind] = partial(map, partial(table.slice, length=rows), range(0, table.num_rows, rows))
    told = paraphrase_items.run(pieces, vocabulary, max_length, written.append)
    return Joined(pa.concat_tables(written), *told)


def items(tables=None, **values):
    return as_table(SCHEMAS["paraphrase_items"], made(tables, **values).items).to_pandas()


def changed(table, name, change):
    """``table`` with each value of column ``name`` put through ``change``."""
    place = table.column_names.index(name)
    kind = table.schema.field(name).type
    return table.set_column(place, name, pa.array([change(value) for value in table[name].to_pylist()], kind))


def only(table, keep):
    return table.filter(pa.array([bool(keep(row)) for row in table.to_pylist()]))


def cut_into(monkeypatch, rows):
    """Have the stage join few pairs at a time."""
    monkeypatch.setattr(paraphrase_items, "pieces", lambda batches: pieces(batches, rows))
    monkeypatch.setattr(paraphrase_items, "PIECE", 32 * rows)


def test_every_reference_makes_a_row_and_captions_make_four():
    found = items()
    assert found[["example_id", "reference", "split", "group"]].to_numpy().tolist() == [
        [100, 0, "train", 7], *([101, place, "train", 8] for place in range(4)), [102, 0, "validation", 9],
        [103, 0, "test", 10]]
    assert found["source"].tolist() == ["text 10", *["text 30"] * 4, "text 20", "text 80"]
    assert found["target"].tolist() == [f"text {text}" for text in (20, 40, 50, 60, 70, 10, 40)]
    assert found.loc[found["example_id"] == 101, "target_words"].map(list).tolist() == [
        ["the", "man", "runs"], ["a", "runner"], ["somebody", "is", "running", "fast", "!"], ["the", "[unk]", "man"]]


def test_scores_are_those_of_the_pair_of_the_row_or_of_the_source_alone():
    found = items()
    for source, target, row in zip([10, 30, 30, 30, 30], [20, 40, 50, 60, 70], found.itertuples(), strict=False):
        assert row.score_xx.tolist() == np.float32(score(source, source)).tolist()
        assert row.score_xy.tolist() == np.float32(score(source, target)).tolist()
        assert row.primary_xx.tolist() == primary(source, source) and row.primary_s.tolist() == primary(source, 3)
        assert row.primary_xy.tolist() == primary(source, target)
    assert len({tuple(row) for row in found["score_xy"][1:5]}) == 4  # a caption is scored anew with each reference


def test_words_of_the_best_phrases_are_as_many_as_attribution_expects():
    found = items().drop_duplicates("example_id").set_index("example_id")
    assert [round(sum(row)) for row in found["score_xx"]] == [1, 2, 1, 2]
    # The head of a phrase comes first; white space is no word.
    assert found["primary_textrank"].map(list).to_dict() == {
        100: [False, False, True, False], 101: [False, False, True, True], 102: [False, False, True],
        103: [True, False, True, False]}
    tables = make_tables()
    tables["textrank"] = only(tables["textrank"], lambda row: row["rank"] != 2)
    assert items(tables)["primary_textrank"].iloc[-1].tolist() == [True, False, False, False]   # no other phrase
    # Of a text that is cut, as many of the words that are read.
    found, metrics = items(max_length=3).drop_duplicates("example_id"), made(max_length=3).metrics
    assert [round(sum(row[:3])) for row in found["score_xx"]] == [0, 1, 1, 1]
    assert [list(row) for row in found["primary_textrank"]] == [
        [False] * 4, [False, False, True, False], [False, False, True], [True, False, False, False]]
    assert metrics["test"]["primary_words"]["textrank"] == 1 and metrics["train"]["primary_words"]["textrank"] == 0.8


def test_white_space_is_no_word_and_its_scores_go_with_it():
    row = items().iloc[5]
    assert list(row["source_words"]) == ["explain", "the", "hsc"] and list(row["source_tags"]) == ["VB", "DT", "NNP"]
    assert row["score_xy"].tolist() == np.float32(score(20, 10)[1:-1]).tolist()
    assert row["primary_s"].tolist() == primary(20, 3)[1:-1]
    assert list(items().iloc[0]["target_words"]) == ["explain", "the", "hsc"]


def test_tags_are_of_the_text_as_written_and_words_in_lower_case():
    sentences = ["What does NASA do in May ?", "How can Polish people polish a table in Turkey ?"]
    cased, lower = (read_words(annotate.run(pa.table({"text_id": [1, 2], "text": texts, "language": ["en", "en"]}),
                                            Annotate()))
                    for texts in (sentences, [text.lower() for text in sentences]))
    assert cased.words.to_pylist() == lower.words.to_pylist() == [text.lower().split() for text in sentences]
    assert cased.tags[0].as_py()[2] == "NNP" and cased.tags.to_pylist() != lower.tags.to_pylist()


def test_texts_without_words_are_left_out_and_counted():
    tables = make_tables([*EXAMPLES, ("train", 90, [10]), ("train", 10, [90]), ("test", 40, [10, 90, 50])])
    found, result = items(tables), made(tables)
    assert found["example_id"].tolist() == [100, 101, 101, 101, 101, 102, 103, 106, 106]
    assert found["reference"].tolist()[-2:] == [0, 2]
    assert result.metrics["left_out"] == {"examples": 2, "references": 1}
    assert result.fallbacks == ["2 examples left out, because a text has no words",
                                "1 reference left out, because a text has no words"]
    assert made().fallbacks == [] and made().metrics["left_out"] == {"examples": 0, "references": 0}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_pieces_make_the_table_and_the_counts_of_the_whole(rows, monkeypatch):
    tables = make_tables([*EXAMPLES, ("train", 90, [10]), ("train", 10, [90]), ("test", 40, [10, 90, 50]),
                          ("train", 30, [40])])
    whole = made(tables, vocabulary=5, max_length=3)
    cut_into(monkeypatch, rows)
    cut = made(tables, vocabulary=5, max_length=3, rows=rows)
    assert cut.items.num_rows == 10 and cut.items.column("score_xy").num_chunks > 2
    assert cut.items.combine_chunks().equals(whole.items.combine_chunks())
    assert (cut.vocabulary, cut.metrics, cut.fallbacks) == (whole.vocabulary, whole.metrics, whole.fallbacks)


def test_words_are_the_most_frequent_of_training_pairs_ties_by_spelling():
    vocabulary = made().vocabulary
    words = {token: count for token, kind, count in zip(vocabulary.tokens, vocabulary.kinds, vocabulary.counts,
                                                        strict=True) if kind == "word"}
    # the source of four pairs counts once
    assert list(words.items())[:5] == [("is", 3), ("man", 3), ("the", 3), ("a", 2), ("hsc", 2)]
    assert list(words)[5:] == ["running", "!", "?", "explain", "fast", "runner", "runs", "somebody", "what"]
    assert words["running"] == 2 and "zyzzyva" not in words
    assert made(vocabulary=4).vocabulary.tokens[-4:] == ("is", "man", "the", "a")
    assert made(vocabulary=4).vocabulary.words_ids(["a", "hsc", "zyzzyva"])[1:] == [special.UNK] * 2


def test_a_word_spelt_like_a_special_token_or_a_tag_is_none():
    vocabulary = Vocabulary.counted({"[unk]": 9, "<s>": 8, "[.]": 7, "word": 1}, {".": 3}, 10)
    assert vocabulary.tokens[len(SPECIALS):] == ("[.]", "word")
    assert vocabulary.words_ids(["<s>", "</s>", "[.]", "word"]) == [special.UNK] * 3 + [8]
    assert made().vocabulary.words_ids(["[unk]"]) == [special.UNK]


def test_the_whole_tag_set_is_in_the_vocabulary():
    vocabulary = made(vocabulary=1).vocabulary
    tags = [token for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == "tag"]
    assert tags == sorted(tags, key=lambda token: token[1:-1]) and len(PENN_WORD_TAGS) == 36
    # All word tags, those that the released list lacks among them; punctuation that is seen, if only in the test split.
    assert set(tags) == {*(f"[{tag}]" for tag in PENN_WORD_TAGS), "[.]", "[``]"}
    assert special.UNK not in vocabulary.tag_ids(["WDT", "WP", "TO", "JJR", "JJS", "RBS", "EX", "NNPS", "WP$", "UH"])
    assert vocabulary.tag_ids(["nn", "[NN]", "no tag"]) == [special.UNK] * 3
    assert vocabulary.counts[vocabulary.tag_ids(["DT"])[0]] == 5  # the source of four pairs counts once
    assert vocabulary.counts[vocabulary.tag_ids(["WP$"])[0]] == 0


def test_metrics_are_means_and_shares_of_the_words_that_models_read():
    metrics = made(vocabulary=4, max_length=3).metrics  # the vocabulary: is, man, the, a
    train = metrics["train"]
    assert (train["pairs"], train["examples"], metrics["test"]["pairs"]) == (5, 2, 1)
    # read of sources: "what is hsc" once, "a man is" four times; of targets: 3, 3, 2, 3, 3 words
    assert train["source"] == {"words": 3.0, "outside_vocabulary": pytest.approx(2 / 15, abs=1e-6),
                               "cut": pytest.approx(5 / 20)}
    assert train["target"] == {"words": 2.8, "outside_vocabulary": pytest.approx(7 / 14), "cut": pytest.approx(2 / 16)}
    expected = [sum(score(source, target)[:3]) for source, target in ((10, 20), (30, 40), (30, 50), (30, 60), (30, 70))]
    assert train["expected_keywords"]["xy"] == pytest.approx(np.mean(expected), abs=1e-6)
    marked = [sum(primary(source, 3)[:3]) for source in (10, 30, 30, 30, 30)]
    assert train["primary_words"]["s"] == pytest.approx(np.mean(marked))
    assert metrics["vocabulary"] == {"words": 4, "tags": 38, "size": 49} and metrics["max_length"] == 3
    nothing = made(make_tables(EXAMPLES[:2])).metrics["test"]
    assert nothing["pairs"] == 0 and nothing["source"] == {"words": None, "outside_vocabulary": None, "cut": None}


@pytest.mark.parametrize(("table", "mode"), [("attribution", "xx"), ("psi", "xy")])
def test_a_mode_that_was_not_scored_is_named_with_its_param(table, mode):
    tables = make_tables()
    tables[table] = only(tables[table], lambda row: row["mode"] != mode)
    with pytest.raises(InputError, match=f"table {table}: no row is of mode {mode}, .*Add {mode} to {table}.modes"):
        made(tables)


@pytest.mark.parametrize(("table", "column", "change", "message"), [
    ("attribution", "score", lambda row: row[:-1], "table attribution: text 10 has values for 3 words, and 4 tokens"),
    ("textrank", "token_end", lambda end: 5 if end == 4 else end, "a phrase of text 30 ends after its last token"),
    ("textrank", "text_id", lambda text: 80 if text == 90 else text, "table textrank: text 90 has no row"),
    ("attribution", "score", lambda row: [*row[:-1], float("nan")], "score of text 10 holds nan, which is no probabil"),
    ("tokens", "tag", lambda row: row[:-1], "table tokens: text 10 has other numbers of tokens and of tags"),
    ("tokens", "tag", lambda row: ["" if tag == "RB" else tag for tag in row],
     "word 'fast' of text 60 has no tag, and 0 more have none. .*annotate.pipeline"),
    ("examples", "split", lambda _: "test", "the train split has no pair with words on both sides"),
])
@pytest.mark.parametrize("rows", [1, 1000])
def test_tables_that_do_not_fit_are_refused(table, column, change, message, rows, monkeypatch):
    cut_into(monkeypatch, rows)
    tables = make_tables()
    tables[table] = changed(tables[table], column, change)
    with pytest.raises(InputError, match=message):
        made(tables, rows=rows)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = DatasetPaths("tiny")
    for kind, rows in make_tables([*EXAMPLES, ("train", 90, [10])]).items():
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance("test", "0", {kind: {"from": "here"}}))
    write_params("s_tagger", "textrank")
    return paths


def write_params(keywords, by="attribution", joined=("psi", "s_tags", "textrank"), **more):
    params = {"recipe": "test", "datasets": {"tiny": {"source": "x"}},
              **{name: {"datasets": ["tiny"]} for name in ("keywords", "attribution", "psi", "s_tagger")},
              "paraphrase_items": {"max_length": 3, "datasets": {"tiny": {
                  kind: DatasetPaths("tiny").table(kind).as_posix() for kind in joined}}},
              "models": {"pgkpr": {"row": {"dataset": "tiny", "overrides": {"keywords": {"by": by}}}}},
              "runs": {"pgkpr": {"row": {"model": "row", "decode": {"keywords": keywords}}}}, **more}
    Path("params.yaml").write_text(yaml.safe_dump(params))


def test_stage_writes_items_vocabulary_and_metrics_the_same_bytes_twice(project):
    assert paraphrase_items.main(["tiny"]) == 0
    files = [project.table("paraphrase_items"), project.table("vocabulary"), project.metrics("paraphrase_items")]
    written = [bytes_of(file) for file in files]
    found = read_frame(files[0], SCHEMAS["paraphrase_items"])
    pd.testing.assert_frame_equal(found, items(make_tables([*EXAMPLES, ("train", 90, [10])]), max_length=3))
    assert list(found) == [name for name, _, _ in SCHEMAS["paraphrase_items"].fields]
    assert Vocabulary.from_frame(read_frame(files[1], SCHEMAS["vocabulary"])) == made().vocabulary
    metrics = json.loads(files[2].read_text())
    assert metrics["left_out"] == {"examples": 1, "references": 0} and metrics["train"]["source"]["cut"] == 0.25
    metadata = read_metadata(files[0])
    assert metadata["counts"] == metrics and metadata["fallbacks"] == [
        "1 example left out, because a text has no words"]
    assert set(metadata["models"]) == {"attribution", "psi", "s_tags", "textrank"}
    assert paraphrase_items.main(["tiny"]) == 0 and [bytes_of(file) for file in files] == written


def test_primary_words_that_no_model_reads_are_null_and_needed_by_nothing(project):
    for kind in ("psi", "s_tags", "textrank"):
        shutil.rmtree(project.table(kind))
    write_params("xx", joined=())
    assert paraphrase_items.main(["tiny"]) == 0
    found = read_frame(project.table("paraphrase_items"), SCHEMAS["paraphrase_items"])
    perhaps = ["primary_xx", "primary_xy", "primary_s", "primary_textrank"]
    assert found[perhaps].isna().all(axis=None) and found["score_xx"].notna().all()
    assert "primary_words" not in json.loads(project.metrics("paraphrase_items").read_text())["train"]
