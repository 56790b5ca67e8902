"""An HCL model of width 16 over a vocabulary of 30 word pieces, and batches for it."""

import torch
from transformers import BertConfig

from models.hcl.graph import KeywordGraph
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel

WIDTH, VOCABULARY, NODES, LATENT = 16, 30, 6, 4
SPECIAL_IDS = {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4}
# node 5 has no negative neighbour
EDGES = [(0, 1, 1), (0, 2, -1), (0, 3, -1), (1, 0, 1), (1, 4, -1), (2, 3, 1), (3, 2, -1), (4, 2, -1), (2, 5, -1)]


def encoder_config(**changes):
    values = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=VOCABULARY, max_position_embeddings=40, initializer_range=0.2, **{**values, **changes})


def keyword_graph(seed=0):
    vectors = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(seed))
    target, source, sign = torch.tensor(EDGES).unbind(-1)
    return KeywordGraph.from_edges(vectors, target, source, sign)


def config(encoder=None, **groups):
    """Configuration with ``groups`` (graph, keyword, latent, contrasts, decoder) over small defaults."""
    graph = keyword_graph()
    latent = {"size": LATENT, "free_bits": 0.5, "free_bits_for": "both"}
    block = {"latent": latent, "decoder": {"layers": 2}}
    for name, values in groups.items():
        block[name] = {**block.get(name, {}), **values}
    return HclConfig.from_params(
        block, encoder or encoder_config(), SPECIAL_IDS, graph.num_nodes, graph.num_edges, mean_target_length=6.0
    )


def model(seed=0, encoder=None, **groups):
    torch.manual_seed(seed)
    built = HclModel.from_parts(config(encoder, **groups), graph=keyword_graph())
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():  # default weights of 0.02 make all outputs alike at this width
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3, generator=generator)
    return built.eval()


def padded(rows, extra=0):
    """Ids (B, L) and mask (B, L) of rows of token ids, padded to the longest and ``extra`` more."""
    length = max(map(len, rows)) + extra
    ids = torch.tensor([row + [SPECIAL_IDS["pad"]] * (length - len(row)) for row in rows])
    mask = torch.arange(length)[None, :] < torch.tensor([len(row) for row in rows])[:, None]
    return ids, mask


def batch(size=4, seed=0, extra=0):
    """A batch of random triples; ``extra`` columns of padding on every text."""
    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    def texts():
        return [[number(5, VOCABULARY) for _ in range(number(3, 8))] for _ in range(size)]

    bos, eos = SPECIAL_IDS["bos"], SPECIAL_IDS["eos"]
    x, y, neg = texts(), texts(), texts()
    tensors = {}
    for name, rows in (("x", x), ("y", y), ("neg", neg)):
        tensors[f"{name}_ids"], tensors[f"{name}_mask"] = padded([[bos, *row, eos] for row in rows], extra)
    tensors["y_in"], tensors["y_in_mask"] = padded([[bos, *row] for row in y], extra)
    tensors["y_out"], _ = padded([[*row, eos] for row in y], extra)
    tensors["has_negative"] = torch.ones(size, dtype=torch.bool)
    for name in ("kx", "ky", "kneg"):
        tensors[name] = torch.randint(0, NODES, (size,), generator=generator)
    tensors["eps"] = torch.randn(size, LATENT, generator=generator)
    return tensors


@torch.no_grad()
def reconstruction(model, batch, source):
    """-log p(y+ | x, z) (B,) with z drawn from the ``prior``, its ``mean``, or ``zero``."""
    text, batch = model.texts(batch, ["x"])["x"], model.planned(batch)
    keyword = model.keywords(batch)
    u_in = None if keyword is None else keyword.u_in
    prior = model.prior(text.vector, u_in)
    z = {"prior": prior.sample(batch["eps"]), "mean": prior.mu, "zero": 0.0 * batch["eps"]}[source]
    return model.target_nll(model.token_scores(text.states, u_in, z, batch), batch)
