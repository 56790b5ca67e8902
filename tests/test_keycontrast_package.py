"""The package ``keycontrast``: rankings and graphs for other programs, beside modules of theirs with our names."""

import doctest
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import islice, repeat

import networkx as nx
import pandas as pd
import pyarrow as pa
import pytest

from keycontrast import InputError, Keywords, keyword_graph
from keycontrast.text.normal_form import normal_form
from keycontrast.text.pipelines import load_pipeline

TEXTS = ["Black money in New York helps nobody.", "The distributed system keeps a copy of each file.", "", "Why not?",
         "A dog chases a red ball in New York."]


@pytest.mark.parametrize("module", ["keycontrast", "keycontrast.keywords", "keycontrast.graph",
                                    "keycontrast.text.pipelines"])
def test_the_examples_of_the_documentation_are_true(module):
    failed, tried = doctest.testmod(import_module(module))
    assert tried and not failed


def test_spans_are_characters_of_the_text():
    found = Keywords().rank(TEXTS)
    assert len(found) == 5 and found[2] == [] and found[3] == []
    for text, phrases in zip(TEXTS, found, strict=True):
        assert [phrase.rank for phrase in phrases] == list(range(1, len(phrases) + 1))
        assert all(text[phrase.start:phrase.end] == phrase.text for phrase in phrases)
    assert found[0][0].keyword == "black money" and found[0][0].start == 0
    assert found[3:] == [found[3], found[4]] and "5 texts" in repr(found)
    assert found.to_pandas()["row"].tolist() == [0] * len(found[0]) + [1] * len(found[1]) + [4] * len(found[4])


def test_whatever_holds_texts_is_read():
    expected = Keywords().rank(TEXTS).table
    for held in (tuple(TEXTS), iter(TEXTS), pd.Series(TEXTS), pa.array(TEXTS),
                 pa.chunked_array([TEXTS[:2], TEXTS[2:]])):
        assert Keywords().rank(held).table.equals(expected)
    nlp = load_pipeline("embedded")
    assert Keywords().rank(list(nlp.pipe(TEXTS))).table.equals(expected)
    other = load_pipeline("embedded")  # another vocabulary
    assert Keywords().rank([nlp(TEXTS[0]), other(TEXTS[1]), nlp(""), *other.pipe(TEXTS[3:])]).table.equals(expected)
    alone = Keywords().rank(TEXTS[0])
    assert len(alone) == 1 and alone[0] == Keywords().rank(nlp(TEXTS[0]))[0] == Keywords().rank([TEXTS[0]])[0]
    assert len(Keywords().rank([])) == 0 and Keywords().rank([]).table.num_rows == 0


def test_a_stream_of_any_length_gives_what_a_list_gives():
    fitted = Keywords(min_count=2, diversity=0.3).fit(iter(TEXTS))
    assert list(fitted.stream(iter(TEXTS), top=2)) == list(Keywords(min_count=2, diversity=0.3).rank(TEXTS, top=2))
    for options in ({}, {"diversity": 0.3}, {"ngram_range": (2, 3)}):
        ranking = Keywords(**options).fit(TEXTS)
        assert ranking.rank(TEXTS).table.equals(Keywords(**options).rank(TEXTS).table) and ranking.rank(TEXTS)[0]
    endless = fitted.stream(repeat(TEXTS[0]))
    many = list(islice(endless, 2500))
    assert len(many) == 2500 and many[2400] == many[0] == fitted.rank(TEXTS[0])[0]
    with pytest.raises(InputError, match="call fit"):
        next(Keywords().stream(TEXTS))


def test_threads_give_what_one_thread_gives():
    texts = [[f"{text} Number {number}." for text in TEXTS] for number in range(8)]
    expected = [Keywords().rank(some).table for some in texts]
    shared = Keywords()

    def ranked(turn):
        ranking = shared if turn % 2 else Keywords()
        return ranking.rank(texts[turn % 8]).table.equals(expected[turn % 8])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ranked, range(200)))


@pytest.mark.parametrize("pair", [
    ("power inverter", "power in\u00adverter"), ("keyboard driver", "\u200bkeyboard driver"),
    ("caf\u00e9", "cafe\u0301"), ("efficient heater", "e\ufb03cient heater"),
    ("abc heater", "\uff21\uff22\uff23 heater"), ("red ball", "red\u00a0ball"),
    ("solid-state battery", "solid\u2011state battery"), ("stra\u00dfe", "STRASSE"), ("ball", "\u202aball\u202c")])
def test_a_keyword_has_one_form_however_it_is_encoded(pair):
    assert normal_form(pair[0]) == normal_form(pair[1]) == normal_form(normal_form(pair[1]))


def test_options_that_users_of_keybert_know():
    assert [phrase.keyword for phrase in Keywords(min_count=2).rank(TEXTS)[4]] == ["new york"]
    assert all(" " in phrase.keyword for phrases in Keywords(ngram_range=(2, 3)).rank(TEXTS) for phrase in phrases)
    # Of more than five words only where a text has no others.
    long = "senior java backend software engineer position"
    assert [one.keyword for one in Keywords().rank(long)[0]] == [long]
    assert long not in [one.keyword for one in Keywords().rank(f"We fill a {long}. The dog barks.")[0]]
    run = "学校图书馆电脑网络数据管理系统技术研究报告问题。苹果很好吃。"    # nine words without a space
    assert [one.text for one in Keywords(language="zh").rank(run)[0]] == ["苹果"]
    near = "A deep neural network, a neural network, a deep network. The weather in Spain is fine."
    first = [phrase.keyword for phrase in Keywords().rank([near, "Else."], top=3)[0]]
    wide = [phrase.keyword for phrase in Keywords(diversity=0.7).rank([near, "Else."], top=3)[0]]
    assert first[0] == wide[0] == "deep neural network" and {"weather", "spain"} <= set(wide) and first != wide
    assert "weather" in [phrase.keyword for phrase in Keywords("embedrank", diversity=0.9).rank([near], top=3)[0]]


@pytest.mark.parametrize("texts", [[None, "A red ball.", float("nan")], pd.Series([None, "A red ball.", None]),
                                   pa.array([None, "A red ball.", None])])
def test_nulls_may_be_left_out_and_keep_their_places(texts):
    ranking = Keywords(on_null="skip")
    found = ranking.rank(texts)
    assert len(found) == 3 and found.skipped == 2 and found[0] == found[2] == []
    assert found.table["row"].to_pylist() == [1] and list(ranking.fit(texts).stream(texts)) == list(found)
    assert found[1][0].score == Keywords().rank("A red ball.")[0][0].score
    assert keyword_graph(texts, keywords=ranking).nodes["keyword"].to_pylist() == ["red ball"]


def test_a_text_of_one_word_many_times_costs_the_graph_no_more_than_its_length():
    nodes = keyword_graph(["A dog and a cat.", "A dog.", "GOAL " * 4000]).nodes
    assert nodes["keyword"].to_pylist()[:2] == ["cat", "dog"]


def test_markup_points_and_apostrophes_make_no_other_phrase():
    texts = ["Take vitamin C.", "She took vitamin C daily.", "A red ball. The red ball of O'Neill.",
             "A cat, a dog and a mouse saw big houses and O\u2019Neill carried a <b>red</b> ball."]
    nodes = keyword_graph(texts, top=1).nodes.to_pandas().set_index("keyword")["texts"]
    assert nodes["vitamin c"] == nodes["red ball"] == 2 and "vitamin c." not in nodes
    assert keyword_graph(texts).nodes.to_pandas().set_index("keyword")["texts"]["oneill"] == 2


def test_the_graph_joins_phrases_that_share_a_text(tmp_path):
    made = keyword_graph(["A dog chases a ball.", "The ball hits a window.", "The ball of a dog."], neighbours=1)
    graph = made.networkx()
    assert {n: graph.nodes[n]["centrality"] for n in graph} == pytest.approx(nx.pagerank(graph), rel=1e-4)
    assert graph["ball"]["dog"]["weight"] == 2 and not graph.has_edge("dog", "window")
    assert graph.nodes["ball"]["texts"] == 3 and repr(made).startswith("<keyword graph: ")
    made.graphml(tmp_path / "g.graphml")
    read = nx.read_graphml(tmp_path / "g.graphml")
    assert nx.utils.nodes_equal(read.nodes(data=True), graph.nodes(data=True))
    assert nx.utils.edges_equal(read.edges(data=True), graph.edges(data=True))
    assert keyword_graph([]).nodes.num_rows == 0
    assert set(keyword_graph(["Black money."], keywords=Keywords("yake")).nodes["keyword"].to_pylist()) > {"money"}
