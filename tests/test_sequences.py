"""TS_s and the counterparts of the contrast: the paper's example, loops, and their properties."""

import pytest
import torch

from models.common import BOS, EOS, IGNORE, NOK, PAD, SEP
from models.pgkpr.pgkpr import counterpart, perturbed

LENGTHS = torch.tensor([9, 1, 4])
REAL = torch.arange(9) < LENGTHS.unsqueeze(1)
WORDS = (torch.arange(27).view(3, 9) + 100) * REAL  # every word and every tag of a text differs from all others
TAGS = (torch.arange(27).view(3, 9) + 50) * REAL


def keywords(seed):
    return torch.rand(3, 9, generator=torch.Generator().manual_seed(seed)) < 0.5


def by_loop(words, tags, mask):
    """Input and targets of one text of plain lists."""
    first = [word if chosen else tag for word, tag, chosen in zip(words, tags, mask, strict=True)]
    second = [tag if chosen else word for word, tag, chosen in zip(words, tags, mask, strict=True)]
    kept = [word if chosen else NOK for word, chosen in zip(words, mask, strict=True)]
    return [BOS, *first, SEP, *second, EOS], [BOS, *tags, SEP, *kept, EOS]


def cut(row, length):
    return row[:length].tolist()


def test_example_of_the_paper():
    words = ["what", "are", "good", "workouts", "to", "lose", "belly", "fat", "?"]
    tags = ["[WDT]", "[VBP]", "[JJ]", "[NNS]", "[TO]", "[VB]", "[NN]", "[NN]", "[.]"]
    names = ["[pad]", "[unk]", "<s>", "</s>", "<sep>", "[NOK]", "[MASK]", *sorted(set(tags)), *words]
    ids = {name: number for number, name in enumerate(names)}
    mask = [word in {"good", "workouts", "lose", "belly", "fat"} for word in words]
    given = (torch.tensor([[ids[name] for name in row]]) for row in (words, tags))
    found, targets, attention = perturbed(*given, torch.tensor([mask]), torch.tensor([9]))
    assert " ".join(names[number] for number in found[0]) == (
        "<s> [WDT] [VBP] good workouts [TO] lose belly fat [.] <sep> "
        "what are [JJ] [NNS] to [VB] [NN] [NN] ? </s>")
    assert " ".join(names[number] for number in targets[0]) == (
        "<s> [WDT] [VBP] [JJ] [NNS] [TO] [VB] [NN] [NN] [.] <sep> "
        "[NOK] [NOK] good workouts [NOK] lose belly fat [NOK] </s>")
    assert attention.all() and attention.shape == (1, 21)


@pytest.mark.parametrize("seed", range(4))
def test_sequences_are_those_of_a_loop_with_padding_behind(seed):
    mask = keywords(seed)
    ids, targets, attention = perturbed(WORDS, TAGS, mask, LENGTHS)
    assert ids.shape == targets.shape == attention.shape == (3, 21) and attention.dtype == torch.bool
    for row, length in enumerate(LENGTHS.tolist()):
        expected = by_loop(*(cut(part[row], length) for part in (WORDS, TAGS, mask)))
        real = 2 * length + 3
        assert (cut(ids[row], real), cut(targets[row], real)) == expected
        assert set(cut(ids[row].flip(0), 21 - real)) <= {PAD}
        assert set(cut(targets[row].flip(0), 21 - real)) <= {IGNORE}
        assert attention[row].tolist() == [True] * real + [False] * (21 - real)


def test_all_words_as_keywords_and_none():
    everything, nothing = torch.ones_like(WORDS, dtype=torch.bool), torch.zeros_like(WORDS, dtype=torch.bool)
    ids, targets, _ = perturbed(WORDS, TAGS, everything, LENGTHS)
    assert torch.equal(ids[0, 1:10], WORDS[0]) and torch.equal(ids[0, 11:20], TAGS[0])
    assert torch.equal(targets[0, 11:20], WORDS[0])
    ids, targets, _ = perturbed(WORDS, TAGS, nothing, LENGTHS)
    assert torch.equal(ids[0, 1:10], TAGS[0]) and torch.equal(ids[0, 11:20], WORDS[0])
    assert (targets[0, 11:20] == NOK).all()


def test_counterparts_are_unperturbed_in_either_order():
    ids, attention = counterpart(WORDS, TAGS, LENGTHS, "pos_sent")
    assert ids[2, :11].tolist() == [BOS, *cut(TAGS[2], 4), SEP, *cut(WORDS[2], 4), EOS]
    assert (ids[2, 11:] == PAD).all() and attention[2].sum() == 11
    ids, attention = counterpart(WORDS, TAGS, LENGTHS, "sent_pos")
    assert ids[1, :5].tolist() == [BOS, int(WORDS[1, 0]), SEP, int(TAGS[1, 0]), EOS] and attention[1].sum() == 5
    everything = torch.ones_like(WORDS, dtype=torch.bool)
    assert torch.equal(ids, perturbed(WORDS, TAGS, everything, LENGTHS)[0])


def test_an_unknown_order_is_an_error():
    with pytest.raises(ValueError, match="order is 'words', expected 'pos_sent' or 'sent_pos'"):
        counterpart(WORDS, TAGS, LENGTHS, "words")
