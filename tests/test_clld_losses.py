"""The contrasts of the CLLD track: their properties, loops from the formulas, gradients, precision."""

import math

import pytest
import torch
from torch.nn.functional import cosine_similarity

from models.clld.clld import (
    AdaptiveSchedule,
    counted_distance,
    label_distance_contrast,
    log_share_of_positives,
    supervised_contrast,
    twin_contrast,
    update_label_distance,
)

AXES = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
AB = torch.tensor([0, 1, 0, 1])


def some(count=4, classes=3, width=5, seed=0):
    """Vectors of two views, their classes, and an unsymmetric matrix with a diagonal that is not 1."""
    random = torch.Generator().manual_seed(seed)
    h = torch.randn(2 * count, width, generator=random, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(classes, (count,), generator=random).repeat(2)
    ldm = 1 + 4 * torch.rand(classes, classes, generator=random, dtype=torch.float64)
    return h, labels, ldm


def rescaled_cosine(h):
    """CLLD eq. 4."""
    return (cosine_similarity(h[:, None], h[None], dim=-1) + 1) / 2


def shares(h, labels, ldm, temperature=1.0):
    """q and z (2M, 2M) of CLLD eq. 12, 13 by plain loops."""
    count, pairs = len(h), []
    for i in range(count):
        row = []
        for j in range(count):
            cosine = sum(a * b for a, b in zip(h[i], h[j], strict=True)) / (h[i].norm() * h[j].norm())
            row.append(0.0 if i == j else (ldm[labels[i], labels[j]] * (cosine + 1) / 2 / temperature).exp())
        total = sum(row)
        same = [float(i != j and labels[i] == labels[j]) for j in range(count)]
        pairs.append(([value / total for value in row], [value / sum(same) for value in same]))
    return pairs


def by_loop(h, labels, ldm, temperature=1.0):
    """CLLD eq. 11 by plain loops."""
    total = 0.0
    for q, z in shares(h, labels, ldm, temperature):
        for share, wanted in zip(q, z, strict=True):
            if wanted > 0:
                total = total - (wanted * torch.log(share) - wanted * math.log(wanted))
    return total / len(h)


def test_worked_example():
    five = torch.tensor([[1.0, 5.0], [5.0, 1.0]])
    for ldm, expected in ((torch.ones(2, 2), 0.794377), (five, 2.298916), (torch.full((2, 2), 5.0), 0.152008)):
        assert label_distance_contrast(AXES, AB, ldm).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("diagonal", [None, 0.0, -3.0])
def test_values_and_gradients_are_those_of_a_loop(diagonal, temperature):
    """Self-pairs stay out, whatever the diagonal of the matrix (eq. 5 after eq. 8)."""
    h, labels, ldm = some()
    if diagonal is not None:
        ldm.fill_diagonal_(diagonal)
    ldm.requires_grad_()
    found, expected = label_distance_contrast(h, labels, ldm, temperature), by_loop(h, labels, ldm, temperature)
    torch.testing.assert_close(found, expected)
    assert found > 0
    torch.testing.assert_close(*(torch.autograd.grad(loss, h)[0] for loss in (found, expected)))
    assert torch.autograd.grad(label_distance_contrast(h, labels, ldm), ldm, allow_unused=True) == (None,)


def test_gradients_are_those_of_finite_differences():
    h, labels, ldm = some()
    assert torch.autograd.gradcheck(lambda h: label_distance_contrast(h, labels, ldm, 0.5), h)
    assert torch.autograd.gradcheck(lambda h: supervised_contrast(h, labels, 0.5), h)
    assert torch.autograd.gradcheck(lambda h: twin_contrast(h, 0.5), h)


def supcon_out(h, labels, temperature):
    losses = []
    for i in range(len(h)):
        others = [j for j in range(len(h)) if j != i]
        scores = {j: cosine_similarity(h[i], h[j], dim=0) / temperature for j in others}
        total = torch.stack(list(scores.values())).logsumexp(0)
        positives = [j for j in others if labels[j] == labels[i]]
        losses.append(-sum(scores[j] - total for j in positives) / len(positives))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("c", [1.0, 4.0])
def test_a_constant_matrix_is_supervised_contrast_at_temperature_2_over_c(c):
    h, labels, _ = some(6)
    found = label_distance_contrast(h, labels, c * torch.ones(3, 3, dtype=torch.float64))
    counts = torch.bincount(labels)[labels].double() - 1
    torch.testing.assert_close(found, supcon_out(h, labels, 2 / c) - counts.log().mean())
    torch.testing.assert_close(supervised_contrast(h, labels, 2 / c), supcon_out(h, labels, 2 / c))
    three_views, three = torch.cat([h, h[:6] + 0.1]), torch.cat([labels, labels[:6]])
    torch.testing.assert_close(supervised_contrast(three_views, three, 0.3), supcon_out(three_views, three, 0.3))


def test_twin_contrast_is_a_loop_over_second_views():
    h, *_ = some(5)
    losses = []
    for i in range(5):
        scores = torch.stack([cosine_similarity(h[i], h[5 + j], dim=0) / 0.05 for j in range(5)])
        losses.append(scores.logsumexp(0) - scores[i])
    torch.testing.assert_close(twin_contrast(h), torch.stack(losses).mean())
    torch.testing.assert_close(twin_contrast(torch.ones(14, 3)), torch.tensor(math.log(7)))


def test_gradients_of_similarities_are_d_times_q_minus_z():
    """So a larger distance pushes a negative away harder, and a positive is drawn nearer where q < z."""
    h, labels, ldm = some()
    similarity = rescaled_cosine(h.detach()).requires_grad_()
    distance = ldm[labels][:, labels]
    log_q, counts = log_share_of_positives(similarity * distance, labels)
    (-log_q - counts.log()).mean().backward()
    q, z = (torch.tensor(rows, dtype=torch.float64) for rows in
            zip(*shares(h.detach(), labels, ldm), strict=True))
    torch.testing.assert_close(similarity.grad, distance * (q - z) / 8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision_is_widened(dtype, autocast):
    h, labels, ldm = some(16)
    half = h.detach().to(dtype).requires_grad_()
    exact = half.detach().float()
    losses = [lambda h: label_distance_contrast(h, labels, 50 * ldm), lambda h: supervised_contrast(h, labels),
              twin_contrast]
    for loss in losses:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            found = loss(half)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, loss(exact))
        assert torch.autograd.grad(found, half)[0].isfinite().all()


def test_degenerate_batches_have_finite_gradients():
    zeros = torch.zeros(4, 3, requires_grad=True)  # no direction: cosine 0 to everything, itself apart
    loss = label_distance_contrast(zeros, AB, torch.ones(2, 2))
    assert loss.item() == pytest.approx(math.log(3))
    assert torch.autograd.grad(loss, zeros)[0].isfinite().all()
    alone = torch.randn(1, 3, requires_grad=True)
    apart = torch.randn(3, 3, requires_grad=True)  # nobody has a positive
    classes = torch.arange(3)
    for loss, vectors in ((label_distance_contrast(alone, classes[:1], torch.ones(1, 1)), alone),
                          (supervised_contrast(alone, classes[:1]), alone),
                          (label_distance_contrast(apart, classes, torch.ones(3, 3)), apart),
                          (supervised_contrast(apart, classes), apart),
                          (twin_contrast(torch.cat([alone, alone])), alone)):
        assert loss.item() == 0 and not torch.autograd.grad(loss, vectors)[0].any()
    mixed = torch.randn(3, 3, requires_grad=True)  # the third has no positive, and is left out of the mean
    log_q, _ = log_share_of_positives(rescaled_cosine(mixed), torch.tensor([0, 0, 1]))
    found = label_distance_contrast(mixed, torch.tensor([0, 0, 1]), torch.ones(2, 2))
    torch.testing.assert_close(found, -log_q[:2].mean())
    assert torch.autograd.grad(found, mixed)[0].isfinite().all()


# Label distance matrices (Algorithm 1): counts by hand, static pairs, the schedule


# Class 0 is taken for 1 twice and for 2 once, 1 for 0 once, 2 never for another.
CONFUSION = torch.tensor([[7, 2, 1], [1, 4, 0], [0, 0, 8]])


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype))


def test_shares_of_confusions_are_scaled_to_tau():
    # P: 0.2, 0.1 of class 0; 0.2 of class 1. S: 0.2 between 0 and 1, 0.05 between 0 and 2, the largest 0.2.
    close(counted_distance(CONFUSION), [[1, 5, 2], [5, 1, 1], [2, 1, 1]])


def test_full_strength_gives_the_new_matrix_and_none_leaves_the_old():
    old = 1 + torch.rand(3, 3, requires_grad=True)
    assert not update_label_distance(old, CONFUSION, 0.5).requires_grad
    assert torch.equal(update_label_distance(old, CONFUSION, 1.0), counted_distance(CONFUSION).float())
    assert torch.equal(update_label_distance(old, CONFUSION, 0.0), old)
    close(update_label_distance(torch.ones(3, 3), CONFUSION, 0.25), [[1, 2, 1.25], [2, 1, 1], [1.25, 1, 1]])


def test_updates_get_weaker_to_nothing():
    schedule = AdaptiveSchedule(4, 25)
    assert (schedule.interval, schedule.total_steps) == (2, 100)
    assert [step for step in range(1, 101) if schedule.updates(step)] == [40, 60, 80, 100]  # 20 are a fifth
    assert [schedule.strength(step) for step in (0, 20, 100)] == [1.0, 0.8, 0.0]
    few = AdaptiveSchedule(10, 3)
    assert few.interval == 1 and [s for s in range(1, 31) if few.updates(s)] == [10, 20, 30]
