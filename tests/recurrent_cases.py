"""Small LSTM rewriters and batches of drawn words, for the tests of both."""

import torch
from tiny_rewriters import settings

from models.common import BOS, EOS, PAD
from models.common.decoding import Rules
from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import rewriter_of

VOCABULARY, FIRST_WORD = 30, 7
ARCHITECTURES = ("residual_lstm", "latent_bow")
RULES = Rules(end=EOS, pad=PAD, min_length=0, max_length=6, banned=(0, 1, 2, 4, 5, 6))


def model(architecture, seed=0, **values):
    """A model of width 16 in evaluation mode; ``values`` are laid over its own block of settings."""
    config = RewriterConfig.from_params(settings(architecture, **{architecture: values}), VOCABULARY)
    torch.manual_seed(seed)
    return rewriter_of(config).eval()


def peaked(architecture, seed=0, **values):
    """Likewise, with words so unlike in score that outputs differ and end at different steps."""
    found = model(architecture, seed, **values)
    scale, ending = {"residual_lstm": (15, 1), "latent_bow": (8, 2)}[architecture]
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if "bias" not in name:
                parameter.mul_(scale)
        found.words.bias[EOS] += ending
    return found


def batch(count=5, seed=0, longest=6):
    """Sources and targets of 1 .. ``longest`` words, padded to one word more than the longest."""
    random = torch.Generator().manual_seed(seed)
    texts = [_texts(count, longest, random) for _ in range(2)]
    (x_ids, x_lengths), (targets, lengths) = texts
    ends = torch.full((count, 1), PAD)
    y_out = torch.cat([targets, ends], dim=1).scatter(1, lengths.unsqueeze(1), EOS)
    words = [sorted(set(row.tolist()) - {PAD}) for row in targets]
    bow_ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in words])
    return {"x_ids": x_ids, "x_lengths": x_lengths, "y_out": y_out, "bow_ids": bow_ids,
            "y_in": torch.cat([torch.full((count, 1), BOS), targets], dim=1)}


def item(whole, row):
    """The batch of one item, without the padding that the others need."""
    length, real = int(whole["x_lengths"][row]), int((whole["y_out"][row] != PAD).sum())
    own = {name: part[row:row + 1] for name, part in whole.items()}
    return own | {"x_ids": own["x_ids"][:, :length], "y_in": own["y_in"][:, :real], "y_out": own["y_out"][:, :real]}


def _texts(count, longest, random):
    lengths = torch.randint(1, longest + 1, (count,), generator=random)
    lengths[0] = longest
    ids = torch.randint(FIRST_WORD, VOCABULARY, (count, longest + 1), generator=random)
    return ids.masked_fill(torch.arange(longest + 1) >= lengths.unsqueeze(1), PAD), lengths
