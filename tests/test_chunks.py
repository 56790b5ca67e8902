"""Noun chunks with adjectives, the ranking without a graph, and phrases that keep their words."""

import math

import pyarrow as pa
import pytest
from ranking_tables import by_chance, row, table, tagged

from stages.ranking import rank
from stages.ranking.chunks import DOCUMENT, with_chunks
from stages.ranking.selection import InverseFrequency
from stages.runtime.errors import InputError


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


def test_participles_hyphens_and_line_ends_join():
    assert chunks([("distributed", "VERB", "distribute", "VBN"), ("system", "NOUN")]) == ["distributed system"]
    assert chunks([("running", "VERB", "run", "VBG"), ("system", "NOUN")]) == ["system"]
    words = [("state", "NOUN"), ("-", "PUNCT"), ("of", "ADP"), ("-", "PUNCT"), ("art", "NOUN"), ("tool", "NOUN")]
    assert chunks(words, [False, False, False, False, True, True]) == ["state - of - art tool"]
    assert chunks(words) == ["state", "art tool"]  # dashes with spaces part
    line = [("graph", "NOUN"), ("\n", "SPACE"), ("theory", "NOUN")]
    assert chunks(line) == ["graph \n theory"]
    assert chunks([line[0], ("\n\n", "SPACE"), line[2]]) == ["graph", "theory"]


def test_auto_changes_the_chunks_of_documents_alone():
    short, long = "old/ADJ bike/NOUN", " ".join(["old/ADJ bike/NOUN"] + ["is/AUX"] * (DOCUMENT - 2))
    tokens = tagged(short, long, short)
    made = with_chunks(tokens, "auto")
    assert made["chunk_start"].to_pylist() == [[1], [0], [1]]
    assert made["chunk_end"].to_pylist() == [[2]] * 3
    assert with_chunks(tokens, "annotated") is tokens
    assert with_chunks(tagged(short), "auto").equals(tagged(short))


def test_a_rankings_phrases_are_its_chunks():
    tokens = tagged("black/ADJ money/NOUN is/AUX old/ADJ")
    for method in ("pytextrank", "positionrank", "topicrank", "tfidf"):
        assert rank(tokens, method)["keyword"].to_pylist() == ["money"]
        assert rank(tokens, method, chunks="adjectives")["keyword"].to_pylist() == ["black money"]
    with pytest.raises(InputError, match="textrank.chunks: found 'adjective'; did you mean 'adjectives'"):
        rank(tokens, "pytextrank", chunks="adjective")


def test_tfidf_is_its_formula():
    tokens = tagged("rare/ADJ word/NOUN and/CCONJ plain/NOUN ,/PUNCT rare/ADJ word/NOUN")
    idf = InverseFrequency.over([["word"], ["plain"], ["word"], ["none"]])
    found = rank(tokens, "tfidf", chunks="adjectives", idf=idf).to_pylist()
    of = idf.of
    assert [(one["keyword"], one["score"]) for one in found] == [
        ("rare word", pytest.approx(math.sqrt(2) * (of("rare") + of("word")) / 10 ** 0.25)),
        ("plain", pytest.approx(of("plain") / 13 ** 0.25))]
    assert [one["score"] for one in rank(tokens, "tfidf", chunks="adjectives").to_pylist()] == [
        pytest.approx(math.sqrt(2) * 2 / 10 ** 0.25), pytest.approx(1 / 13 ** 0.25)]


def test_tfidf_takes_any_text_alone_or_among_others():
    tokens, idf = by_chance(5), InverseFrequency.over([["graph", "text"], ["text"]])
    whole = rank(tokens, "tfidf", chunks="adjectives", idf=idf)
    assert pa.concat_tables([rank(tokens.slice(n, 1), "tfidf", chunks="adjectives", idf=idf)
                             for n in range(tokens.num_rows)]).equals(whole)
    assert set(whole["status"].to_pylist()) == {"ok", "empty_text", "no_candidate"}


def test_whole_runs_keep_what_the_best_third_cuts():
    # a is nearer to the middle than its neighbours, and one word of three is kept.
    tokens = tagged("What/PRON is/AUX black/ADJ money/NOUN ?/PUNCT", "a/NOUN b/NOUN c/NOUN x/VERB d/NOUN")
    cut = rank(tokens)["keyword"].to_pylist()
    whole = rank_whole(tokens)
    assert cut[0] == "black" and whole[0] == "black money"
    assert all(any(part in keyword.split() for keyword in whole) for part in cut[1].split())


def rank_whole(tokens):
    from stages.ranking import Settings, ranker

    return ranker(Settings(whole=True), 5)(tokens).table["keyword"].to_pylist()
