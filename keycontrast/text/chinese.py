"""Chinese by jieba: words, their flags, and what follows from them.

    JiebaAnnotator().columns([0], ["我来到北京清华大学。"])["token"]

Tokens are the words of ``jieba.posseg`` with its hidden Markov model. jieba never joins words across white space. As in
spaCy's documents, one space after a word belongs to that word; any more white space is a token of its own.

The lemma is the word, the fine tag jieba's flag (its variant of the ICTCLAS tag set), the universal part of speech
a mapping of the flag by :data:`UPOS`. Noun chunks are the longest runs of nouns and names, as for English; measure
words, times and places are in no chunk, so that "一个苹果" gives "苹果".
"""

import hashlib
import logging
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from importlib.resources import as_file, files
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from keycontrast.text.clean import Cleaned, clean
from keycontrast.text.schemas import TOKENS
from keycontrast.text.tokens import NAME, NOUNS, TokenColumns, as_given, chunk_columns, noun_runs

_COLUMNS = ("token", "lemma", "pos", "tag", "start", "end", "is_stop", "sentence_start")
_DICTIONARY = "dict.txt"
# Names such as SARS-CoV-2, which jieba would part; Chinese characters may stand beside them.
_NAME = re.compile(f"(?<![A-Za-z0-9_-])({NAME.pattern})(?![A-Za-z0-9])", re.ASCII)
# jieba's flags by what UD calls them; a flag that is not here goes by its first letter. Where the sense of a flag
# leaves a choice (nz, l, zg), it is the part of speech that most of its words have in the UD treebanks of Chinese.
UPOS = {
    "a": "ADJ", "ad": "ADV", "an": "NOUN", "b": "ADJ", "c": "CCONJ", "d": "ADV", "df": "AUX", "dg": "ADV",
    "e": "INTJ", "eng": "X", "f": "ADP", "g": "NOUN", "h": "PART", "i": "VERB", "j": "NOUN", "k": "PART",
    "l": "VERB", "m": "NUM", "n": "NOUN", "nr": "PROPN", "nrfg": "PROPN", "nrt": "PROPN", "ns": "PROPN",
    "nt": "PROPN", "nz": "NOUN", "o": "INTJ", "p": "ADP", "q": "NOUN", "r": "PRON", "s": "NOUN", "t": "NOUN",
    "u": "PART", "ug": "AUX", "ul": "AUX", "uz": "AUX", "v": "VERB", "vd": "ADV", "vn": "NOUN", "x": "X",
    "y": "PART", "z": "ADJ", "zg": "ADV",
}
_CHUNK_FLAGS = ("n", "vn", "an", "j")
_ENDS = frozenset("。！？!?")
_CLOSERS = frozenset("”’」』）)】》\"'")
# Words that say little by themselves: pronouns, particles, prepositions, conjunctions, auxiliaries, adverbs of degree.
_STOP_WORDS = """
    我 你 您 他 她 它 我们 你们 他们 她们 它们 咱 咱们 自己 大家 人家 这 那 这个 那个 这些 那些 这里 那里 这儿 那儿
    这样 那样 这么 那么 哪 哪个 哪些 哪里 哪儿 谁 什么 怎么 怎样 怎么样 为什么 多少 几 某 每 各 另 其 其他 其它 之
    的 地 得 了 着 过 吗 呢 吧 啊 呀 哦 嗯 嘛 啦 哈 呵 哇 噢 哎 唉 么 所
    是 在 有 没 没有 不 无 非 别 会 能 能够 可以 可能 应该 应 要 想 让 使 给 被 把 将 对 对于 关于 从 自 由 向 往 到
    为 为了 以 以及 于 与 和 跟 同 及 或 或者 还是 而 而且 并 并且 但 但是 可是 不过 然而 因为 所以 因此 由于 如果 要是
    假如 虽然 尽管 即使 只要 只有 除了 无论 不管 既 既然 则 即 比 按 按照 根据 通过 当
    也 都 又 再 还 就 才 只 很 太 更 最 挺 非常 十分 比较 真 真的 已 已经 曾 曾经 正 正在 刚 刚刚 便 却 仍 一直 一样
    个 些 一个 一些 一下 一点 上 下 里 中 内 外 前 后 时 时候 等 等等 来 去 起来 出来 之后 之前 以后 以前
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def universal(word: str, flag: str) -> str:
    """Return the universal part of speech by the flag, or by the characters of words without a letter or digit."""
    if any(character.isalnum() for character in word):
        return UPOS.get(flag) or UPOS.get(flag[:1], "X")
    if word.isspace():
        return "SPACE"
    kinds = {unicodedata.category(character)[0] for character in word}
    return "SYM" if "S" in kinds else "PUNCT" if "P" in kinds else "X"


class JiebaAnnotator:
    """jieba's segmentation and tags, with a tokenizer of its own: no cache file, no words that others have added."""

    engine = "jieba"

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # Its own: old escapes in its patterns, and how it looks for its files.
            warnings.simplefilter("ignore")
            import jieba
            from jieba.posseg import POSTokenizer
        jieba.setLogLevel(logging.WARNING)
        tokenizer = jieba.Tokenizer()
        # `initialize` would read these from a cache in the temporary folder, which another version may have written.
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
        tokenizer.initialized = True
        self._tagger = POSTokenizer(tokenizer)

    def columns(self, text_ids: Sequence[int], texts: Sequence[str], cleaning: bool = False) -> TokenColumns:
        """Return the columns of the token table for ``texts``, in their order, of which cleaned ones may be read."""
        cleaned = [clean(text, chinese=True) if cleaning else Cleaned(text) for text in texts]
        rows = [self._row(item.text, cleaning) for item in cleaned]
        lists = {name: [row[name] for row in rows] for name in _COLUMNS}
        inside = np.array([pos in NOUNS and (flag[:1] == "n" or flag in _CHUNK_FLAGS) for row in rows
                           for flag, pos in zip(row["tag"], row["pos"], strict=True)], bool)
        columns = {name: pa.array(lists[name], TOKENS.field(name).type) for name in _COLUMNS}
        return {"text_id": pa.array(text_ids, pa.int64()), "cleaned": sum(bool(item.start) for item in cleaned),
                **(as_given(columns, cleaned) if cleaning else columns),
                **chunk_columns(*noun_runs(inside, np.array([len(row["token"]) for row in rows], np.int64)))}

    def describe(self) -> dict[str, Any]:
        """Return the version of jieba and the sha256 of the dictionary that it comes with."""
        with as_file(files("jieba") / _DICTIONARY) as path:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return {"name": "jieba", "version": version("jieba"), "language": "zh", "components": ["posseg"],
                "sha256": digest}

    def _row(self, text: str, latin_nouns: bool) -> dict[str, list[Any]]:
        parts = _NAME.split(text) if latin_nouns else [text]
        pairs = [tuple(pair) for place, part in enumerate(parts)
                 for pair in ([(part, "eng")] if place % 2 else self._tagger.cut(part))]
        tokens = list(self._tokens(text, pairs))
        # Latin words in Chinese name things, as "iPhone" and "X900" do; jieba has no part of speech for them.
        words = [word for word, _, _ in tokens]
        flags = ["nz" if latin_nouns and flag == "eng" else flag for _, flag, _ in tokens]
        pos = [universal(word, flag) for word, flag in zip(words, flags, strict=True)]
        return {"token": words, "lemma": words, "pos": pos, "tag": flags,
                "start": [start for _, _, start in tokens], "end": [start + len(word) for word, _, start in tokens],
                "is_stop": [word in STOP_WORDS for word in words], "sentence_start": list(_openings(words))}

    def _tokens(self, text: str, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
        """Yield word, flag and offset of each token; white space as spaCy's documents have it."""
        place, position = 0, 0
        for is_space, run in groupby(pairs, key=lambda pair: pair[0].isspace()):
            if not is_space:
                for word, flag in run:
                    # Searched for rather than counted on, so that an offset is right even if jieba drops a character.
                    position = text.index(word, position)
                    yield word, flag, position
                    position += len(word)
                place = position
                continue
            blank = "".join(word for word, _ in run)
            owned = int(place > 0 and blank.startswith(" "))
            if len(blank) > owned:
                yield blank[owned:], "x", position + owned
            position += len(blank)


def _openings(words: Sequence[str]) -> Iterator[bool]:
    """Yield whether each word opens a sentence: the first, and the first after an end mark and closing marks."""
    ended = True
    for number, word in enumerate(words):
        tail = word in _ENDS or word in _CLOSERS or word.isspace()
        yield number == 0 or (ended and not tail)
        ended = word in _ENDS or (ended and tail and number > 0)
