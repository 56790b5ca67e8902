"""Models of transformers of width 16 over a vocabulary of 30 tokens, and batches for them."""

import torch
from transformers import GPT2Config, MT5Config, MT5ForConditionalGeneration, T5Config

from models.common.decoding import Rules
from models.hcl.pretrained import T5, DialoGpt, SimCtg, T5Claps

VOCABULARY, PAD, END, MEAN = 30, 0, 3, 5.0
CLASSES = {"dialogpt": DialoGpt, "simctg": SimCtg, "t5": T5, "t5_claps": T5Claps}
PROMPTED = ("dialogpt", "simctg")


def config(name, **changes):
    """Configuration of a model without dropout."""
    ends = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "eos_token_id": END, "mean_target_length": MEAN}
    if name in PROMPTED:
        still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return GPT2Config(n_positions=40, n_embd=16, n_layer=2, n_head=2, bos_token_id=END,
                          **{**ends, **still, **changes})
    kind = MT5Config if name == "mt5" else T5Config
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0}
    return kind(decoder_start_token_id=PAD, **{**ends, **sizes, **changes})


def model(name, seed=0, **changes):
    """A model in float64 and evaluation mode, so different in what it says that ties are no matter."""
    torch.manual_seed(seed)
    built = (MT5ForConditionalGeneration if name == "mt5" else CLASSES[name])(config(name, **changes))
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.4, generator=generator)
        built.get_input_embeddings().weight[END] *= 3  # some outputs end early
    return built.double().eval()


def rules(shortest=2, longest=6, banned=(PAD, 1, 2, 4)):
    return Rules(END, PAD, shortest, longest, banned)


def padded(rows, extra=0):
    length = max(map(len, rows)) + extra
    mask = torch.arange(length)[None, :] < torch.tensor([len(row) for row in rows])[:, None]
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows]), mask


def texts(count=5, seed=0):
    """Drawn sources and targets of 2 to 6 tokens."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 7, (2, count), generator=random).tolist()
    return [[torch.randint(5, VOCABULARY, (length,), generator=random).tolist() for length in row] for row in lengths]


def batch(name, pairs, extra=0):
    """Tensors of (sources, targets); a decoder alone begins with the end token, T5 with padding."""
    start = END if name in PROMPTED else PAD
    tensors = {}
    tensors["x_ids"], tensors["x_mask"] = padded([[*row, END] for row in pairs[0]], extra)
    tensors["y_in"], tensors["y_in_mask"] = padded([[start, *row] for row in pairs[1]], extra)
    tensors["y_out"], _ = padded([[*row, END] for row in pairs[1]], extra)
    return tensors


def outputs(tokens):
    """The tokens of each row before its end."""
    return [row[:row.index(END)] for row in tokens.tolist()]
