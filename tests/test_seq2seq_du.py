"""Seq2Seq-DU as it is adapted (docs/hcl.md)."""

import pytest
import torch
from piece_cases import SOURCES, Case
from transformers import AutoModel

from models.common.encoders import mean_pool


@pytest.fixture
def case(tmp_path):
    return Case("seq2seq_du", tmp_path, wide=0.4)


def test_it_begins_with_the_encoder(tmp_path):
    own = Case("seq2seq_du", tmp_path).model.encoder.state_dict()
    encoder = AutoModel.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(tensor, encoder[name]) for name, tensor in own.items())


def test_the_schema_is_the_keyword_and_others_that_the_text_holds(case):
    model = case.model
    assert model.phrases(SOURCES[0]) == ["language", "learn"]
    assert model.phrases("a dog? A CAT, in the catalogue") == ["cat", "dog"]
    assert model.phrases("nothing of that") == []
    found = model.inputs([SOURCES[0], "nothing of that"], case.tokenizer)
    assert found["s_real"].tolist() == [[True, True], [True, False]]
    assert case.tokenizer.batch_decode(found["s_ids"][0], skip_special_tokens=True) == ["language", "learn"]
    assert found["s_ids"][1, 0].tolist()[:2] == [case.marks.start, case.marks.end]  # no text without any row


@torch.no_grad()
def test_attention_goes_both_ways(case):
    """D'_i and S'_j are sums over the other side, whose weights are a softmax of v tanh(W1 d + W2 s)."""
    model, batch = case.model, case.batch([0])
    tokens = model.encoder(input_ids=batch["x_ids"], attention_mask=batch["x_mask"].long()).last_hidden_state[0]
    states = model.encoder(input_ids=batch["s_ids"][0], attention_mask=batch["s_mask"][0].long()).last_hidden_state
    schema = mean_pool(states, batch["s_mask"][0])

    def drawn(attention, queries, slots):
        sums = torch.stack([torch.stack([torch.tanh(attention.keys(slot) + attention.queries(query)) for slot in slots])
                            for query in queries])
        return attention.score(sums).squeeze(-1).softmax(-1) @ slots

    _, given = model.encode(batch)
    source = model.fuse_source(torch.cat([tokens, drawn(model.to_schema, tokens, schema)], dim=-1))
    fused = model.fuse_schema(torch.cat([schema, drawn(model.to_source, schema, tokens)], dim=-1))
    torch.testing.assert_close(given[0][0], source, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(given[3][0], fused, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_schema_is_wired_and_its_padding_is_not(case):
    batch = case.batch([1, 3])
    nll = case.model.nll(batch)
    other = {**batch, "s_ids": batch["s_ids"].flip(0), "s_mask": batch["s_mask"].flip(0),
             "s_real": batch["s_real"].flip(0)}
    assert not torch.allclose(case.model.nll(other), nll)
    more = torch.cat([batch["s_ids"], batch["s_ids"].flip(0)], dim=1)
    wider = {"s_ids": more, "s_mask": torch.cat([batch["s_mask"], batch["s_mask"].flip(0)], dim=1),
             "s_real": torch.cat([batch["s_real"], torch.zeros_like(batch["s_real"])], dim=1)}
    torch.testing.assert_close(case.model.nll({**batch, **wider}), nll)


def test_the_encoder_learns_at_its_own_rate(case):
    from stages.tracks.hcl.baselines import PieceTask

    task = PieceTask(case.model, case.batches, case.batches,
                     {"learning_rate": 0.02, "encoder_rate": 0.003, "micro_batch": 8}, 3)
    groups = {group.name: (len(list(group.parameters)), group.rate) for group in task.parameter_groups()}
    count = len(list(case.model.encoder.parameters()))
    assert groups == {"encoder": (count, 0.003), "rest": (len(list(case.model.parameters())) - count, 0.02)}
