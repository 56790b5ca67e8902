"""The shipped triples, captions and questions keep to their brief (data/sample/README.md)."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "data" / "sample"
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
    return objects("paraphrase.jsonl")


def objects(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def stems(text):
    words = set(re.findall(r"[a-z]+", text.lower())) - FUNCTION_WORDS
    return {re.sub(r"(ing|ies|ied|ed|es|s|y|e)$", "", word) for word in words}


def letters(text):
    return re.sub(r"[\W_]", "", text.lower())


def test_no_text_stands_twice(triples):
    keys = Counter(letters(triple[field]) for triple in triples for field in FIELDS)
    assert [key for key, count in keys.items() if count > 1] == []


def test_negatives_share_a_content_word_with_their_source(triples):
    strangers = [triple for triple in triples if not stems(triple["source"]) & stems(triple["negative"])]
    assert strangers == []
