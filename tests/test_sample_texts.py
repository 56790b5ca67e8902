"""The shipped triples, captions and questions keep to their brief (data/sample/README.md)."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from statistics import mean

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


def overlap(one, two):
    """Content words that two texts share, of those that either has."""
    one, two = stems(one), stems(two)
    return len(one & two) / len(one | two)


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


def test_paraphrases_are_rewritten_rather_than_copied(triples):
    assert mean(overlap(triple["source"], triple["paraphrase"]) for triple in triples) < 0.5


def test_sentences_open_in_many_ways(triples):
    openings = Counter(" ".join(triple["source"].split()[:2]) for triple in triples)
    assert openings.most_common(1)[0][1] / len(triples) < 0.1


def test_every_scene_has_five_captions_of_seven_to_fourteen_words(scenes):
    assert len(scenes) >= 120
    assert {group for group, captions in scenes.items() if len(captions) != 5} == set()
    assert [text for captions in scenes.values() for text in captions if not 7 <= len(text.split()) <= 14] == []


def test_no_caption_stands_twice_in_one_scene_or_two(scenes):
    keys = Counter(letters(text) for captions in scenes.values() for text in captions)
    assert [key for key, count in keys.items() if count > 1] == []


def test_captions_share_words_within_a_scene_and_hardly_between_scenes(scenes):
    within = mean(overlap(*pair) for captions in scenes.values() for pair in combinations(captions, 2))
    texts = [(group, text) for group, captions in scenes.items() for text in captions[:2]]
    between = mean(overlap(one, two) for (here, one), (there, two) in combinations(texts, 2) if here != there)
    assert within > 10 * between


def test_captions_of_a_scene_are_told_by_different_people(scenes):
    pairs = [pair for captions in scenes.values() for pair in combinations(captions, 2)]
    assert max(overlap(*pair) for pair in pairs) < 0.7
    openings = [[" ".join(text.lower().split()[:3]) for text in captions] for captions in scenes.values()]
    assert all(len(set(group)) == 5 for group in openings)


def test_each_caption_shares_a_word_with_another_of_its_scene(scenes):
    strangers = [text for captions in scenes.values() for text in captions
                 if not any(stems(text) & stems(other) for other in captions if other != text)]
    assert strangers == []


def test_captions_open_in_many_ways(scenes):
    openings = Counter(" ".join(text.split()[:2]) for captions in scenes.values() for text in captions)
    assert openings.most_common(1)[0][1] / openings.total() < 0.1


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


def test_questions_have_four_to_twenty_words_and_open_in_many_ways(questions):
    assert [question for question in questions if not 4 <= len(question["text"].split()) <= 20] == []
    openings = Counter(" ".join(question["text"].split()[:2]) for question in questions)
    assert openings.most_common(1)[0][1] / openings.total() < 0.1


def test_questions_stand_in_mixed_order(questions):
    """A split by lines would have every class in each of its parts."""
    tenths = [questions[start:start + 66] for start in range(0, 660, 66)]
    assert all(len({question["label"] for question in part}) == 6 for part in tenths)


def test_first_words_do_not_give_the_class_away(questions):
    """Whoever looks at the first word alone is often wrong: by it, the classes overlap."""
    classes = {}
    for question in questions:
        classes.setdefault(question["text"].split()[0].lower(), Counter())[question["label"]] += 1
    right = sum(found.most_common(1)[0][1] for found in classes.values())
    assert right / len(questions) < 0.75
