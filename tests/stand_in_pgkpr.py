"""A model with the outside of the public PGKPR code and an inside of our own, so that its benchmark runs without it.

Its LayerNorm divides by the unbiased deviation, as that of the public code does.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.rand(width) + 0.5), nn.Parameter(torch.rand(width))

    def forward(self, states):
        centred = states - states.mean(-1, keepdim=True)
        return self.a_2 * centred / (states.std(-1, keepdim=True) + 1e-6) + self.b_2


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.linears = heads, nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, states, memory, mask):
        query, key, value = (linear(part).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                             for linear, part in zip(self.linears, (states, memory, memory), strict=False))
        heads = F.scaled_dot_product_attention(query, key, value, mask.unsqueeze(1) != 0)
        return self.linears[3](heads.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    """Of an encoder, or, with a second attention, of a decoder."""

    def __init__(self, width, heads, wide, decodes):
        super().__init__()
        self.self_attn = Attend(width, heads)
        if decodes:
            self.src_attn = Attend(width, heads)
        self.feed_forward = nn.ModuleDict({"w_1": nn.Linear(width, wide), "w_2": nn.Linear(wide, width)})
        self.sublayer = nn.ModuleList(nn.ModuleDict({"norm": Norm(width)}) for _ in range(2 + decodes))

    def forward(self, states, mask, memory=None, seen=None):
        norms = [part["norm"] for part in self.sublayer]
        normed = norms[0](states)
        states = states + self.self_attn(normed, normed, mask)
        if memory is not None:
            states = states + self.src_attn(norms[1](states), memory, seen)
        return states + self.feed_forward["w_2"](self.feed_forward["w_1"](norms[-1](states)).relu())


class Stack(nn.Module):
    def __init__(self, layers, *sizes):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Layer(*sizes) for _ in range(layers)), Norm(sizes[0])
        self.return_layer = None

    def forward(self, states, *given):
        for layer in self.layers:
            states = layer(states, *given)
        return self.norm(states)


class Words(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.lut = nn.Embedding(vocab, width)

    def forward(self, ids):
        width = self.lut.embedding_dim
        angles = torch.arange(ids.shape[1])[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        return self.lut(ids) * width**0.5 + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Head(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.transform = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=1e-12)})
        self.decoder = nn.Linear(width, vocab)

    def forward(self, states):
        return self.decoder(self.transform["LayerNorm"](F.gelu(self.transform["dense"](states))))


class Generator(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.proj = nn.Linear(width, vocab)

    def forward(self, states):
        return self.proj(states).log_softmax(-1)


class PGKPR(nn.Module):
    def __init__(self, d_model, vocab, nhead, num_encoder, num_decoder, d_ff, dropout, mid_loss, double_pe, shared_emb):
        super().__init__()
        self.src_embed_pos = nn.Sequential(Words(vocab, d_model))
        self.encoder = Stack(num_encoder, d_model, nhead, d_ff, False)
        self.decoder = Stack(num_decoder, d_model, nhead, d_ff, True)
        self.mid_cls, self.generator = Head(vocab, d_model), Generator(vocab, d_model)

    def encode(self, source, mask):
        states = self.encoder(self.src_embed_pos(source), mask)
        return states, states if self.encoder.return_layer == len(self.encoder.layers) else None

    def decode(self, memory, seen, tokens, mask):
        return self.decoder(self.src_embed_pos(tokens), mask, memory, seen)

    def forward(self, source, tokens, seen, mask):
        memory, contrasted = self.encode(source, seen)
        return memory, contrasted, self.mid_cls(memory), self.generator(self.decode(memory, seen, tokens, mask))


def subsequent_mask(size):
    return torch.ones(1, size, size).tril() > 0


class Batch:
    def __init__(self, source, target):
        self.src, self.src_mask = source, (source != 0).unsqueeze(1)
        self.trg, self.trg_y = target[:, :-1], target[:, 1:]
        self.trg_mask = (self.trg != 0).unsqueeze(1) & subsequent_mask(self.trg.shape[1])
