"""YAKE: the formulas by hand, the authors' program as an oracle, and the way from a text to its keyword."""

import math
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yake.data.core
from ranking_tables import by_chance, row, table
from stages.keywords.yake_scores import YakeRanking
from test_keywords import examples
from yake import KeywordExtractor

from pipeline.schemas import SCHEMAS
from stages.common.methods import METHODS
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.keywords import keywords
from stages.keywords import yake as stage
from stages.keywords.explanation import explain
from stages.keywords.params import Keywords, Yake
from stages.params import parse_params
from stages.ranking.blocks import TokenBlock
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError

STOPS = {"the", "of", "is", "and", "has", "this"}
WORDS = ["graph", "Graph", "graphs", "NASA", "Ada", "launches", "rocket", "Rockets", "the", "The", "of", "is", "this",
         "and", "has", ",", ".", "-", "...", "ab", "x1", "3.5", "1,000", "e-mail", "'s", "naïve", "🙂", "bus", "gas"]


def written(*texts):
    """Token table of texts that are words between spaces; a plural of a stop word is none."""
    return table([row(number, [(word, "NOUN") for word in text.split()], stops=STOPS)
                  for number, text in enumerate(texts)])


def phrases(tokens, **settings):
    """Phrases of the first text and the paper's S of each."""
    ranking = YakeRanking(**settings)
    solved = ranking.solve(block := TokenBlock(tokens), None)
    words = tokens["token"].to_pylist()[0]
    return {" ".join(word.lower() for word in words[start:end] if word != "'s"): 1 / score for start, end, score in zip(
        (solved.spans.start - block.offsets[0]).tolist(), solved.spans.end.tolist(), solved.score.tolist(),
        strict=True)}


def theirs(sentences, monkeypatch, window, longest):
    monkeypatch.setattr(yake.data.core, "tokenize_sentences", lambda text: sentences)
    extractor = KeywordExtractor(n=longest, window_size=window, top=10**6, dedup_lim=1.0, stopwords=STOPS)
    return dict(extractor.extract_keywords("any text"))


@pytest.mark.parametrize(("window", "longest"), [(1, 3), (2, 3), (1, 1), (3, 2)])
def test_phrases_and_scores_are_those_of_the_authors_program(window, longest, monkeypatch):
    draw = random.Random(window)
    for _ in range(60):
        sentences = [[draw.choice(WORDS) for _ in range(draw.randint(1, 14))] for _ in range(draw.randint(1, 4))]
        cells = [{"token": word, "opens": place == 0} for words in sentences for place, word in enumerate(words)]
        made = table([row(0, [(cell["token"], "NOUN") for cell in cells], stops=STOPS)])
        opens = pa.array([[cell["opens"] for cell in cells]], pa.list_(pa.bool_()))
        made = made.set_column(made.column_names.index("sentence_start"), "sentence_start", opens)
        kept = [[word for word in words if word != "'s"] for words in sentences]
        expected = theirs([words for words in kept if words], monkeypatch, window, longest)
        assert phrases(made, window=window, longest=longest) == pytest.approx(expected, rel=1e-12)


def test_a_phrase_by_hand():
    # One sentence of two words, each once: rel = 1 + 1 * 1 (one neighbour, on one side), freq = 1, spread = 1.
    position = math.log(math.log(3))
    word = position * 2 / (0 + 1 / 2 + 1 / 2)
    assert phrases(written("graph theory")) == pytest.approx(
        {"graph": word / (1 + word), "theory": word / (1 + word), "graph theory": word**2 / (1 + 2 * word)})


def test_a_stop_word_inside_counts_by_how_firmly_it_stands_there():
    found = phrases(written("theory of graphs , theory of words , state of mind"))
    assert "of" not in found and "theory of" not in found
    assert {"theory of graphs", "theory of words", "state of mind"} <= found.keys()
    # "of" always follows "theory" and always precedes "mind".
    assert found["theory of graphs"] == pytest.approx(found["theory of words"])


def test_almost_the_same_phrase_is_listed_once():
    ranking = stage.run(written("programming languages matter , a programming language matters here"), Yake())
    listed = ranking["keyword"].to_pylist()
    assert sum(phrase.startswith("programming language") and "matter" not in phrase for phrase in listed) == 1
    assert ranking["rank"].to_pylist() == list(range(1, len(listed) + 1))
    assert ranking["score"].to_pylist() == sorted(ranking["score"].to_pylist(), reverse=True)


@pytest.mark.parametrize(("text", "status"), [("", "empty_text"), (". , !", "no_candidate"), ("🙂", "no_candidate"),
                                              ("10 3.5", "no_candidate"), ("the of", "no_candidate")])
def test_texts_without_phrases_say_why(text, status):
    found = stage.run(written(text, "graph"), Yake()).to_pylist()
    assert (found[0]["rank"], found[0]["keyword"], found[0]["status"]) == (0, None, status)
    assert found[1]["keyword"] == "graph"


def test_chinese_words_of_two_characters_are_no_stop_words():
    tokens = table([row(0, [("东京", "PROPN"), ("很", "ADV"), ("大", "ADJ")])])
    assert stage.run(tokens, Yake(), language="zh")["keyword"].to_pylist() == ["东京"]
    assert stage.run(tokens, Yake())["status"].to_pylist() == ["no_candidate"]


def test_rows_of_a_text_depend_on_that_text_alone():
    tokens = by_chance(4, texts=80)
    whole = stage.run(tokens, Yake(phrases=100))
    alone = pa.concat_tables([stage.run(tokens.slice(place, 1), Yake(phrases=100)) for place in range(80)])
    assert whole.equals(alone)
    assert whole.equals(stage.run(tokens, Yake(phrases=100), workers=2))


def test_it_names_keywords_from_the_table_to_the_choice():
    texts = ["The rocket of NASA flies", "graph theory", "🙂", "of rockets"]
    tokens, params = written(*texts), Keywords(method="yake")
    made = keywords.run(tokens, stage.run(tokens, Yake()), examples(("train", 0, 1, 2), ("test", 3, 1, None)), params)
    assert made.keywords["method"].to_pylist() == ["yake", "yake", "none", "yake"]
    assert made.keywords["keyword"].to_pylist()[1:] == ["graph theory", "<nokw>", "rockets"]
    best = explain(tokens.slice(0, 1), YakeRanking(), method="yake")
    assert best.keyword == made.keywords["keyword"][0].as_py() and best.keyword_method == "yake"
    assert {node.word: node.kept for node in best.nodes} == {
        "the": False, "rocket": True, "of": False, "nasa": True, "flies": True}
    assert best.iterations is None and "window 1, phrases of at most 3 words" in best.settings


def test_the_stage_writes_the_table_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = Path("artifacts/toy")
    tokens = by_chance(7)
    write_table(home / "tokens.parquet", SCHEMAS["tokens"], tokens, Provenance("annotate@toy", "0", models={"x": {}}))
    write_table(home / "examples.parquet", SCHEMAS["examples"], examples(("train", 0, 1, None)),
                Provenance("ingest@toy", "0"))
    Path("params.yaml").write_text("recipe: t\ndatasets: {toy: {source: x}}\nkeywords: {method: yake}\n")
    assert stage.main(["toy"]) == 0
    found = pq.read_table(home / "yake.parquet")
    idf = InverseFrequency.over(tokens["token"].to_pylist()[:2])
    assert found.replace_schema_metadata(None).equals(stage.run(tokens, Yake(), idf).replace_schema_metadata(None))
    assert found.schema.names == SCHEMAS["textrank"].arrow().names
    counts = read_metadata(home / "yake.parquet")["counts"]
    assert set(counts) == {"texts_by_status"} and sum(counts["texts_by_status"].values()) == tokens.num_rows
    assert keywords.main(["toy"]) == 0
    assert set(read_frame(home / "keywords.parquet", SCHEMAS["keywords"])["method"]) <= {"yake", "idf", "none"}


def test_its_stage_exists_only_where_something_reads_it():
    labelled = {"source": "x.csv", "layout": "labelled", "columns": {"label": "class"}}
    content = {"recipe": "t", "datasets": {"mine": {"source": "x.csv"}, "classes": labelled}}
    assert parse_params(content, "t").ranked_datasets["yake"] == {}
    chosen = parse_params({**content, "keywords": {"method": "yake"}}, "t")
    assert list(chosen.ranked_datasets["yake"]) == ["mine", "classes"] and not chosen.ranked_datasets["psi"]
    compared = {**content, "datasets": {**content["datasets"], "mine": {"source": "x.csv", "side_by_side": True}}}
    assert list(parse_params(compared, "t").ranked_datasets["yake"]) == ["mine"]
    with pytest.raises(InputError, match="keywords.method: no value is called 'yak'; did you mean 'yake'"):
        parse_params({**content, "keywords": {"method": "yak"}}, "t")
    with pytest.raises(InputError, match="yake.longest"):
        parse_params({**content, "yake": {"longest": 4}}, "t")


def test_every_method_that_ranks_phrases_does_so():
    params = parse_params({"recipe": "t", "datasets": {"mine": {"source": "x.csv"}}}, "t")
    for method in METHODS.values():
        if method.ranks_phrases:
            ranker = method.ranker(getattr(params, method.name), "en")
            assert ranker(written("graph theory")).table.num_rows >= 1
            assert method.ranking(getattr(params, method.name), "en").described
