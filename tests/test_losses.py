"""Losses against loops written from their formulas, and their properties."""

import math

import pytest
import torch

from models.common.losses import bow_loss, gaussian_kl, masked_mean, pair_contrast
from models.hcl.hcl import Contrasted, free_bits_kl, mahalanobis


def distances(right, wrong, temperature):
    return Contrasted.of_distances(right, wrong, temperature, torch.ones_like(right).bool()).loss


def similarities(right, wrong, temperature):
    return Contrasted.of_similarities(right, wrong, temperature, torch.ones_like(right).bool()).loss


CONTRASTS = (distances, similarities)


def tensor(*values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gaussians(batch=5, size=3, seed=0):
    """mu_q, logvar_q, mu_p, logvar_p (B, dz) each."""
    return normal(4, batch, size, seed=seed).unbind(0)


def test_kl_equals_a_loop_over_dimensions():
    mu_q, logvar_q, mu_p, logvar_p = gaussians()
    expected = []
    for b in range(5):
        total = 0.0
        for k in range(3):
            var_q, var_p = math.exp(logvar_q[b, k]), math.exp(logvar_p[b, k])
            squared = (mu_q[b, k] - mu_p[b, k]).item() ** 2
            total += 0.5 * (math.log(var_p) - math.log(var_q) + (var_q + squared) / var_p - 1)
        expected.append(total)
    assert gaussian_kl(mu_q, logvar_q, mu_p, logvar_p).tolist() == pytest.approx(expected)
    assert gaussian_kl(mu_q, logvar_q, mu_q, logvar_q).tolist() == [0.0] * 5


def test_free_bits_stop_the_gradients_of_all_dimensions_or_of_none():
    for nats, expected, gradient in ((2.0, 2.2, 0.5), (3.0, 3.0, 0.0)):
        kl = tensor([0.1, 3.0], [0.3, 1.0], requires_grad=True)  # means 0.2 and 2.0
        value = free_bits_kl(kl, nats)
        assert value.item() == pytest.approx(expected)
        value.backward()
        torch.testing.assert_close(kl.grad, torch.full_like(kl, gradient))


def test_distance_contrasts_equal_the_printed_form_and_infonce():
    d_pos, d_neg, t = normal(50).abs(), normal(50, seed=1).abs(), 0.3
    both = torch.stack([d_pos, d_neg]) / t
    printed = torch.logsumexp(both, 0) - both[1]  # -log(1 - softmax of d_pos), as a difference of logsumexp
    infonce = torch.logsumexp(-both, 0) + both[0]
    torch.testing.assert_close(distances(d_pos, d_neg, t), printed, atol=1e-6, rtol=0)
    torch.testing.assert_close(distances(d_pos, d_neg, t), infonce, atol=1e-6, rtol=0)


def test_keyword_contrast_equals_the_printed_form():
    s_pos, s_imp, t = normal(20).tanh(), normal(20, seed=1).tanh(), 0.4
    for index, value in enumerate(similarities(s_pos, s_imp, t).tolist()):
        a, b = math.exp(s_pos[index] / t), math.exp(s_imp[index] / t)
        assert value == pytest.approx(-math.log(a / (a + b)))


@pytest.mark.parametrize("loss", CONTRASTS)
def test_contrasts_stay_finite_and_depend_on_the_difference_alone(loss):
    large = torch.tensor([1e4, 0.0, 1e4]), torch.tensor([0.0, 1e4, 1e4])
    assert torch.isfinite(loss(*large, 1.0)).all()
    first, second = normal(10), normal(10, seed=1)
    torch.testing.assert_close(loss(first + 7.0, second + 7.0, 0.5), loss(first, second, 0.5))


def test_mahalanobis_equals_a_loop():
    points, mu, logvar = normal(3, 4, 6).unbind(0)
    expected = [sum((points[b, k] - mu[b, k]).item() ** 2 / math.exp(logvar[b, k]) for k in range(6)) / 6
                for b in range(4)]
    assert mahalanobis(points, mu, logvar).tolist() == pytest.approx(expected)


def test_masked_samples_change_nothing():
    values, mask = tensor(1.0, 5.0, math.inf, math.nan), torch.tensor([True, True, False, False])
    assert masked_mean(values, mask).item() == 3.0
    assert masked_mean(values[:2], mask[:2]).item() == 3.0


def test_mean_of_nothing_is_zero_with_zero_gradient():
    values = tensor(1.0, 2.0, requires_grad=True)
    mean = masked_mean(values, torch.tensor([False, False]))
    mean.backward()
    assert mean.item() == 0.0
    assert (values.grad == 0).all()


def test_bag_of_words_equals_a_loop_and_ignores_the_order():
    logits, targets = normal(2, 5), torch.tensor([[1, 4, 4], [0, 2, 3]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    expected = []
    for b in range(2):
        norm = math.log(sum(math.exp(x) for x in logits[b].tolist()))
        expected.append(sum(norm - logits[b, y].item() for y, real in zip(targets[b], mask[b], strict=True) if real))
    assert bow_loss(logits, targets, mask).tolist() == pytest.approx(expected)
    order = [2, 0, 1]
    torch.testing.assert_close(bow_loss(logits, targets[:, order], mask[:, order]), bow_loss(logits, targets, mask))


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
    """PGKPR eq. 3."""
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
