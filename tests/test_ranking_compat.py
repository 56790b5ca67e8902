"""Two of the package's methods: agreement with it, and what ``compat: none`` corrects."""

import json
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
from ranking_tables import by_chance, row, table, tagged

from keycontrast.explain import explain
from keycontrast.ranking import Settings, rank
from keycontrast.ranking.package import package_component, rank_with_package
from keycontrast.text.pipelines import load_pipeline
from keycontrast.text.tokens import annotate_texts, token_table

ROOT = Path(__file__).resolve().parents[1]
METHODS = ["pytextrank", "positionrank"]
ALL = 1_000_000
# Repeated words, edges in both directions, several sentences, no nouns, an apostrophe, ties.
TEXTS = [
    "What is the best way to lose belly fat?", "Dog bites man. Man bites dog. The old dog bites the old man again.",
    "How do I become rich and famous, and why?", "Who are you?", "Rock'n'roll music and rock music differ.",
    "Graph methods rank words; words rank graph methods when methods of graphs rank.", "India", "Is it?", "",
    "Compatibility of systems of linear constraints over the set of natural numbers. Criteria of compatibility of a "
    "system of linear Diophantine equations, strict inequations, and nonstrict inequations are considered.",
]


def assert_agreement(tokens, method):
    """Same phrases and statuses in the same order (scores within 1e-9 tie), scores within 1e-6."""
    ours = rank(tokens, method, ALL, compat="pytextrank").to_pylist()
    theirs = rank_with_package(tokens, ALL, package_component(method)).to_pylist()
    assert len(ours) == len(theirs)
    names = ("text_id", "phrase", "keyword", "token_start", "token_end", "status", "rank")

    def tied(rows):
        tie, found = 0, []
        for place, line in enumerate(rows):
            before = rows[place - 1]
            tie += not place or line["rank"] <= 1 or before["score"] - line["score"] > 1e-9
            found.append((tie, *(line[name] for name in names[:-1])))
        return sorted(found, key=str)

    assert tied(ours) == tied(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine["text_id"], mine["rank"]) == (other["text_id"], other["rank"])
        assert mine["score"] == (other["score"] if other["score"] is None else pytest.approx(other["score"], abs=1e-6))


@pytest.fixture(scope="module")
def sample():
    lines = (ROOT / "data" / "sample" / "paraphrase.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)[field] for line in lines[:150] for field in ("source", "paraphrase")]
    texts += TEXTS + [" ".join(texts[start:start + 15]) for start in range(0, 60, 15)]
    return token_table(annotate_texts(load_pipeline("embedded"), range(len(texts)), texts))


@pytest.mark.parametrize("method", METHODS)
def test_real_texts(sample, method):
    assert_agreement(sample, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_texts_by_chance(method, seed):
    assert_agreement(by_chance(seed, texts=50, longest=80), method)


@pytest.mark.parametrize("method", METHODS)
def test_hand_made_edge_cases(method):
    words = [("We", "PRON"), ("saw", "VERB"), ("us", "NOUN"), ("and", "CCONJ"), ("us", "NOUN"), ("all", "NOUN")]
    overlapping = row(6, [("a", "NOUN"), ("b", "NOUN"), ("c", "NOUN")])
    overlapping |= {"chunk_start": [0, 0, 1, 1], "chunk_end": [2, 3, 3, 1]}
    assert_agreement(table([
        row(0, []), row(1, [("'", "NOUN"), ("is", "AUX"), ("odd", "ADJ")]), row(2, words, stops={"us", "all"}),
        row(3, [("Dog", "NOUN"), (".", "PUNCT"), ("dog", "NOUN"), (".", "PUNCT"), ("dogs", "NOUN", "dog", "NNS")]),
        row(4, [("of", "ADP"), ("the", "DET")]), row(5, [("run", "VERB")] * 5), overlapping]), method)


def test_scores_by_hand():
    # One node: PageRank 1. The phrase is as long as its lemmas, so sqrt(1 / 1) * 1 / (1 + 1).
    found = rank(tagged("Cats/NOUN ./PUNCT"), "pytextrank").to_pylist()[0]
    assert found == {"text_id": 0, "rank": 1, "phrase": "Cats", "keyword": "cats", "score": pytest.approx(0.5),
                     "token_start": 0, "token_end": 1, "status": "ok"}
    # Two nodes share: 1/2 each. "belly fat" has both: sqrt((1/2 + 1/2) / 2) * 2 / (2 + 1).
    found = rank(tagged("Belly/NOUN Fat/NOUN"), "pytextrank").to_pylist()[0]
    assert (found["keyword"], found["score"]) == ("belly fat", pytest.approx(0.5**0.5 * 2 / 3))


def test_the_package_overwrites_weights_and_ours_adds_them():
    # "a b" twice and "b a" once, in three sentences: the package's weight is that of the direction it met last.
    tokens = tagged("a/NOUN b/NOUN ./PUNCT a/NOUN b/NOUN ./PUNCT b/NOUN a/NOUN ./PUNCT a/NOUN c/NOUN")
    weights = {compat: [weight for *_, weight in explain(tokens, Settings("pytextrank", compat)).edges]
               for compat in ("none", "pytextrank")}
    assert weights == {"none": [3.0, 1.0], "pytextrank": [1.0, 1.0]}


def expected_graph(record, lookback=3):
    """The package's graph, with co-occurrences of both directions added."""
    graph, held = nx.Graph(), []
    for lemma, pos, opens in zip(record["lemma"], record["pos"], record["sentence_start"], strict=True):
        held = [] if opens else held
        if pos in {"ADJ", "NOUN", "PROPN", "VERB"}:
            node = f"{lemma} {pos}"
            graph.add_node(node)
            for other in held[-lookback:]:
                graph.add_edge(other, node, weight=graph.get_edge_data(other, node, {"weight": 0})["weight"] + 1)
            held.append(node)
    return graph


@pytest.mark.parametrize("method", METHODS)
def test_corrected_scores_are_pagerank_to_the_tolerance(method):
    for record in by_chance(4, texts=25).to_pylist():
        found = explain(table([record]), Settings(method))
        graph = expected_graph(record)
        restart = dict.fromkeys(graph, 1.0)
        if method == "positionrank":
            kept = [lemma for lemma, pos in zip(record["lemma"], record["pos"], strict=True)
                    if pos in {"ADJ", "NOUN", "PROPN", "VERB"}]
            restart = {node: sum(1 / place for place, lemma in enumerate(kept, start=1)
                                 if lemma == node.rpartition(" ")[0]) for node in graph}
        exact = nx.pagerank(graph, personalization=restart, tol=1e-14, max_iter=1000) if len(graph) else {}
        assert {node.word: node.score for node in found.nodes} == pytest.approx(exact, abs=1e-9)
        assert found.residual <= 1e-11
        assert len(found.edges) == graph.number_of_edges()


def test_corrected_ties_fall_by_position_not_by_alphabet():
    tokens = tagged("zebra/NOUN ,/PUNCT apple/NOUN")
    assert [line["keyword"] for line in rank(tokens, "pytextrank").to_pylist()] == ["zebra", "apple"]
    assert [line["keyword"] for line in rank(tokens, "pytextrank", compat="pytextrank").to_pylist()] == [
        "apple", "zebra"]


def test_ranking_needs_neither_spacy_nor_the_package():
    program = ("import sys, keycontrast.ranking, keycontrast.explain\n"
               "import stages.keywords.textrank, stages.keywords.keywords\n"
               "heavy = {'spacy', 'pytextrank', 'torch', 'networkx'} & set(sys.modules)\nassert not heavy, heavy\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
