"""Token tables written by hand (``word/POS``) or drawn by chance, without a language pipeline."""

import random
from collections import Counter

import pyarrow as pa

from keycontrast.ranking.selection import InverseFrequency
from pipeline.schemas import SCHEMAS

NOUNS = {"NOUN", "PROPN"}


def row(text_id, words, spaces=None, stops=()):
    """One row from ``(word, POS)`` or ``(word, POS, lemma, tag)``; sentences end after a full stop."""
    spaces = [True] * len(words) if spaces is None else spaces
    made = {name: [] for name in SCHEMAS["tokens"].arrow().names} | {"text_id": text_id}
    place, opens = 0, True
    for number, (word, pos, *more) in enumerate(words):
        lemma, tag = more if more else (word.lower(), pos)
        values = {"token": word, "lemma": lemma, "pos": pos, "tag": tag, "start": place, "end": place + len(word),
                  "is_stop": word.lower() in stops, "sentence_start": opens}
        for name, value in values.items():
            made[name].append(value)
        place += len(word) + spaces[number]
        opens = word == "."
        if pos in NOUNS:
            if made["chunk_end"] and made["chunk_end"][-1] == number:
                made["chunk_end"][-1] = number + 1
            else:
                made["chunk_start"].append(number)
                made["chunk_end"].append(number + 1)
    return made


def table(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMAS["tokens"].arrow())


def frequencies(texts):
    """Inverse document frequencies over texts, each a sequence of tokens."""
    return InverseFrequency(len(texts), Counter(word for text in texts for word in {token.lower() for token in text}))


def tagged(*texts):
    """Token table of texts written as ``word/POS word/POS``; lemmas are lower-cased words."""
    return table([row(number, [tuple(item.rsplit("/", 1)) for item in text.split()])
                  for number, text in enumerate(texts)])


def by_chance(seed, texts=60, longest=40):
    """Texts of few words that repeat, with capitals, white space, punctuation, verbs, stop words and no spaces."""
    draw = random.Random(seed)
    words = [("graph", "NOUN"), ("Graph", "NOUN"), ("rank", "VERB"), ("rank", "NOUN"), ("fast", "ADJ"), (",", "PUNCT"),
             (".", "PUNCT"), ("\n", "SPACE"), ("the", "DET"), ("it's", "PROPN"), ("word", "NOUN"), ("Ada", "PROPN"),
             ("is", "AUX"), ("'", "NOUN"), ("new", "ADJ"), ("text", "NOUN"), ("read", "VERB"), ("-", "NOUN"),
             ("naïve", "ADJ"), ("東京", "PROPN"), ("🙂", "NOUN")]
    rows = []
    for number in range(texts):
        size = draw.choice([0, 1, 2, 3, draw.randint(4, longest)])
        chosen = [draw.choice(words) for _ in range(size)]
        rows.append(row(number, chosen, [draw.random() < 0.9 for _ in chosen], stops={"the", "new", "graph"}))
    return table(rows)
