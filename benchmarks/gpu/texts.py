"""Texts from a seed: words by Zipf's law, as many of them as real questions and reviews have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from stages.common.seeds import derived_seed
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.vocabulary import Vocabulary

SEED = 13
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Lengths are log-normal: median words and deviation of the logarithm. Questions of Quora have 10 words in the middle
# and about 11 on average; posts and reviews are longer and more uneven.
QUESTIONS, TEXTS = (10.0, 0.4), (16.0, 0.6)


def word_level_tokenizer(words: int) -> PreTrainedTokenizerBase:
    """Return a tokenizer of ``words`` made-up words, special tokens among them, which splits at blanks."""
    tokens = [*_SPECIAL, *(f"w{number}" for number in range(words - len(_SPECIAL)))]
    made = Tokenizer(WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                                   sep_token="[SEP]", mask_token="[MASK]",
                                   model_input_names=["input_ids", "attention_mask"])


def tokenizer_of(encoder: str | None, words: int) -> PreTrainedTokenizerBase:
    """Return the tokenizer of the encoder in folder ``encoder``, or one of ``words`` made-up words."""
    return word_level_tokenizer(words) if encoder is None else AutoTokenizer.from_pretrained(Path(encoder))


def words_of(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Return the words of a tokenizer that are one token each, in the order of their ids."""
    known = tokenizer.get_vocab()
    return np.array([word for word in sorted(known, key=lambda word: known[word]) if word.isalnum()])


def drawn_lengths(count: int, kind: tuple[float, float], most: int, seed: int) -> np.ndarray:
    """Return the words of ``count`` texts (count,), 3 to ``most`` each."""
    median, deviation = kind
    drawn = np.random.default_rng(seed).lognormal(np.log(median), deviation, count)
    return np.clip(np.rint(drawn), min(3, most), most).astype(int)


def drawn_words(words: np.ndarray, lengths: np.ndarray, seed: int) -> list[list[str]]:
    """Return texts of these lengths as words, frequent ones more often than rare ones."""
    weights = 1.0 / (np.arange(len(words)) + 10.0)
    numbers = np.random.default_rng(seed).choice(len(words), int(lengths.sum()), p=weights / weights.sum())
    return [part.tolist() for part in np.split(words[numbers], np.cumsum(lengths)[:-1])]


def drawn_texts(words: np.ndarray, count: int, kind: tuple[float, float], most: int, seed: int) -> list[str]:
    """Return ``count`` texts of words joined by blanks."""
    return [" ".join(row) for row in drawn_words(words, drawn_lengths(count, kind, most, seed), seed)]


def drawn_pairs(vocabulary: Vocabulary, lengths: Mapping[str, np.ndarray], longest: int, seed: int) -> PairBatches:
    """Return pairs of random words and tags; each word of a source is a keyword with probability 0.5, drawn once.

    Args:
        vocabulary: whose words and tags are taken.
        lengths: words of each ``source`` and ``target`` (count,).
        longest: words that a model reads at most.
        seed: of the draws.
    """
    count = len(lengths["source"])
    columns: dict[str, Any] = {"example_id": range(count), "reference": 0, "group": range(count)}
    for kind, name in (("word", "words"), ("tag", "tags")):
        tokens = np.array([token for token, of in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if of == kind])
        bare = np.array([token.strip("[]") for token in tokens])
        columns |= {f"{side}_{name}": drawn_words(bare, of, derived_seed(seed, side, name))
                    for side, of in lengths.items()}
    random = np.random.default_rng(seed)
    keywords = [random.integers(0, 2, length).astype("f4") for length in lengths["source"]]
    scores = ("score_xx", "score_xy", "primary_xx", "primary_xy", "primary_s", "primary_textrank")
    return PairBatches(pd.DataFrame(columns | {name: keywords for name in scores}), vocabulary, longest, [keywords])
