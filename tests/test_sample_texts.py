"""The shipped triples, captions and questions keep to their brief (data/sample/README.md)."""

import json
import re
from collections import Counter
from itertools import combinations
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


@pytest.fixture(scope="module")
def scenes():
    """Captions of each scene."""
    found = {}
    for line in objects("captions.jsonl"):
        assert sorted(line) == ["group", "text"]
        found.setdefault(line["group"], []).append(line["text"])
    return found


def objects(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def stems(text):
    words = set(re.findall(r"[a-z]+", text.lower())) - FUNCTION_WORDS
    return {re.sub(r"(ing|ies|ied|ed|es|s|y|e)$", "", word) for word in words}


def letters(text):
    return re.sub(r"[\W_]", "", text.lower())


def test_there_are_enough_triples_and_topics(triples):
    topics = Counter(triple["topic"] for triple in triples)
    assert len(triples) >= 600
    assert len(topics) >= 60
    assert min(topics.values()) >= 8


def test_no_text_stands_twice(triples):
    keys = Counter(letters(triple[field]) for triple in triples for field in FIELDS)
    assert [key for key, count in keys.items() if count > 1] == []


def test_negatives_share_a_content_word_with_their_source(triples):
    strangers = [triple for triple in triples if not stems(triple["source"]) & stems(triple["negative"])]
    assert strangers == []


def test_every_scene_has_five_captions_of_seven_to_fourteen_words(scenes):
    assert len(scenes) >= 120
    assert {group for group, captions in scenes.items() if len(captions) != 5} == set()
    assert [text for captions in scenes.values() for text in captions if not 7 <= len(text.split()) <= 14] == []


def test_no_caption_stands_twice_in_one_scene_or_two(scenes):
    keys = Counter(letters(text) for captions in scenes.values() for text in captions)
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.fixture(scope="module")
def questions():
    return objects("questions.jsonl")


def test_questions_have_six_classes_of_like_size(questions):
    assert all(sorted(question) == ["label", "text"] for question in questions)
    sizes = Counter(question["label"] for question in questions)
    assert set(sizes) == {"advice", "comparison", "definition", "explanation", "method", "place_time"}
    assert min(sizes.values()) >= 100
    assert sizes.total() >= 600


def test_no_question_stands_twice_or_nearly_so(questions):
    keys = Counter(letters(question["text"]) for question in questions)
    assert [key for key, count in keys.items() if count > 1] == []
    words = [(set(re.findall(r"[a-z]+", question["text"].lower())), question["text"]) for question in questions]
    near = [(here, there) for (one, here), (other, there) in combinations(words, 2)
            if len(one & other) > 0.62 * len(one | other)]
    assert near == []
