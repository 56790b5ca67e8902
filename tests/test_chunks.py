"""Noun chunks with adjectives, the ranking without a graph, and phrases that keep their words."""

import math

import pytest
from ranking_tables import frequencies, row, table, tagged

from keycontrast.keywords import Keywords
from keycontrast.ranking import Settings, rank, ranker
from keycontrast.ranking.chunks import with_chunks
from keycontrast.text.annotators import load_annotator
from keycontrast.text.tokens import token_table
from stages.keywords import textrank
from stages.keywords.params import TextRank


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


def test_whole_runs_keep_what_the_best_third_cuts():
    # a is nearer to the middle than its neighbours, and one word of three is kept.
    tokens = tagged("What/PRON is/AUX black/ADJ money/NOUN ?/PUNCT", "a/NOUN b/NOUN c/NOUN x/VERB d/NOUN")
    cut = rank(tokens, "mihalcea")["keyword"].to_pylist()
    whole = rank_whole(tokens)
    assert cut[0] == "black" and whole[0] == "black money"
    assert all(any(part in keyword.split() for keyword in whole) for part in cut[1].split())


def rank_whole(tokens):
    return ranker(Settings("mihalcea", whole=True), 5)(tokens).table["keyword"].to_pylist()
