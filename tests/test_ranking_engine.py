"""The default ranking: its properties, and a slow loop written from the paper."""

import math
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from ranking_tables import by_chance, row, table, tagged

from keycontrast.explain import explain
from keycontrast.ranking import Settings, rank, ranker
from keycontrast.ranking.blocks import blocks
from keycontrast.ranking.selection import InverseFrequency

IDF = InverseFrequency(9, Counter({"graph": 7, "word": 2, "fast": 3, "text": 2, "ada": 1, "rank": 2}))
PRINTED = Settings("mihalcea")


def scores(tokens, **settings):
    return {node.word: node.score for node in explain(tokens, Settings(**{"method": "mihalcea", **settings})).nodes}


def slow(record, window=2, idf=None):
    """Mihalcea and Tarau's ranking in plain loops, scores by solving the linear system."""
    tokens = [n for n, word in enumerate(record["token"]) if word.strip()]
    useful = {n for n in tokens if record["pos"][n] in {"NOUN", "PROPN", "ADJ"} and record["token"][n] not in "'-"}
    word = {n: record["token"][n].lower() for n in useful}
    nodes = list(dict.fromkeys(word[n] for n in tokens if n in useful))
    weight = np.zeros((len(nodes), len(nodes)))
    for i, first in enumerate(tokens):
        for second in tokens[i + 1:i + window]:
            if first in useful and second in useful and word[first] != word[second]:
                a, b = nodes.index(word[first]), nodes.index(word[second])
                weight[a, b] += 1
                weight[b, a] += 1
    degree = np.where(weight.sum(axis=0) > 0, weight.sum(axis=0), 1)
    solved = np.linalg.solve(np.eye(len(nodes)) - 0.85 * weight / degree, np.full(len(nodes), 0.15))
    score = dict(zip(nodes, solved, strict=True))

    def rarity(words):
        return 0 if idf is None else round(np.mean([idf.of(one) for one in words]), 9)

    best = sorted(nodes, key=lambda one: (-round(score[one], 9), -rarity([one]), nodes.index(one)))
    kept = set(best[:max(1, math.ceil(len(nodes) / 3))])
    runs, last = [], None
    for place, n in enumerate(tokens):
        if n in useful and word[n] in kept:
            if last == place - 1:
                runs[-1].append(n)
            else:
                runs.append([n])
            last = place
    phrases = {}
    for run in runs:
        name = "".join(record["token"][n] + " " * (record["start"][n + 1] > record["end"][n] if n < run[-1] else 0)
                       for n in range(run[0], run[-1] + 1))
        found = (sum(score[word[n]] for n in run), rarity([record["token"][n] for n in range(run[0], run[-1] + 1)]),
                 run[0], run[-1] + 1)
        phrases.setdefault(" ".join(name.lower().split()), found)
    ordered = sorted(phrases.items(), key=lambda item: (-round(item[1][0], 9), -item[1][1], item[1][2]))
    return [(name, start, end, pytest.approx(total, abs=1e-9)) for name, (total, _, start, end) in ordered]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("window", "idf"), [(None, None), (None, IDF), (4, IDF), (10, None)])
def test_the_engine_agrees_with_the_loop(seed, window, idf):
    tokens = by_chance(seed)
    found = {}
    for line in rank(tokens, "mihalcea", phrases=1000, window=window, idf=idf).to_pylist():
        found.setdefault(line["text_id"], []).append(line)
    for record in tokens.to_pylist():
        expected = slow(record, window or 2, idf)
        mine = [(line["keyword"], line["token_start"], line["token_end"], line["score"])
                for line in found[record["text_id"]] if line["rank"]]
        assert mine == expected, record["token"]
        assert [line["rank"] for line in found[record["text_id"]]] == list(range(1, len(mine) + 1)) or not mine


def test_no_one_and_two_candidates():
    rows = rank(tagged("Who/PRON are/VERB you/PRON", "Dogs/NOUN bark/VERB", "old/ADJ dogs/NOUN bark/VERB",
                       "dogs/NOUN see/VERB Cats/NOUN"), "mihalcea").to_pylist()
    assert [(line["text_id"], line["rank"], line["keyword"], line["status"]) for line in rows] == [
        (0, 0, None, "no_candidate"), (1, 1, "dogs", "ok"), (2, 1, "old", "ok"), (3, 1, "dogs", "ok")]
    assert [line["score"] for line in rows] == [None, pytest.approx(0.15), pytest.approx(1.0), pytest.approx(0.15)]


def test_a_repeated_word_is_one_node_and_no_neighbour_of_itself():
    found = explain(tagged("dog/NOUN dog/NOUN Dog/NOUN"), PRINTED)
    assert [(node.word, node.tokens) for node in found.nodes] == [("dog", (0, 1, 2))]
    assert found.edges == ()
    assert found.nodes[0].score == pytest.approx(0.15)
    # The phrase has three members.
    assert [(one.keyword, one.score) for one in found.phrases] == [("dog dog dog", pytest.approx(0.45))]
    counted = explain(tagged("old/ADJ dog/NOUN ,/PUNCT dog/NOUN old/ADJ"), PRINTED)
    assert counted.edges == ((0, 1, 2.0),)


def test_ties_fall_by_idf_and_then_by_position():
    tokens = tagged("common/NOUN sees/VERB rare/NOUN sees/VERB odd/NOUN sees/VERB middle/NOUN")
    assert [one["keyword"] for one in rank(tokens, "mihalcea").to_pylist()] == ["common", "rare"]
    idf = InverseFrequency(10, Counter({"common": 9, "middle": 2, "rare": 1, "odd": 1}))
    assert [one["keyword"] for one in rank(tokens, "mihalcea", idf=idf).to_pylist()] == ["rare", "odd"]


def test_emoji_and_mixed_scripts():
    tokens = table([
        row(0, [("I", "PRON"), ("love", "VERB"), ("🍕", "NOUN")]),
        row(1, [("Київ", "PROPN"), ("東京", "PROPN"), ("ÉCOLE", "NOUN"), ("-", "NOUN"), ("👩‍🔬", "NOUN")]),
        row(2, [("—", "NOUN"), ("!!", "ADJ")])])
    rows = rank(tokens, "mihalcea", phrases=9).to_pylist()
    # A lone symbol is a word if the tagger says so, punctuation is not.
    assert [(line["text_id"], line["keyword"], line["status"]) for line in rows] == [
        (0, "🍕", "ok"), (1, "київ 東京", "ok"), (2, None, "no_candidate")]
    assert list(scores(tokens.slice(1, 1))) == ["київ", "東京", "école", "👩‍🔬"]


def test_what_has_not_converged_says_so_and_keeps_its_phrases():
    tokens = tagged("a/NOUN b/NOUN c/NOUN", "a/NOUN b/NOUN")
    rows = rank(tokens, "mihalcea", max_iterations=3).to_pylist()
    assert [(line["text_id"], line["keyword"], line["status"]) for line in rows] == [
        (0, "b", "not_converged"), (1, "a", "ok")]
    made = ranker(Settings("mihalcea", max_iterations=3), 5)(tokens)
    assert made.report.texts == Counter({"ok": 1, "not_converged": 1})
    # A text that has not converged does not speak for those that have.
    assert made.report.as_counts() == {"texts_by_status": {"ok": 1, "not_converged": 1}, "iterations": 3,
                                       "residual": 0.0}


def test_chinese_has_the_candidates_and_the_window_of_jieba():
    words = [("北京", "ns"), ("的", "uj"), ("大学", "n"), ("很", "d"), ("好", "v"), ("研究", "vn"), ("喜欢", "v"),
             ("小明", "nr")]
    tokens = table([row(0, [(word, "X", word, tag) for word, tag in words], [False] * len(words))])
    found = explain(tokens, Settings("mihalcea", language="zh"))
    assert [node.word for node in found.nodes] == ["北京", "大学", "研究", "喜欢"]
    # Five tokens: at most four apart. "好" has one character, "小明" is a person's name.
    assert [(found.nodes[first].word, found.nodes[second].word) for first, second, _ in found.edges] == [
        ("北京", "大学"), ("大学", "研究"), ("大学", "喜欢"), ("研究", "喜欢")]
    assert "window 5" in found.settings
    assert [one.phrase for one in found.phrases] == ["大学", "研究"]


@pytest.mark.parametrize("method", ["mihalcea", "pytextrank", "positionrank"])
def test_a_text_ranks_the_same_alone_among_others_and_in_other_blocks(method, monkeypatch):
    tokens = by_chance(11)
    settings = {"method": method, "idf": IDF}
    whole = rank(tokens, **settings)
    assert pa.concat_tables([rank(tokens.slice(n, 1), **settings) for n in range(tokens.num_rows)]).equals(whole)
    assert rank(tokens.take(pa.array(range(tokens.num_rows - 1, -1, -1))), **settings).equals(whole)
    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["keycontrast.ranking.ranker"], "blocks", lambda table: blocks(table, 50))
    assert rank(tokens, **settings).equals(whole)
