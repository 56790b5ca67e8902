"""Chinese through jieba: exact places, flags and what they map to, sentences, noun chunks, no cache."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from keycontrast.choice import _by_words
from keycontrast.keywords import Keywords
from keycontrast.text.annotate import load_annotator
from keycontrast.text.chinese import universal
from keycontrast.text.tokens import token_table

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def reader():
    return load_annotator("embedded", "zh")


def row(reader, text):
    return token_table(reader.columns([0], [text])).to_pylist()[0]


def test_offsets_are_exact_in_random_mixtures(reader):
    pieces = ["中国", "人民", "的", " ", "  ", "\n", "\r\n", "\u3000", "a", "b1", "1.5", ".", "。", "！",
              "😀", "é", "か", "#", "𠮷", "-"]
    draw = random.Random(0)
    texts = ["".join(draw.choices(pieces, k=draw.randrange(12))) for _ in range(300)]
    table = token_table(reader.columns(range(300), texts))
    for text, one in zip(texts, table.to_pylist(), strict=True):
        assert [text[start:end] for start, end in zip(one["start"], one["end"], strict=True)] == one["token"]
        covered = {place for start, end in zip(one["start"], one["end"], strict=True) for place in range(start, end)}
        assert all(text[place] == " " for place in set(range(len(text))) - covered)


@pytest.mark.parametrize(("word", "flag", "expected"), [
    ("苹果", "n", "NOUN"), ("花", "nrfg", "PROPN"), ("地", "uv", "PART"), (".", "m", "PUNCT"), ("+", "x", "SYM"),
    ("😀", "x", "SYM"), ("\n", "x", "SPACE"), ("\u200d", "x", "X"), ("词", "nqq", "NOUN"), ("词", "?", "X")])
def test_universal_parts_of_speech(word, flag, expected):
    assert universal(word, flag) == expected


def test_sentences_open_after_their_ends(reader):
    one = row(reader, "你好！！“真的吗？”他说。我?不! 是；不是")
    opened = [word for word, first in zip(one["token"], one["sentence_start"], strict=True) if first]
    assert opened == ["你好", "“", "他", "我", "不", "是"]
    assert row(reader, "！早")["sentence_start"] == [True, True]


def test_noun_chunks_are_runs_of_nouns_without_measure_words(reader):
    def chunks(text):
        one = row(reader, text)
        spans = zip(one["chunk_start"], one["chunk_end"], strict=True)
        return ["".join(one["token"][start:end]) for start, end in spans]

    assert chunks("我买了三斤苹果") == ["苹果"]
    assert chunks("北京大学图书馆很大") == ["北京大学图书馆"]
    assert chunks("跑得很快") == []


def test_spaces_separate_words(reader):
    assert row(reader, "中国 人民")["token"] == ["中国", "人民"]
    assert row(reader, "歌 词")["token"] == ["歌", "词"]  # characters stay characters
    assert row(reader, "歌词")["token"] == ["歌词"]
    assert row(reader, "你好  世界\n吗")["token"] == ["你好", " ", "世界", "\n", "吗"]
    assert row(reader, " 你好")["pos"][0] == "SPACE"


def test_no_log_no_cache_and_no_dependence_on_one(tmp_path):
    (tmp_path / "jieba.cache").write_bytes(b"not a cache")
    program = ("from keycontrast.text.annotate import load_annotator\n"
               "print(load_annotator('jieba', 'zh').columns([0], ['我来到北京清华大学'])['token'].to_pylist())")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False,
                          env={"TMPDIR": str(tmp_path), "PATH": "", "PYTHONIOENCODING": "utf-8"})
    assert done.stdout == "[['我', '来到', '北京', '清华大学']]\n"
    assert done.stderr == "" and (tmp_path / "jieba.cache").read_bytes() == b"not a cache"


def test_a_chinese_phrase_has_as_many_words_as_tokens_and_is_like_others_by_its_signs():
    text = "\u6211\u6765\u5230\u5317\u4eac\u6e05\u534e\u5927\u5b66\u5b66\u4e60\u8ba1\u7b97\u673a\u3002"
    long, short = (phrase.keyword for phrase in Keywords(language="zh").rank([text])[0])
    for words, expected in (((1, 1), [short]), ((2, 5), [long]), ((9, 9), [])):
        assert [one.keyword for one in Keywords(language="zh", ngram_range=words).rank([text])[0]] == expected
    near = _by_words(["\u5317\u4eac\u5927\u5b66", "\u5317\u4eac\u5927\u5b66\u5b66\u751f", "\u82f9\u679c"])(0)
    assert near[1] > 0.8 and near[2] == 0
