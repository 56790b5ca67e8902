"""Keyword masks: coins in training and evaluation, primary words, all occurrences of a word."""


import numpy as np
import pandas as pd
import tiny_rewriters
import torch

from stages.tracks.pgkpr.items import first_places, fixed_masks
from stages.tracks.pgkpr.train import training_mask, training_passes

KEYWORDS = {"by": "attribution", "train_scores": "both", "flip": "epoch", "mark_all": False}


def pairs():
    return tiny_rewriters.items()


def many(probabilities, count=4000):
    """A frame of ``count`` examples that all have the same words and scores."""
    words = [f"w{place}" for place in range(len(probabilities))]
    return pd.DataFrame({"example_id": range(count), "source_words": [words] * count,
                         "score_xx": [np.array(probabilities, dtype="f4")] * count,
                         "score_xy": [np.array(probabilities, dtype="f4")] * count})


def test_coins_of_training_fall_as_often_as_the_probabilities_say():
    """The expected number of keywords is the sum of p; and p is the share of each word."""
    torch.manual_seed(0)
    p = torch.tensor([[0.0, 0.25, 0.5, 1.0, 0.9], [0.7, 0.1, 0.3, 0.0, 0.0]])
    lengths, rounds = torch.tensor([5, 3]), 20_000
    found = sum(training_mask(p, lengths).double() for _ in range(rounds)) / rounds
    assert torch.allclose(found, p.double(), atol=0.015)
    assert found[0, 0] == 0 and found[0, 3] == 1
    assert torch.allclose(found.sum(-1), p.double().sum(-1), atol=0.03)


def test_no_coin_falls_on_padding_and_seeds_decide():
    p, lengths = torch.ones(2, 4), torch.tensor([4, 2])
    assert training_mask(p, lengths).tolist() == [[True] * 4, [True, True, False, False]]
    p = torch.full((8, 9), 0.5)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(training_mask(p, torch.full((8,), 9)))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])


def test_all_occurrences_of_a_keyword_are_keywords_when_asked():
    words = [["a", "b", "a", "c", "b", "a"], ["b", "a", "b"]]
    repeat = torch.zeros(2, 6, dtype=torch.int64)
    for row, text in enumerate(words):
        repeat[row, :len(text)] = torch.from_numpy(first_places(text))
    assert repeat.tolist() == [[0, 1, 0, 3, 1, 0], [0, 1, 0, 0, 0, 0]]
    p, lengths = torch.full((2, 6), 0.4), torch.tensor([6, 3])
    for seed in range(20):
        torch.manual_seed(seed)
        coins = training_mask(p, lengths)
        torch.manual_seed(seed)
        found = training_mask(p, lengths, repeat)
        for row, text in enumerate(words):
            marked = {word for word, coin in zip(text, coins[row].tolist(), strict=False) if coin}
            assert found[row, :len(text)].tolist() == [word in marked for word in text]
            assert not found[row, len(text):].any()


def test_fixed_coins_depend_on_seed_scores_and_example_alone():
    frame = pairs()
    masks = fixed_masks(frame, "xx", seed=13)
    for (_, row), mask in zip(frame.iterrows(), masks, strict=True):
        assert np.array_equal(tiny_rewriters.fixed_mask(row, "xx", 13), mask) and mask.dtype == bool
        assert len(mask) == len(row["source_words"])
    shuffled = frame.sample(frac=1, random_state=1)
    assert all(np.array_equal(mask, masks[place]) for place, mask in
               zip(shuffled.index, fixed_masks(shuffled, "xx", 13), strict=True))
    # References of an example have one source, and one mask of it from the source alone.
    assert np.array_equal(masks[4], masks[5])
    assert any(not np.array_equal(one, two) for one, two in zip(masks, fixed_masks(frame, "xx", 14), strict=True))
    same = frame.assign(score_xy=frame["score_xx"])
    assert any(not np.array_equal(one, two) for one, two in zip(masks, fixed_masks(same, "xy", 13), strict=True))


def test_offline_coins_are_flipped_once_per_row():
    frame = pairs()
    offline = {**KEYWORDS, "flip": "offline"}
    first, again, other = (training_passes(frame, "attribution", offline, seed) for seed in (1, 1, 2))
    assert {value for rows in first for row in rows for value in row} == {0.0, 1.0}
    assert all(np.array_equal(one, two) for a, b in zip(first, again, strict=True) for one, two in zip(a, b,
                                                                                                     strict=True))
    assert any(not np.array_equal(one, two) for one, two in zip(first[0], other[0], strict=True))
    # The two references of an example have coins of their own, though their scores be equal.
    same = pd.concat([many([0.5] * 40, 1).assign(reference=reference) for reference in (0, 1)])
    one, two = training_passes(same, "attribution", {**offline, "train_scores": "xy"}, 1)[0]
    assert not np.array_equal(one, two)
    strongest = [int(np.argmax(row)) for row in frame["score_xy"]]
    assert all(row[place] == 1 for row, place in zip(first[0], strongest, strict=True))


def test_random_words_are_as_many_as_by_attribution_and_of_no_place():
    """The control has the share of words that attribution marks, whatever their scores are."""
    p = [0.0, 0.1, 0.3, 1.0]
    frame = many(p).assign(reference=0)
    offline = {**KEYWORDS, "flip": "offline"}
    for masks in (fixed_masks(frame, "random", seed=3), *training_passes(frame, "random", offline, 3)):
        assert np.allclose(np.mean(masks, axis=0), np.mean(p), atol=0.03)
    both = training_passes(pairs(), "random", KEYWORDS, seed=1)
    for found, column in zip(both, ("score_xy", "score_xx"), strict=True):
        assert all(np.ptp(row) == 0 and np.isclose(row.sum(), sum(scores), atol=1e-4)
                   for row, scores in zip(found, pairs()[column], strict=True))


def test_controls_mark_no_word_or_every_word():
    """Of no keyword part 1 is tags alone, of all it is the sentence."""
    frame = pairs()[["example_id", "reference", "source_words"]]    # no score is read
    for which, marked in (("none", False), ("all", True)):
        masks = fixed_masks(frame, which, 1, max_length=4)
        assert [mask.tolist() for mask in masks] == [[marked] * min(4, len(row)) for row in frame["source_words"]]
        for passes, scores in ((2, "both"), (1, "xy")):
            found = training_passes(frame, which, {**KEYWORDS, "train_scores": scores}, 1)
            assert len(found) == passes
            assert all((row == marked).all() and len(row) == len(words)
                       for rows in found for row, words in zip(rows, frame["source_words"], strict=True))
