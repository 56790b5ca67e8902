"""Made-up sentences with tags, as the public PGKPR code reads them and as ours does."""

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.peers import definitions, module_of
from benchmarks.public_pgkpr import MAX_LENGTH, Job, Sizes
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.keywords import training_mask
from stages.tracks.pgkpr.vocabulary import Vocabulary

SEED = 13
PIECED = "workouts"  # two pieces to the classifier
TINY = Sizes("parity", 2, 2, 16, 32)
_COINS = 666  # of the public code
_PAIRS = 36
_UNKNOWN = "zyzzyva"  # no word of the vocabulary
SIDES = ("source", "target")
_LEXICON = {
    "WP": "what who", "WRB": "how why where", "VBZ": "is does has", "VBP": "do are have", "MD": "can should would",
    "PRP": "i you they", "DT": "the a this", "JJ": "good cheap large quick", "JJS": "best fastest", "TO": "to",
    "VB": "learn find lose cook sell", "NN": "belly language phone workouts house zyzzyva", "NNS": "dogs jobs books",
    "IN": "in with for", "RB": "really never", "VBG": "running", "CC": "and", ".": "?"}
_PATTERNS = ("WP VBZ DT JJS NN IN DT NN .", "WRB VBP PRP VB DT JJ NN .", "MD PRP VB TO VB NNS CC NNS .",
             "WRB VBZ DT NN VB DT NN RB", "WP VBP DT JJ NNS IN VBG .",
             "WRB MD PRP VB DT JJ NN IN DT NN CC VB NNS RB TO VB DT JJ NN")  # the last is longer than models read


class Given:
    """The public code and what both sides read.

    Args:
        folder: of the public code.
        work: a temporary folder.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.frame = drawn(_PAIRS, SEED)
        words = pd.Series([word for side in SIDES for row in self.frame[f"{side}_words"] for word in row])
        counts = words[words != _UNKNOWN].value_counts()
        self.loader = module_of(folder, "dataloader.py")
        listed = {tag.strip("[]") for tag in self.loader.POS_TAG}
        self.vocabulary = Vocabulary.counted(dict(counts), dict.fromkeys(_LEXICON, 1), len(counts))
        self.listed = Vocabulary.counted(dict(counts), dict.fromkeys(listed, 1), len(counts))
        (work / "words").write_text("\n".join(map(str, counts.index)) + "\n", encoding="utf-8")

    def file(self, name: str, **columns: Sequence[Any]) -> Path:
        """Write the pairs as the public code reads them, with further columns."""
        kinds = (("sen", "words", str), ("question", "words", str), ("pos", "tags", "[{}]".format))
        texts = {f"{kind}{number}": [" ".join(map(form, row)) for row in self.frame[f"{side}_{of}"]]
                 for number, side in enumerate(SIDES, 1) for kind, of, form in kinds}
        path = self.work / name
        pd.DataFrame({**texts, **columns}).to_csv(path, index=False)
        return path

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """Keyword scores of the words of each source."""
        drawing = np.random.default_rng(SEED)
        return [drawing.random(len(row)).round(4) for row in self.frame["source_words"]]

    @cached_property
    def keywords(self) -> list[np.ndarray]:
        """Which words the public code's coins choose by them, in its order of drawing."""
        coins = random.Random(_COINS)
        return [np.array([score > coins.random() for score in row], dtype=np.float32) for row in self.scores]

    @property
    def texts(self) -> list[list[str]]:
        """Sources and targets."""
        return [[" ".join(row) for row in self.frame[f"{side}_words"]] for side in SIDES]

    def pairs(self, vocabulary: Vocabulary, mark_all: bool = True) -> PairBatches:
        """Return our batches of the pairs, with these keywords."""
        found = PairBatches(self.frame, vocabulary, MAX_LENGTH, [self.keywords], True)
        batch = found.batch(range(len(self.frame)))
        mask = training_mask(batch["p"], batch["x_lengths"], batch["repeat"] if mark_all else None).float().numpy()
        rows = [np.append(row[:len(words)], np.zeros(max(0, len(words) - len(row)), np.float32))
                for row, words in zip(mask, self.frame["source_words"], strict=True)]
        return PairBatches(self.frame, vocabulary, MAX_LENGTH, [rows])

    @cached_property
    def job(self) -> Job:
        """A model of the sizes that both have, and the pairs."""
        return Job(TINY, self.listed, self.pairs(self.listed), self.folder)

    @cached_property
    def theirs(self) -> tuple[list[Tensor], dict[int, str]]:
        """What the public code's loader gives of the pairs, and its tokens by id."""
        names = definitions(self.folder, "stage_two_data.py", ("kw_by_posibility",), {"random": random})
        switch = module_of(self.folder, "Data/switchpos.py").SwitchPOS
        texts, _ = self.texts
        path = self.file("scored.csv", bert_sen1=texts, xy_scores=[" ".join(map(str, row)) for row in self.scores])
        chosen = names["kw_by_posibility"](pd.read_csv(path), mode="xy", random_seed=_COINS)
        table = switch(path)
        table.set_s_index([table.word_to_index(*pair) for pair in zip(texts, chosen, strict=True)])
        table.to_csv(self.work / "switched.csv")
        words = str(self.work / "words")
        return (list(self.loader.load_data_tensor_con(self.work / "switched.csv", words, MAX_LENGTH)),
                self.loader.loadVocab(words)[1])

    def renumbered(self, tensors: Sequence[Tensor], tokens: Mapping[int, str]) -> list[Tensor]:
        """Return the public code's tensors with our ids for its tokens."""
        ours = {token.lower(): number for number, token in enumerate(self.listed.tokens)} | {"[unkey]": 5}
        table = torch.tensor([ours[tokens[number]] for number in range(len(tokens))])
        return [table[part] for part in tensors]


def drawn(count: int, seed: int) -> pd.DataFrame:
    """Return different pairs of sentences as rows of table ``paraphrase_items``, in lower case."""
    coins = random.Random(seed)
    texts: dict[tuple[str, ...], list[str]] = {}
    while len(texts) < 2 * count:
        tags = coins.choice(_PATTERNS).split()
        words = [coins.choice(_LEXICON[tag].split()) for tag in tags]
        if len(set(words[MAX_LENGTH:]) & set(words[:MAX_LENGTH])) == 0:
            texts[tuple(words)] = tags
    sides = {"source": list(texts.items())[::2], "target": list(texts.items())[1::2]}
    columns = {f"{side}_{kind}": [list(item[place]) for item in items]
               for side, items in sides.items() for place, kind in enumerate(("words", "tags"))}
    none = [[0.0] * len(row) for row in columns["source_words"]]
    others = ("primary_xx", "primary_xy", "primary_s", "primary_textrank")
    scores = dict.fromkeys(("score_xx", "score_xy", *others), none)
    return pd.DataFrame({"example_id": range(count), "reference": 0, "group": range(count), **columns, **scores})
