"""Write a synthetic corpus of triples in which only the keyword graph knows the target's keyword.

    python tools/graph_control.py FOLDER

A source holds one of 300 keywords, its target one of 50 others, by a random map. All other words of both are stop
words, so that every way of finding keywords finds these; those of the target follow from those of the source. Triples
of a third of the source keywords are of the split `graph`, which clusters and graph read and no training does;
validation and test ask for these keywords alone. Two keywords that belong together have at least three triples that
share no text, so that hiding the component of an item leaves its edge. The negative holds another target keyword.

- `among1.jsonl`: the target's keyword is the one positive neighbour of the source's.
- `among4.jsonl`, `among16.jsonl`: one of four, or sixteen, by further triples of the split `graph`.
- `shuffled.jsonl`: as `among1`, but the split `graph` goes by another map than validation and test.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

# Nouns that are one word piece each of the bundled encoder.
_WORDS = """
actor airplane airport anchor ant apple arrow attic axe backpack bacon baker balcony ball balloon bamboo banana barn
basement basket bat battery beach bean bear bedroom beer bell belt bicycle blanket boat boot bottle bowl bracelet
brake bread brick bridge brush bucket bus butter butterfly cabbage cabin cabinet cactus cake camera canal candle
canoe canvas car card carpet carrot castle cat cathedral cave cedar cello chain chair cheese cherry chess chicken
chimney clay cliff clock coal coat coffee coin compass computer cookie copper corn corridor cottage cow cream
crocodile crow crown cup curtain daisy dancer desert desk diamond dice dock doctor dog doll dolphin donkey dragon
drawer dress drill drum eagle egg elephant emerald engine envelope farm farmer feather fern ferry flag flute forest
fork fox frog garden garlic gate ghost glacier glass globe goat gold goose gorilla granite grape guitar hammer harp
hat hawk helicopter helmet highway honey horse iron island jacket judge juice kangaroo kettle keyboard king kitchen
kite knife knight ladder lake lamp lantern lawyer lemon letter library lighthouse lily lion lizard magazine magnet
mansion map maple marble mattress meadow medal microscope milk mill mirror monastery monk monkey mosquito moss
motorcycle mountain mouse mug museum mushroom nail necklace newspaper notebook nurse oak onion orange orchard organ
oven owl painter palace parachute parrot passport peach pearl pencil penguin pepper photograph piano pie pier pig
pillow pilot pine pipe pizza plate poet pot potato prairie priest prince princess printer pumpkin puppet purse
puzzle quarry queen rabbit radio railway ranch rat refrigerator rice ring river robot rocket rope rose ruby sailor
salad salmon salt sand sandwich sausage scarf sculptor sculpture shark sheep shelf shield ship shirt shoe silver
singer skirt snake sock sofa soldier soup spear spider spoon squirrel stable stadium staircase stamp station statue
steak stone stove strawberry stream student submarine sugar suitcase swamp swan sword tea teacher telephone
telescope television temple tent theater ticket tiger tire tomato tower tram trophy truck trumpet tuna tunnel turkey
turtle umbrella valley vampire vineyard violin volcano wallet warehouse waterfall whale wheat wheel whistle willow
window wine wire witch wizard wolf yacht zebra"""
SOURCES, TARGETS, GRAPH_ONLY, VALIDATION = 300, 50, 100, 30  # keywords; the last two of the sources
ITEMS, SUPPORT, ASKED = 20, 3, 4  # triples of a keyword: in training; in the graph; in validation or test
SLOTS = (("he", "she", "they", "we", "you", "it"),
         ("could be", "will be", "might be", "would be", "must be", "should be"),
         ("with", "behind", "beside", "beyond", "under", "around"),
         ("again", "now", "then", "too", "once more", "as well"))
FRAMES = list(product(range(6), repeat=4))


def text(frame: tuple[int, ...], word: str, shift: int) -> str:
    """Return the words of a frame around a keyword; ``shift`` is 0 for sources, 1 for targets, 2 for negatives."""
    subject, verb, place, end = (slot[(part + shift) % 6] for slot, part in zip(SLOTS, frame, strict=True))
    return f"{subject} {verb} {place} the {word} {end}"


class Corpus:
    """Triples of keywords around one random map; the texts of no two triples are equal."""

    def __init__(self, seed: int, sources: int = SOURCES, targets: int = TARGETS, graph_only: int = GRAPH_ONLY) -> None:
        self.draw = np.random.default_rng(seed)
        words = self.draw.permutation(_WORDS.split())[:sources + targets].tolist()
        self.sources, self.targets = words[:sources], words[sources:]
        self.target_of = {word: self.targets[place % targets] for place, word in enumerate(self.sources)}
        self.graph_only = self.draw.permutation(self.sources)[:graph_only].tolist()
        self.used: set[str] = set()

    def triples(self, source: str, target: str, split: str, count: int) -> Iterator[dict[str, str]]:
        """Yield ``count`` triples of two keywords."""
        others = [word for word in self.targets if word != target]
        while count:
            frame, other = (choices[self.draw.integers(len(choices))] for choices in (FRAMES, others))
            texts = [text(frame, word, shift) for shift, word in enumerate((source, target, other))]
            if self.used.isdisjoint(texts):
                self.used.update(texts)
                count -= 1
                yield {**dict(zip(("source", "target", "negative"), texts, strict=True)), "split": split}

    def rows(self, among: int = 1, shuffled: bool = False, validation: int = VALIDATION) -> Iterator[dict[str, str]]:
        """Yield a whole corpus: ``among`` neighbours of each source keyword, one of them right."""
        told = {word: self.target_of[word] for word in self.sources}
        if shuffled:  # each gets the target of the next keyword that has another one
            for place, word in enumerate(self.graph_only):
                others = [*self.graph_only[place + 1:], *self.graph_only]
                told[word] = next(self.target_of[other] for other in others
                                  if self.target_of[other] != self.target_of[word])
        for word in self.sources:
            asked = word in self.graph_only
            yield from self.triples(word, told[word], "graph" if asked else "train", SUPPORT + 1 if asked else ITEMS)
            others = [target for target in self.targets if target != told[word]]
            for other in self.draw.permutation(others)[:among - 1].tolist():
                yield from self.triples(word, other, "graph", SUPPORT)
        for place, word in enumerate(self.graph_only):
            yield from self.triples(word, self.target_of[word], "validation" if place < validation else "test", ASKED)


def main() -> None:
    """Write the files of the control."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, settings in (("among1", {}), ("among4", {"among": 4}), ("among16", {"among": 16}),
                           ("shuffled", {"shuffled": True})):
        rows = Corpus(13).rows(**settings)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
