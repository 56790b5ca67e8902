"""Outputs as people write them: words joined, capitals of a text, of other texts, of sentences and of "I"."""

import pyarrow as pa
import pytest

from stages.tracks.common.readable import forms_of, readable, readable_text, written_forms


@pytest.mark.parametrize(("words", "expected"), [
    ("do n't eat the dog !", "Don't eat the dog!"),
    ("i 'm sure , i ca n't . what now ?", "I'm sure, I can't. What now?"),
    ("nasa 's money ( $ 5 ) is 3.5 %", "NASA's money ($5) is 3.5%"), ("", ""), ("?", "?"), ("3 ways", "3 ways"),
    ("a step - by - step and / or", "A step-by-step and/or"), ('the " best " way', 'The "best" way')])
def test_words_are_written_as_people_write(words, expected):
    assert readable(words.split(), {"nasa": "NASA"}) == expected


def test_chinese_has_no_spaces_and_german_no_capital_i():
    assert readable(["我", "i", "好", "New", "York", "3", "月"], {}, "zh") == "我i好New York 3月"
    assert readable(["an", "i", "haus"], {"haus": "Haus"}, "de") == "An i Haus"


def test_a_text_says_how_its_words_are_written_but_at_the_beginning():
    def found(text, starts=(0,)):
        tokens = text.split()
        return forms_of(tokens, [place in starts for place in range(len(tokens))])

    assert found("What does NASA do in May ?") == {"nasa": "NASA", "may": "May"}
    assert found("NASA is far . Where is iPhone ?", (0, 4)) == {"nasa": "NASA", "iphone": "iPhone"}
    assert found("How To Learn A Language") == {} and found("WHAT IS THE BEST WAY") == {}
    assert found("Is Paris") == {"paris": "Paris"}


def test_a_text_of_pieces_takes_the_capitals_of_its_source():
    source = "Two men visit Paris. They don't see 3.5 kilometres of the U.S."
    assert readable_text("the men don't see paris, or 3.5 of it. two do", source, {"men": "Men"}) == (
        "The Men don't see Paris, or 3.5 of it. Two do")
    assert readable_text("你 好 。", "", {}, "zh") == "你好。"


def test_texts_say_how_a_word_is_mostly_written():
    texts = [(1, ["Apple", "and", "Apple"]), (2, ["an", "apple", "Paris"]), (3, ["Paris"]), (9, ["an", "AND", "AND"])]
    table = pa.table({"text_id": [number for number, _ in texts], "token": [tokens for _, tokens in texts],
                      "sentence_start": [[place == 0 for place in range(len(tokens))] for _, tokens in texts]})
    # Text 9 does not count, beginnings neither, and of as many of both kinds it is small letters.
    assert written_forms([table, table.slice(0, 0)], [1, 2, 3]) == {"paris": "Paris"}
    assert written_forms([table], [9]) == {"and": "AND"}
