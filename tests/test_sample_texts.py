"""The shipped triples keep to their brief (data/sample/README.md)."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
FIELDS = ("source", "paraphrase", "negative")
# Words too common to carry content; enough for a check that errs on the strict side.
_WORDS = """
    a about after all also am an and any are as at be been before being but by can could did do does for from had
    has have he her his how i if in into is it its just may me might more most must my no not of on once one or our
    out over own she should so some than that the their them then there these they this to too up us was we were
    what when where which while who why will with without would you your t s m d ll re ve
"""
FUNCTION_WORDS = set(_WORDS.split())


@pytest.fixture(scope="module")
def triples():
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def stems(text):
    words = set(re.findall(r"[a-z]+", text.lower())) - FUNCTION_WORDS
    return {re.sub(r"(ing|ies|ied|ed|es|s|y|e)$", "", word) for word in words}


def test_there_are_enough_triples_and_topics(triples):
    topics = Counter(triple["topic"] for triple in triples)
    assert len(triples) >= 600
    assert len(topics) >= 60
    assert min(topics.values()) >= 8


def test_no_text_stands_twice(triples):
    keys = Counter(re.sub(r"[\W_]", "", triple[field].lower()) for triple in triples for field in FIELDS)
    assert [key for key, count in keys.items() if count > 1] == []


def test_negatives_share_a_content_word_with_their_source(triples):
    strangers = [triple for triple in triples if not stems(triple["source"]) & stems(triple["negative"])]
    assert strangers == []


def test_paraphrases_are_rewritten_rather_than_copied(triples):
    def overlap(triple):
        one, two = stems(triple["source"]), stems(triple["paraphrase"])
        return len(one & two) / len(one | two)

    assert sum(overlap(triple) for triple in triples) / len(triples) < 0.5


def test_sentences_open_in_many_ways(triples):
    openings = Counter(" ".join(triple["source"].split()[:2]) for triple in triples)
    assert openings.most_common(1)[0][1] / len(triples) < 0.1
