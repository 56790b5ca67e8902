"""Small Transformer rewriters and batches of drawn words with tags, for their tests."""

import torch
from recurrent_cases import FIRST_WORD, RULES, VOCABULARY, batch, item
from tiny_rewriters import settings

from models.common import EOS, PAD
from models.common.transformer import RealTokens
from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import rewriter_of

__all__ = ["FIRST_WORD", "RULES", "VOCABULARY", "config", "encoded", "model", "peaked", "tagged_batch", "tagged_item"]


def config(architecture, **blocks):
    return RewriterConfig.from_params(settings(architecture, **blocks), VOCABULARY)


def model(architecture, seed=0, **blocks):
    """A model of width 16 in evaluation mode; ``blocks`` are laid over the tiny settings."""
    torch.manual_seed(seed)
    return rewriter_of(config(architecture, **blocks)).eval()


def peaked(architecture, seed=0, **blocks):
    """Likewise, in float64, with words so unlike in score that outputs differ and end at different steps."""
    found = model(architecture, seed, **blocks).double()
    with torch.no_grad():
        for parameter in found.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
        found.generator.bias[EOS] += 2
    return found


def tagged_batch(count=5, seed=0, longest=6):
    """Sources and targets with tags, padded to one word more than the longest; groups all differ; and a mask."""
    found = batch(count, seed, longest)
    random = torch.Generator().manual_seed(seed + 1)
    found["t_ids"] = found["y_in"][:, 1:]
    found["t_lengths"] = (found["t_ids"] != PAD).sum(1)
    for side in ("x", "t"):
        tags = torch.randint(FIRST_WORD, VOCABULARY, found[f"{side}_ids"].shape, generator=random)
        found[f"{side}_tags"] = tags.masked_fill(found[f"{side}_ids"] == PAD, PAD)
    found["group"] = torch.arange(count)
    return found, torch.rand(found["x_ids"].shape, generator=random) < 0.5


def tagged_item(whole, mask, row):
    """The batch of one item and its mask, without the padding that the others need."""
    own = item(whole, row)
    for side in ("x", "t"):
        length = int(whole[f"{side}_lengths"][row])
        own |= {name: own[name][:, :length] for name in (f"{side}_ids", f"{side}_tags")}
    return own, mask[row:row + 1, : own["x_ids"].shape[1]]


def encoded(built, ids, real=None, encoder=None):
    """The states (B, S, d) of tokens (B, S) that an encoder of ``built`` reads, and 0 at padding."""
    tokens = RealTokens(torch.ones_like(ids, dtype=torch.bool) if real is None else real)
    places, bias = built.attended(tokens)
    states = (encoder or built.encoder)(built.embedder, tokens.rows(ids), places, bias)
    return tokens.padded(states).masked_fill(~tokens.real.unsqueeze(-1), 0)
