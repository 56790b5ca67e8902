"""Real tokens of a padded batch as rows: there and back, with their gradients."""

import pytest
import torch

from models.rewriters.layers import Embedder, Encoder
from models.rows import RealTokens

SIZES = {"width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0, "layers": 2}
REAL = {"some": [[True, True, False], [True, False, False]], "all": [[True, True], [True, True]]}


@pytest.mark.parametrize("which", REAL)
def test_rows_and_back(which):
    real = torch.tensor(REAL[which])
    tokens, values = RealTokens(real), torch.randn(*real.shape, 4)
    rows = tokens.rows(values)
    assert torch.equal(rows, values[real])
    assert torch.equal(tokens.padded(rows), values * real.unsqueeze(-1))
    assert torch.equal(tokens.columns(), torch.arange(real.shape[1]).expand_as(real)[real])


@pytest.mark.parametrize("which", REAL)
def test_gradients_of_both_directions(which):
    tokens = RealTokens(torch.tensor(REAL[which]))
    padded = torch.randn(*tokens.real.shape, 3, dtype=torch.float64, requires_grad=True)
    rows = tokens.rows(padded).detach().requires_grad_()
    torch.autograd.gradcheck(tokens.rows, padded)
    torch.autograd.gradcheck(tokens.padded, rows)


def test_an_encoder_computes_on_rows_what_it_would_on_each_text_alone():
    torch.manual_seed(0)
    embedder, encoder = Embedder(20, 8, 0.0), Encoder(SIZES)
    ids, real = torch.randint(20, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [3]])
    states = encoder(embedder, ids, real)
    assert not states[~real].any()
    for row in range(3):
        length = int(real[row].sum())
        alone = encoder(embedder, ids[[row], :length], real[[row], :length])
        torch.testing.assert_close(states[row, :length], alone[0], atol=1e-5, rtol=1e-5)
