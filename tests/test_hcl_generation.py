"""Decoding with the HCL model: beams, lengths, padding, caching and z."""

import pytest
import tiny_hcl
import torch
from whole_steps import whole

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


def condition(model, items):
    """Memory, its mask and z = mu_p of the prior, by hand."""
    ids, mask, nodes = items
    hidden = model.encode(ids, mask)
    h_x = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    z = model.prior(h_x, model.keyword_vectors()[nodes]).mu
    return *model.memory(hidden, mask, None, z), z


@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}}, {"decoder": {"kw_memory": True}}])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_caching_changes_nothing(num_beams, groups, monkeypatch):
    model = tiny_hcl.model(**groups)
    cached = paraphrase(model, num_beams=num_beams)
    monkeypatch.setattr(HclModel, "steps", whole)
    assert torch.equal(cached, paraphrase(model, num_beams=num_beams))


@torch.no_grad()
def test_a_cached_step_gives_the_scores_of_the_whole_prefix():
    from transformers import DynamicCache, EncoderDecoderCache

    model = tiny_hcl.model()
    memory, mask, z = condition(model, inputs())
    tokens = tiny_hcl.batch()["y_in"]
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    whole = model.decode(tokens, memory, mask, z)
    parts = [model.decode(part, memory, mask, z, cache) for part in (tokens[:, :2], tokens[:, 2:3], tokens[:, 3:])]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)


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


def test_without_keyword_no_node_is_needed():
    model, (ids, mask, nodes) = tiny_hcl.model(keyword={"condition": False}), inputs()
    assert torch.equal(model.paraphrase(ids, mask), model.paraphrase(ids, mask, nodes))


def test_an_unseen_keyword_needs_its_vector():
    model, (ids, mask, nodes) = tiny_hcl.model(), inputs()
    vectors = torch.randn(4, tiny_hcl.WIDTH)
    unseen = nodes.clone()
    unseen[2] = -1
    found = outputs(model.paraphrase(ids, mask, unseen, vectors))
    known = outputs(model.paraphrase(ids, mask, nodes))
    assert [found[row] for row in (0, 1, 3)] == [known[row] for row in (0, 1, 3)]
    with pytest.raises(ValueError, match="1 input keywords are no nodes; give their unseen_vectors"):
        model.paraphrase(ids, mask, unseen)


def test_misuse_is_explained():
    model, (ids, mask, nodes) = tiny_hcl.model(), inputs()
    with pytest.raises(ValueError, match=r"conditioned on keywords; give keyword_nodes \(B,\)"):
        model.paraphrase(ids, mask)
    with pytest.raises(ValueError, match=r"call eval\(\) before paraphrase\(\)"):
        model.train().paraphrase(ids, mask, nodes)
    model.eval()
    with pytest.raises(ValueError, match="give a batch to train on, or call paraphrase"):
        model()
    with pytest.raises(ValueError, match=r"decoding needs latent \(B, dz\)"):
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=3)
