"""Decoding with the HCL model: with or without a cache; padding, keywords, z."""

import pytest
import tiny_hcl
import torch
from whole_steps import whole

from models.common.decoding import CachedSteps
from models.hcl.model import HclModel

BOS, EOS, PAD = (tiny_hcl.SPECIAL_IDS[role] for role in ("bos", "eos", "pad"))


def inputs(size=4, extra=0, seed=0):
    batch = tiny_hcl.batch(size, seed=seed, extra=extra)
    return batch["x_ids"], batch["x_mask"], batch["kx"]


def paraphrase(model, items=None, **options):
    ids, mask, nodes = items or inputs()
    return model.paraphrase(ids, mask, nodes, **options)


def outputs(tokens):
    """Generated tokens of each row, without [SEP] and padding."""
    rows = []
    for row in tokens.tolist():
        end = row.index(EOS)
        assert all(token == PAD for token in row[end + 1 :])
        rows.append(row[:end])
    return rows


@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}}, {"decoder": {"kw_memory": True}}])
@pytest.mark.parametrize("options", [{"num_beams": 1}, {"num_beams": 4}, {"search": "contrastive"}])
def test_a_cache_changes_nothing(options, groups, monkeypatch):
    model = tiny_hcl.model(**groups).double()
    cached = paraphrase(model, **options)
    monkeypatch.setattr(HclModel, "steps", whole)
    assert torch.equal(cached, paraphrase(model, **options))


@pytest.mark.parametrize("search", ["beam", "contrastive"])
def test_scores_are_float32_under_autocast(search, monkeypatch):
    model, kinds, scores = tiny_hcl.model(), set(), CachedSteps.logits
    monkeypatch.setattr(CachedSteps, "logits",
                        lambda steps, states: kinds.add((states.dtype, (made := scores(steps, states)).dtype)) or made)
    monkeypatch.setattr(model.decoder.transform_norm, "forward", lambda hidden: hidden)  # it returns float32 itself
    with torch.autocast("cpu", dtype=torch.bfloat16):
        tokens = paraphrase(model, search=search)
    assert kinds == {(torch.bfloat16, torch.float32)}
    assert all(len(output) >= 5 for output in outputs(tokens))


def test_padding_and_batching_do_not_change_the_output():
    model = tiny_hcl.model()
    together = outputs(paraphrase(model))
    assert outputs(paraphrase(model, inputs(extra=6))) == together
    ids, mask, nodes = inputs()
    for row in range(4):
        real = int(mask[row].sum())
        alone = model.paraphrase(ids[[row], :real], mask[[row], :real], nodes[[row]])
        assert outputs(alone) == [together[row]]


def test_z_and_the_keyword_reach_the_output():
    model, (ids, mask, nodes) = tiny_hcl.model(), inputs()
    mean = outputs(paraphrase(model))
    assert outputs(paraphrase(model, z=torch.full((4, tiny_hcl.LATENT), 3.0))) != mean
    swapped = [outputs(model.paraphrase(ids, mask, (nodes + shift) % tiny_hcl.NODES)) for shift in range(1, 6)]
    assert any(output != mean for output in swapped)
    without = tiny_hcl.model(keyword={"condition": False})
    assert torch.equal(without.paraphrase(ids, mask), without.paraphrase(ids, mask, nodes))


def test_an_unseen_keyword_needs_its_vector():
    model, (ids, mask, nodes) = tiny_hcl.model(), inputs()
    vectors = torch.randn(4, tiny_hcl.WIDTH)
    unseen = nodes.clone()
    unseen[2] = -1
    found = outputs(model.paraphrase(ids, mask, unseen, vectors))
    known = outputs(model.paraphrase(ids, mask, nodes))
    assert [found[row] for row in (0, 1, 3)] == [known[row] for row in (0, 1, 3)]


def test_misuse_is_explained():
    model, (ids, mask, nodes) = tiny_hcl.model(), inputs()
    with pytest.raises(ValueError, match="search is 'sampling', expected 'beam' or 'contrastive'"):
        paraphrase(model, search="sampling")
    with pytest.raises(ValueError, match=r"conditioned on keywords; give keyword_nodes \(B,\)"):
        model.paraphrase(ids, mask)
    with pytest.raises(ValueError, match=r"call eval\(\) before paraphrase\(\)"):
        model.train().paraphrase(ids, mask, nodes)
