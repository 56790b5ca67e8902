"""IANet's aggregation model: its two sequences, its decoder layer; the rest is tested in test_rewriters.py."""

import math
from dataclasses import replace
from itertools import groupby

import pytest
import torch
from transformer_cases import FIRST_WORD, RULES, VOCABULARY, encoded, model, peaked, tagged_batch

from models.common import EOS, MASK, PAD
from models.common.transformer import Decoder, DecoderStep, Heads, masking
from models.pgkpr.rewriters import AggregationLayer, primary_secondary

BOUND = 1e-5


def drawn(count=200, longest=9, seed=0):
    """Words, primary or not, and lengths from 1 to ``longest``; the mask is True here and there behind the text too."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, VOCABULARY, (count, longest), generator=random)
    lengths = torch.randint(1, longest + 1, (count,), generator=random)
    mask = torch.rand(ids.shape, generator=random) < torch.rand(count, 1, generator=random)
    return ids.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), PAD), mask, lengths


def texts(ids, mask, lengths):
    """Each text as (word, whether it is primary)."""
    return [list(zip(row[:length], primary[:length], strict=True))
            for row, primary, length in zip(ids.tolist(), mask.tolist(), lengths.tolist(), strict=True)]


def rows(sequence):
    """Real tokens of each row; there must be nothing behind them."""
    ids, real = sequence
    assert torch.equal(real, torch.arange(ids.shape[1]) < real.sum(1, keepdim=True))
    assert (ids[~real] == PAD).all()
    return [row[there].tolist() for row, there in zip(ids, real, strict=True)]


def ended(output):
    """An output up to its end."""
    return output.tolist()[: output.tolist().index(EOS)]


def test_sequences_are_those_of_a_plain_loop_as_wide_as_the_longest():
    ids, mask, lengths = drawn()
    for sequence, kind in zip(primary_secondary(ids, mask, lengths), (True, False), strict=True):
        expected = [[token for primary, run in groupby(text, key=lambda pair: pair[1])
                     for token in ([word for word, _ in run] if primary == kind else [MASK])]
                    for text in texts(ids, mask, lengths)]
        assert rows(sequence) == expected
        assert sequence[0].shape[1] == max(map(len, expected))


@pytest.mark.parametrize("primary", [True, False])
def test_a_text_of_one_kind_leaves_a_single_mask_to_the_other(primary):
    ids, mask, lengths = drawn()
    kinds = primary_secondary(ids, torch.full_like(mask, primary), lengths)
    whole, other = kinds if primary else reversed(kinds)
    assert rows(whole) == [[word for word, _ in text] for text in texts(ids, mask, lengths)]
    assert rows(other) == [[MASK]] * len(ids)


def attended(attention, queries, states, allowed):
    """Multi-head attention of one item, head by head; ``allowed`` (T, S)."""
    size = queries.shape[-1] // attention.heads
    contexts = []
    for head in range(attention.heads):
        part = slice(head * size, (head + 1) * size)
        scores = attention.query(queries)[:, part] @ attention.key(states)[:, part].T / math.sqrt(size)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        contexts.append(weights @ attention.value(states)[:, part])
    return attention.output(torch.cat(contexts, dim=-1))


@torch.no_grad()
def test_a_layer_attends_to_both_memories_from_one_state_and_normalises_the_sum():
    torch.manual_seed(0)
    decoder = Decoder({"width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.5, "layers": 1},
                      AggregationLayer).eval()
    (layer,) = decoder.layers
    for norm in (part for part in layer.modules() if isinstance(part, torch.nn.LayerNorm)):
        torch.nn.init.normal_(norm.weight)
    hidden, causal = torch.randn(3, 4, 8), torch.ones(4, 4, dtype=torch.bool).tril()
    memories = [(torch.randn(3, size, 8), torch.arange(size) < torch.tensor([[size], [1], [2]])) for size in (5, 3)]
    places, hide = Heads(2), torch.zeros(4, 4).masked_fill(~causal, -math.inf)
    biases = [masking(real, hidden)[:, None, None] for _, real in memories]
    given = [part for number, (states, _) in enumerate(memories) for part in decoder.project(number, states, places)]
    step = DecoderStep(places, [None], hide, [[given[:2]], [given[2:]]], biases, [None] * 4)
    found = layer(hidden, step, 0)
    for item in range(3):
        normed = layer.self_norm(hidden[item])
        x = hidden[item] + attended(layer.self_attention, normed, normed, causal)
        queries = layer.cross_norm(x)
        x1, x2 = (x + attended(attention, queries, states[item], real[item].expand(4, -1))
                  for attention, (states, real) in zip(layer.to_memories(), memories, strict=True))
        total = x1 + x2
        spread = (total.var(-1, correction=0, keepdim=True) + layer.joint_norm.eps).sqrt()
        x = (total - total.mean(-1, keepdim=True)) / spread * layer.joint_norm.weight
        expected = x + layer.narrow(layer.widen(x).clamp(min=0))
        torch.testing.assert_close(found[item], expected, atol=BOUND, rtol=BOUND)


def test_each_encoder_reads_its_own_sequence():
    built, (batch, mask) = model("ianet"), tagged_batch()
    primary, secondary = primary_secondary(batch["x_ids"], mask, batch["x_lengths"])
    one, other, *given = built.memory(batch, mask)
    assert torch.equal(one[:, 0, 0] == 0, primary[1]) and torch.equal(other[:, 0, 0] == 0, secondary[1])
    (layer,) = built.decoder.layers
    for keys, encoder, sequence, attention in zip(given[::2], built.encoders, (primary, secondary),
                                                  layer.to_memories(), strict=True):
        expected = attention.key(encoded(built, *sequence, encoder))
        torch.testing.assert_close(keys.transpose(1, 2).flatten(2)[sequence[1]], expected[sequence[1]])
    weights = [dict(encoder.named_parameters()) for encoder in built.encoders]
    assert not set(map(id, weights[0].values())) & set(map(id, weights[1].values()))
    assert not torch.equal(*(found["layers.0.widen.weight"] for found in weights))


@pytest.mark.parametrize("primary", [True, False])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_texts_of_one_kind_are_learnt_from_and_rewritten(primary, num_beams):
    built, (batch, mask) = peaked("ianet"), tagged_batch()
    mask = torch.full_like(mask, primary)
    parts = built.sums(batch, mask)
    parts["generation"].backward()
    assert all(parameter.grad.isfinite().all() for parameter in built.parameters())
    mixed, rules = mask.clone(), replace(RULES, min_length=2)
    mixed[1::2] = not primary  # both kinds in one batch
    together = built.rewrite(batch, mixed, rules, num_beams)[::2]
    for row, output in zip(built.rewrite(batch, mask, rules, num_beams)[::2], together, strict=True):
        assert ended(row) == ended(output) and len(ended(output)) >= 2


def test_primary_words_must_be_given():
    built, (batch, _) = model("ianet"), tagged_batch()
    assert built.uses_keywords
    with pytest.raises(ValueError, match=r"IaNet: give the primary words of the sources, mask \(B, L\)"):
        built.sums(batch, None)
