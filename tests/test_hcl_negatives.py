"""Several negatives per item: the two readings of the instance contrast, and the way from items to the loss."""

import math

import pytest
import tiny_bert
import tiny_hcl
import tiny_items
import torch

from models.common.losses import instance_contrast
from models.hcl import BatchTotals, Monitor, objective
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.items import joined_items

FORMS = ("infonce_negdist", "printed")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def printed(d_pos, d_neg, t):
    """-log(1 - softmax of d+), from the formula."""
    weights = [math.exp(d / t) for d in (d_pos, *d_neg)]
    return -math.log(1 - weights[0] / sum(weights))


def infonce(d_pos, d_neg, t):
    """-log of the softmax weight of -d+ among all -d."""
    weights = [math.exp(-d / t) for d in (d_pos, *d_neg)]
    return -math.log(weights[0] / sum(weights))


# The loss


@pytest.mark.parametrize(("form", "oracle"), [("printed", printed), ("infonce_negdist", infonce)])
def test_the_loss_equals_its_formula_over_the_real_negatives(form, oracle):
    d_pos, d_neg, real = normal(6).abs(), normal(6, 3, seed=1).abs(), torch.rand(6, 3) < 0.6
    real[:, 0] = True
    found = instance_contrast(d_pos, d_neg, 0.7, real, form)
    for b in range(6):
        kept = d_neg[b][real[b]].tolist()
        assert found[b].item() == pytest.approx(oracle(d_pos[b].item(), kept, 0.7), abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_one_negative_makes_all_forms_equal(form):
    d_pos, d_neg = normal(20).abs(), normal(20, seed=1).abs()
    alone = instance_contrast(d_pos, d_neg, 0.3)
    torch.testing.assert_close(instance_contrast(d_pos, d_neg[:, None], 0.3, None, form), alone, atol=1e-6, rtol=0)
    masked = torch.stack([normal(20, seed=2), d_neg, normal(20, seed=3)], dim=1)
    real = torch.tensor([False, True, False]).expand(20, 3)
    torch.testing.assert_close(instance_contrast(d_pos, masked, 0.3, real, form), alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_far_distances_and_rows_without_negatives_stay_finite(form):
    d_pos = torch.tensor([1e4, 0.0, 2.0], requires_grad=True)
    d_neg = torch.tensor([[0.0, 1e4], [1e4, 1e4], [7.0, 9.0]], requires_grad=True)
    real = torch.tensor([[True, True], [True, False], [False, False]])
    loss = instance_contrast(d_pos, d_neg, 0.1, real, form)
    loss[:2].sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(d_pos.grad).all() and torch.isfinite(d_neg.grad).all()
    assert d_neg.grad[1, 1] == 0 and (d_neg.grad[2] == 0).all()


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="multi_neg is 'hardest', expected one of infonce_negdist, printed"):
        instance_contrast(torch.zeros(1), torch.zeros(1, 2), 1.0, multi_neg="hardest")
    with pytest.raises(ValueError, match="contrasts.instance.multi_neg is 'hardest'"):
        tiny_hcl.config(contrasts={"instance": {"multi_neg": "hardest"}})


# The model


def several(batch, count):
    """``batch`` with ``count`` negatives per item, the first its own."""
    texts = [(batch["neg_ids"].roll(k, 0), batch["neg_mask"].roll(k, 0)) for k in range(count)]
    return {**batch, "neg_ids": torch.stack([ids for ids, _ in texts], 1),
            "neg_mask": torch.stack([mask for _, mask in texts], 1),
            "has_negative": batch["has_negative"].unsqueeze(1).repeat(1, count)}


@pytest.mark.parametrize("form", FORMS)
def test_each_negative_is_read_like_a_single_one(form):
    model, batch = tiny_hcl.model(contrasts={"instance": {"multi_neg": form}}), tiny_hcl.batch()
    many = several(batch, 3)
    many["has_negative"][1, 2] = False
    output = model(many)
    latent, instance = output.latent, output.contrasts["instance"]
    for k in range(3):
        alone = model({**batch, "neg_ids": many["neg_ids"][:, k], "neg_mask": many["neg_mask"][:, k]}).latent
        torch.testing.assert_close(latent.d_neg[:, k], alone.d_neg, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(latent.negative.mu[:, k], alone.negative.mu, atol=1e-5, rtol=1e-5)
    expected = instance_contrast(latent.d_pos, latent.d_neg, 0.1, many["has_negative"], form)
    torch.testing.assert_close(instance.loss, expected)
    nearest = [min(d[real].tolist()) for d, real in zip(latent.d_neg, many["has_negative"], strict=True)]
    ahead = (torch.tensor(nearest) - latent.d_pos.detach()) / 0.1
    torch.testing.assert_close(instance.gap, ahead, atol=1e-4, rtol=1e-4)


def test_one_negative_in_the_shape_of_several_gives_the_same_numbers():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    one, many = (objective(model(b), model.config, 1.0)[1] for b in (batch, several(batch, 1)))
    for name, value in one.items():
        torch.testing.assert_close(many[name], value, atol=1e-6, rtol=1e-6)


def test_a_masked_negative_may_hold_anything():
    model, batch = tiny_hcl.model(), several(tiny_hcl.batch(), 2)
    batch["has_negative"][:, 1] = False
    loss = objective(model(batch), model.config, 1.0)[0]
    batch["neg_ids"][:, 1] = 7
    torch.testing.assert_close(objective(model(batch), model.config, 1.0)[0], loss)


def test_items_without_any_negative_are_masked_and_counted_once():
    model, batch = tiny_hcl.model(), several(tiny_hcl.batch(), 3)
    batch["has_negative"][:2] = False
    batch["has_negative"][3, 1:] = False
    output = model(batch)
    assert BatchTotals.of(output).negatives == 2
    _, parts = objective(output, model.config, 1.0)
    torch.testing.assert_close(parts["instance"], output.contrasts["instance"].loss[2:].mean())
    monitor = Monitor(model.config)
    monitor.add(output)
    values = monitor.values()
    assert values["instance_masked"] == 0.5
    real = output.latent.kl_negative[batch["has_negative"]]
    assert values["kl_negative"] == pytest.approx(real.mean().item())
    loss, _ = objective(output, model.config, 1.0)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


# Items and batches


@pytest.fixture
def tables():
    tables = tiny_items.tables()
    further = [[] for _ in tiny_items.SOURCES]
    further[0], further[2] = [5, 8], [2]  # text ids
    tables["examples"]["further_negative_ids"] = further
    return tables


def test_items_list_all_negatives_best_first(tables):
    items, texts = joined_items(**tables), tables["texts"].set_index("text_id")["text"]
    assert items.loc[0, "negatives"] == [tiny_items.NEGATIVES[0], texts[5], texts[8]]
    assert items.loc[1, "negatives"] == [tiny_items.NEGATIVES[1]]
    assert items.loc[5, "negatives"] == []
    assert items["negative"].isna().tolist() == [not negatives for negatives in items["negatives"]]
    assert items["negative"].tolist()[:3] == [negatives[0] for negatives in items["negatives"][:3]]
    assert items["target_keyword"].tolist() == tiny_items.KEYWORDS
    assert [word if isinstance(word, str) else None for word in items["negative_keyword"]] == tiny_items.OTHER


def test_batches_hold_all_negatives_of_an_item(tables, tmp_path):
    tokenizer, items = tiny_bert.tokenizer(tmp_path), joined_items(**tables)
    batches = TripleBatches(items, tokenizer, 8, 8)
    batch = batches.batch([0, 1, 5])
    assert batch["has_negative"].tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert batch["neg_ids"].shape[:2] == batch["neg_mask"].shape[:2] == (3, 3)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    for slot, text in enumerate(items.loc[0, "negatives"]):
        words = tokenizer(text, add_special_tokens=False)["input_ids"][:8]
        assert batch["neg_ids"][0, slot][batch["neg_mask"][0, slot]].tolist() == [cls, *words, sep]
    assert batch["neg_ids"][1, 2][batch["neg_mask"][1, 2]].tolist() == [cls, sep]
    assert batches.has_negative.tolist() == [text is not None for text in tiny_items.NEGATIVES]


def test_one_negative_per_item_keeps_its_plain_shape(tmp_path):
    batches = TripleBatches(joined_items(**tiny_items.tables()), tiny_bert.tokenizer(tmp_path), 8, 8)
    batch = batches.batch([0, 5])
    assert batch["has_negative"].tolist() == [True, False]
    assert batch["neg_ids"].dim() == 2
    assert batches.n_negatives == 1
