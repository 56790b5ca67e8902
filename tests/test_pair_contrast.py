"""The contrast of pairs: its properties, a loop written from PGKPR eq. 3, values and gradients."""

import math

import pytest
import torch

from models.common.losses import pair_contrast

SIMILARITIES = ("cosine", "dot")


def vectors(count=5, seed=0, width=4):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(count, width, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def by_loop(anchor, positive, temperature, similarity, groups=None, others=None):
    def score(a, b):
        product = (a * b).sum()
        return (product if similarity == "dot" else product / (a.norm() * b.norm())) / temperature

    losses = []
    for item in range(len(anchor)):
        rivals = [other for other in range(len(anchor)) if other != item
                  and (groups is None or groups[other] != groups[item])]
        negatives = [part[other] for part in ([positive] if others is None else [positive, others])
                     for other in rivals]
        own = score(anchor[item], positive[item]).exp()
        total = own + sum(score(anchor[item], negative).exp() for negative in negatives)
        losses.append(-(own / total).log())
    return torch.stack(losses)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("groups", [None, [0, 1, 0, 2, 1]])
@pytest.mark.parametrize("with_others", [False, True])
def test_values_and_gradients_are_those_of_a_loop(similarity, groups, with_others):
    anchor, positive, others = vectors()
    if not with_others:
        others = None
    inputs = [part for part in (anchor, positive, others) if part is not None]
    names = None if groups is None else torch.tensor(groups)
    found = pair_contrast(anchor, positive, 0.7, similarity, names, others)
    expected = by_loop(anchor, positive, 0.7, similarity, groups, others)
    torch.testing.assert_close(found, expected)
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad((weights * loss).sum(), inputs) for loss in (found, expected)),
                          strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_equal_similarities_give_the_log_of_the_number_of_candidates(similarity):
    same = torch.ones(7, 3)
    torch.testing.assert_close(pair_contrast(same, same, 0.1, similarity), torch.full((7,), math.log(7)))
    with_others = pair_contrast(same, same, 0.1, similarity, others=same)
    torch.testing.assert_close(with_others, torch.full((7,), math.log(1 + 12)))
    grouped = pair_contrast(same, same, 0.1, similarity, torch.tensor([0, 0, 0, 1, 1, 2, 3]), same)
    torch.testing.assert_close(grouped, torch.tensor([1 + 8.0] * 3 + [1 + 10.0] * 2 + [1 + 12.0] * 2).log())


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_without_negatives_loss_and_gradient_are_zero(similarity):
    anchor, positive, others = vectors(3)
    alone = pair_contrast(anchor[:1], positive[:1], 0.1, similarity, others=others[:1])
    one_group = pair_contrast(anchor, positive, 0.1, similarity, torch.tensor([4, 4, 4]), others)
    assert alone.tolist() == [0.0] and one_group.tolist() == [0.0] * 3
    for gradient in torch.autograd.grad(alone.sum() + one_group.sum(), (anchor, positive, others)):
        assert not gradient.any()


def test_saturated_losses_stay_exact():
    long = 1e3 * torch.eye(4)
    assert pair_contrast(long, long, 0.1, "dot").tolist() == [0.0] * 4
    wrong = pair_contrast(long, long.roll(1, 0), 0.1, "dot")
    torch.testing.assert_close(wrong, torch.full((4,), 1e7))


def test_half_precision_is_widened_under_autocast_too():
    anchor, positive, _ = (part.detach().bfloat16() for part in vectors())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pair_contrast(anchor, positive, 0.1, "cosine")
    torch.testing.assert_close(found, pair_contrast(anchor.float(), positive.float(), 0.1, "cosine"))
    assert found.dtype == torch.float32
