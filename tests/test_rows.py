"""Real tokens of a padded batch as rows: there and back, with their gradients."""

import pytest
import torch

from models.common.transformer import Embedder, Encoder, Heads, RealTokens, masking

SIZES = {"width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0, "layers": 2}
REAL = {"some": [[True, True, False], [True, False, False]], "all": [[True, True], [True, True]]}


@pytest.mark.parametrize("which", REAL)
def test_rows_and_back(which):
    real = torch.tensor(REAL[which])
    tokens, values = RealTokens(real), torch.randn(*real.shape, 4)
    rows, count = tokens.rows(values), int(real.sum())
    assert len(rows) == count + (which == "some")  # one for all padding
    assert torch.equal(rows[:count], values[real])
    assert torch.equal(tokens.padded(rows)[real], values[real])
    assert (tokens.padded(rows)[~real] == rows[-1]).all()
    assert torch.equal(tokens.columns[:count], torch.arange(real.shape[1]).expand_as(real)[real])


@pytest.mark.parametrize("which", REAL)
def test_gradients_of_both_directions(which):
    """Of what has no use for padding, as the class demands."""
    real = torch.tensor(REAL[which])
    tokens, count = RealTokens(real), int(real.sum())
    padded = torch.randn(*real.shape, 3, dtype=torch.float64, requires_grad=True)
    rows = tokens.rows(padded).detach().requires_grad_()
    torch.autograd.gradcheck(lambda values: tokens.rows(values)[:count], padded)
    torch.autograd.gradcheck(lambda values: tokens.padded(values)[real], rows)


def test_batches_of_one_length_may_be_stacked():
    parts = [RealTokens(torch.tensor(REAL["some"])), RealTokens(torch.ones(1, 3, dtype=torch.bool)),
             RealTokens(torch.tensor([[True, False, False]]))]
    whole, values = RealTokens.stacked(parts), torch.randn(4, 3, 2)
    rows = [part.rows(some) for part, some in zip(parts, values.split([2, 1, 1]), strict=True)]
    assert torch.equal(whole.rows(values), torch.cat(rows))
    assert torch.equal(whole.padded(torch.cat(rows))[whole.real], values[whole.real])
    again = RealTokens.given(whole.named("them"), "them")
    assert torch.equal(again.rows(values), whole.rows(values))


@pytest.mark.parametrize("which", REAL)
@pytest.mark.parametrize("parts", [1, 3])
def test_heads_of_rows_are_those_of_the_padded_batch(which, parts):
    real = torch.tensor(REAL[which])
    tokens, dense = RealTokens(real), torch.randn(*real.shape, parts * 6)
    for found, expected in zip(Heads(3, tokens).split(tokens.rows(dense), parts), Heads(3).split(dense, parts),
                               strict=True):
        assert torch.equal(found.transpose(1, 2)[real], expected.transpose(1, 2)[real])
        by_token = expected.transpose(1, 2).contiguous().transpose(1, 2)  # as fused kernels leave it
        for drawn in (expected.contiguous(), by_token):
            assert torch.equal(Heads(3, tokens).joined(drawn), tokens.rows(Heads(3).joined(expected)))


def test_gradients_of_heads():
    tokens = RealTokens(torch.tensor(REAL["some"]))
    rows = torch.randn(4, 12, dtype=torch.float64, requires_grad=True)
    there = tokens.real.unsqueeze(1).unsqueeze(-1)  # (B, 1, L, 1)
    torch.autograd.gradcheck(lambda values: [part * there for part in Heads(2, tokens).split(values, 3)], rows)
    drawn = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    for order in (lambda heads: heads, lambda heads: heads.transpose(1, 2).contiguous().transpose(1, 2)):
        torch.autograd.gradcheck(lambda heads, order=order: Heads(2, tokens).joined(order(heads))[:3], drawn)


def test_an_encoder_computes_on_rows_what_it_would_on_each_text_alone():
    torch.manual_seed(0)
    embedder, encoder = Embedder(20, 8, 0.0), Encoder(SIZES)
    ids, real = torch.randint(20, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [3]])

    def states(ids, real):
        tokens = RealTokens(real)
        bias = masking(real, embedder.words.weight)[:, None, None]
        return tokens.padded(encoder(embedder, tokens.rows(ids), bias, Heads(2, tokens)))

    together = states(ids, real)
    for row in range(3):
        length = int(real[row].sum())
        alone = states(ids[[row], :length], real[[row], :length])
        torch.testing.assert_close(together[row, :length], alone[0], atol=1e-5, rtol=1e-5)
