"""Write a synthetic corpus of triples in which the target's keyword can be found only through the keyword graph.

    python tools/graph_control.py FOLDER

A source has one of many keywords, its target one of 50 others, by a random map. All other words of both are stop words,
so that every keyword method finds these keywords; the stop words of the target follow from those of the source. Triples
of a third of the source keywords are in the split `graph`: clusters and graph are built from them, and no model is
trained on them. Validation and test have only these source keywords. A training keyword occurs in three triples, too
few to memorise the map. A source keyword and its target keyword have at least three triples that share no text, so that
hiding the component of an item leaves its edge. The negative has one of four other target keywords, the impostors of
the target's keyword: graph attention ignores the sign of an edge, and with sixteen impostors it mixes the vectors of
all target keywords until the keyword contrast makes them equal.

- `among1.jsonl`: the target's keyword is the only positive neighbour of the source's.
- `among4.jsonl`, `among16.jsonl`: one of four, or sixteen; further triples of the split `graph` add the others.
- `shuffled.jsonl`: as `among1`, but the split `graph` uses another map than validation and test.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from keycontrast.encoders import resolve_encoder
from keycontrast.text.pipelines import load_pipeline

SOURCES, TARGETS, GRAPH_ONLY, VALIDATION, TEST = 1500, 50, 500, 30, 70  # keywords; the last three of the sources
ITEMS = 3  # triples of two keywords that belong together, in each split
IMPOSTORS = 4  # target keywords that may be in the negative of a target keyword
SLOTS = (("he", "she", "they", "we", "you", "it"),
         ("could be", "will be", "might be", "would be", "must be", "should be"),
         ("also", "still", "never", "always", "perhaps", "really"),
         ("with", "behind", "beside", "beyond", "under", "around"),
         ("again", "now", "then", "too", "once more", "as well"))
FRAMES = list(product(range(6), repeat=len(SLOTS)))


def text(frame: tuple[int, ...], word: str, shift: int) -> str:
    """Return the words of a frame around a keyword; ``shift`` is 0 for sources, 1 for targets, 2 for negatives."""
    subject, verb, how, place, end = (slot[(part + shift) % 6] for slot, part in zip(SLOTS, frame, strict=True))
    return f"{subject} {verb} {how} {place} the {word} {end}"


def nouns() -> list[str]:
    """Return nouns that are one word piece of the bundled encoder each, as the embedded language pipeline has them."""
    words = sorted(word for word in AutoTokenizer.from_pretrained(resolve_encoder("bundled").location).get_vocab()
                   if word.isascii() and word.isalpha() and len(word) > 3)
    docs = load_pipeline().pipe(text(FRAMES[0], word, 0) for word in words)
    return [word for word, doc in zip(words, docs, strict=True)
            if [token.lemma_ for token in doc if token.pos_ == "NOUN" and not token.is_stop] == [word]]


class Corpus:
    """Triples of keywords around one random map; the texts of no two triples are equal."""

    def __init__(self, seed: int, words: Sequence[str], sources: int = SOURCES, targets: int = TARGETS,
                 graph_only: int = GRAPH_ONLY, impostors: int = IMPOSTORS) -> None:
        self.draw = np.random.default_rng(seed)
        words = self.draw.permutation(words)[:sources + targets].tolist()
        self.sources, self.targets = words[:sources], words[sources:]
        self.target_of = {word: self.targets[place % targets] for place, word in enumerate(self.sources)}
        self.graph_only = self.draw.permutation(self.sources)[:graph_only].tolist()
        self.impostors_of = {word: self.draw.choice([other for other in self.targets if other != word], impostors,
                                                    replace=False).tolist() for word in self.targets}
        self.used: set[str] = set()

    def triples(self, source: str, target: str, split: str, left: int = ITEMS) -> Iterator[dict[str, str]]:
        """Yield triples of two keywords."""
        others = self.impostors_of[target]
        while left:
            frame, other = (choices[self.draw.integers(len(choices))] for choices in (FRAMES, others))
            texts = [text(frame, word, shift) for shift, word in enumerate((source, target, other))]
            if self.used.isdisjoint(texts):
                self.used.update(texts)
                left -= 1
                yield {**dict(zip(("source", "target", "negative"), texts, strict=True)), "split": split}

    def rows(self, among: int = 1, shuffled: bool = False, validation: int = VALIDATION,
             test: int = TEST) -> Iterator[dict[str, str]]:
        """Yield a whole corpus: ``among`` neighbours of each source keyword, one of them right."""
        told = dict(self.target_of)
        if shuffled:  # each keyword of the graph alone gets the target of another that has another one
            for place, word in enumerate(self.graph_only):
                others = [*self.graph_only[place + 1:], *self.graph_only]
                told[word] = next(self.target_of[other] for other in others
                                  if self.target_of[other] != self.target_of[word])
        for word in self.sources:
            yield from self.triples(word, told[word], "graph" if word in self.graph_only else "train")
            others = [target for target in self.targets if target != told[word]]
            for other in self.draw.permutation(others)[:among - 1].tolist():
                yield from self.triples(word, other, "graph", 1)
        for place, word in enumerate(self.graph_only[:validation + test]):
            yield from self.triples(word, self.target_of[word], "validation" if place < validation else "test")


def main() -> None:
    """Write the files of the control."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--impostors", type=int, default=IMPOSTORS,
                        help="other target keywords that may be in the negative of a target keyword (%(default)s)")
    arguments, words = parser.parse_args(), nouns()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, settings in (("among1", {}), ("among4", {"among": 4}), ("among16", {"among": 16}),
                           ("shuffled", {"shuffled": True})):
        rows = Corpus(13, words, impostors=arguments.impostors).rows(**settings)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
