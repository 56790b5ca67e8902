"""Searches over any model that decodes step by step, against enumeration and slow loops."""

import itertools
from functools import cache

import pytest
import torch
from torch.nn import functional as F

from models.common.decoding import Rules, beam_search, best_continuations, best_outputs, contrastive_search

END, PAD, START, WORDS = 1, 0, 2, 7


@cache
def random_scores(seed, item, prefix, count):
    number = hash((seed, item, *prefix)) % 2**31  # hashes of numbers are the same in every process
    return torch.randn(count, generator=torch.Generator().manual_seed(number), dtype=torch.float64)


class Oracle:
    """A model that is a table: random scores for each prefix of each item, and nothing else; float64."""

    def __init__(self, items, seed=0, width=5):
        self.prefixes = [[()] for _ in range(items)]
        self.names, self.seed, self.width = list(range(items)), seed, width

    def state(self, item, prefix):
        return random_scores(self.seed, item, prefix, self.width + WORDS)

    def log_chances(self, item, prefix):
        return self.state(item, prefix)[self.width:].log_softmax(-1)

    def step(self, tokens):
        self.prefixes = [[(*prefix, int(token)) for prefix, token in zip(rows, new, strict=True)]
                         for rows, new in zip(self.prefixes, tokens, strict=True)]
        return torch.stack([torch.stack([self.state(name, prefix) for prefix in rows])
                            for name, rows in zip(self.names, self.prefixes, strict=True)])

    def logits(self, states):
        return states[..., self.width:].clone()

    def reorder(self, parents):
        self.prefixes = [[rows[place] for place in places]
                         for rows, places in zip(self.prefixes, parents.tolist(), strict=True)]

    def keep(self, items):
        self.prefixes = [self.prefixes[item] for item in items]
        self.names = [self.names[item] for item in items]


def rules(shortest=1, longest=4, banned=(PAD, START)):
    return Rules(END, PAD, shortest, longest, banned)


def start(items):
    return torch.full((items,), START)


def outputs(tokens):
    """Rows without the end token and what follows, which must be padding."""
    rows = []
    for row in tokens.tolist():
        assert row.count(END) == 1 and set(row[row.index(END) + 1:]) <= {PAD}
        rows.append(tuple(row[:row.index(END)]))
    return rows


def final_score(oracle, item, output, limits, penalty):
    """Sum of log probabilities over length ** penalty; a forced end costs nothing."""
    total, prefix = 0.0, (START,)
    for token in (*output, END):
        if len(prefix) <= limits.max_length:
            total += float(oracle.log_chances(item, prefix)[token])
        prefix = (*prefix, token)
    return total / (len(output) + 1) ** penalty


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_a_beam_as_wide_as_the_search_space_finds_all_outputs_best_first(penalty):
    limits = rules(longest=2)
    words = [word for word in range(WORDS) if word not in (*limits.banned, END)]
    every = [output for length in (1, 2) for output in itertools.product(words, repeat=length)]
    oracle, count = Oracle(3), len(every)
    found = best_outputs(Oracle(3), start(3), limits, count, num_beams=count, length_penalty=penalty)
    for item, rows in enumerate(found):
        assert outputs(rows) == sorted(every, key=lambda one: -final_score(oracle, item, one, limits, penalty))


@pytest.mark.parametrize("width", [1, 3, 5])
def test_the_best_of_several_outputs_is_that_of_the_search(width):
    limits = rules(longest=5)
    one = beam_search(Oracle(4), start(4), limits, num_beams=width)
    several = best_outputs(Oracle(4), start(4), limits, width, num_beams=width)
    assert several.shape[:2] == (4, width) and outputs(several[:, 0]) == outputs(one)
    for rows in several:
        assert len(set(outputs(rows))) == width
    only = rules(longest=1, banned=(PAD, START, 3, 4, 5))     # one word is left
    few = best_outputs(Oracle(2), start(2), only, 3, num_beams=3)
    assert (few[:, 0, 0] == 6).all() and (few[:, 1:] == PAD).all()


def slow_beam(oracle, item, limits, width, penalty):
    """The search of one item, a hypothesis at a time, on lists."""
    running, finished = [(0.0, (START,))], []
    for length in range(limits.max_length):
        found = []
        for total, prefix in running:
            chances = oracle.log_chances(item, prefix)
            found += [(total + float(chances[word]), (*prefix, word)) for word in range(WORDS)
                      if word not in limits.banned and (word != END or length >= limits.min_length)]
        found = sorted(found, reverse=True)[:2 * width]
        finished += [(total / (length + 1) ** penalty, prefix[1:-1]) for total, prefix in found[:width]
                     if prefix[-1] == END]
        finished = sorted(finished, reverse=True)[:width]
        running = [one for one in found if one[1][-1] != END][:width]
        if not running:
            break
        if len(finished) == width and running[0][0] / (length + 1) ** penalty <= finished[-1][0]:
            break
    else:
        finished += [(total / (limits.max_length + 1) ** penalty, prefix[1:]) for total, prefix in running]
    return max(finished)[1]


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 1.7])
def test_beam_search_is_that_of_a_slow_loop(penalty):
    for width, seed in itertools.product((2, 3, 5), range(3)):
        limits = rules(shortest=seed, longest=5)
        expected = [slow_beam(Oracle(4, seed), item, limits, width, penalty) for item in range(4)]
        found = beam_search(Oracle(4, seed), start(4), limits, num_beams=width, length_penalty=penalty)
        assert outputs(found) == expected


def greedy(oracle, item, limits):
    prefix = (START,)
    for length in range(limits.max_length):
        chances = oracle.log_chances(item, prefix).clone()
        chances[[*limits.banned, *([END] if length < limits.min_length else [])]] = -torch.inf
        prefix = (*prefix, int(chances.argmax()))
        if prefix[-1] == END:
            return prefix[1:-1]
    return prefix[1:]


def test_the_best_continuations_of_a_large_vocabulary_are_those_of_sorting_it():
    generator = torch.Generator().manual_seed(0)
    logits, scores = torch.randn(3, 2, 1000, generator=generator), torch.randn(3, 2, generator=generator)
    logits[1, 0, 990:] = 5.0 + torch.arange(10)  # behind the last whole block
    forbidden = torch.tensor([7, 995])
    found = best_continuations(logits, scores, forbidden, 8)
    chances = logits.log_softmax(-1)
    chances[..., forbidden] = -torch.inf
    best = (chances + scores[..., None]).flatten(1).sort(dim=-1, descending=True)
    torch.testing.assert_close(found.scores, best.values[:, :8])
    assert torch.equal(1000 * found.parents + found.tokens, best.indices[:, :8])


def test_one_beam_one_candidate_and_no_penalty_on_likeness_are_greedy():
    for seed in range(4):
        limits = rules(shortest=seed, longest=6)
        expected = [greedy(Oracle(5, seed), item, limits) for item in range(5)]
        assert outputs(beam_search(Oracle(5, seed), start(5), limits, num_beams=1)) == expected
        assert outputs(contrastive_search(Oracle(5, seed), start(5), limits, top_k=1, alpha=0.9)) == expected
        assert outputs(contrastive_search(Oracle(5, seed), start(5), limits, top_k=4, alpha=0.0)) == expected


def slow_contrastive(oracle, item, limits, top_k, alpha):
    """Equation 5 of Su et al. 2022, candidate by candidate."""
    prefix = (START,)
    while len(prefix) <= limits.max_length:
        chances = oracle.log_chances(item, prefix).exp()
        allowed = [word for word in range(WORDS)
                   if word not in limits.banned and (word != END or len(prefix) > limits.min_length)]
        mass = sum(float(chances[word]) for word in allowed)
        seen = [oracle.state(item, prefix[:length]) for length in range(1, len(prefix) + 1)]

        def score(word, prefix=prefix, chances=chances, mass=mass, seen=seen):
            state = oracle.state(item, (*prefix, word))
            likeness = max(float(F.cosine_similarity(state, other, dim=0)) for other in seen)
            return (1 - alpha) * float(chances[word]) / mass - alpha * likeness

        best = max(sorted(allowed, key=lambda word: -float(chances[word]))[:top_k], key=score)
        if best == END:
            return prefix[1:]
        prefix = (*prefix, best)
    return prefix[1:]


@pytest.mark.parametrize(("top_k", "alpha"), [(2, 0.3), (3, 0.6), (5, 1.0), (50, 0.5)])
def test_contrastive_search_is_that_of_a_slow_loop(top_k, alpha):
    for seed in range(4):
        limits = rules(shortest=seed, longest=6)
        expected = [slow_contrastive(Oracle(4, seed), item, limits, top_k, alpha) for item in range(4)]
        assert outputs(contrastive_search(Oracle(4, seed), start(4), limits, top_k=top_k, alpha=alpha)) == expected


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Rules(END, PAD, 4, 3), "min_length 4 and max_length 3 must satisfy 0 <= min <= max"),
    (lambda: beam_search(Oracle(1), start(1), rules(), num_beams=0), "1 outputs of 0 beams"),
    (lambda: best_outputs(Oracle(1), start(1), rules(), 4, num_beams=3), "4 outputs of 3 beams"),
    (lambda: beam_search(Oracle(1), start(1), rules(banned=(PAD, *range(2, WORDS)))), "too much is banned")])
def test_bad_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
