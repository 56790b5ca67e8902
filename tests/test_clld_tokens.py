"""The contrast of tokens: loops from the words, texts without tokens, micro-batches, training, what cannot be."""

import pytest
import tiny_bert
import tiny_classes
import torch
from test_params import with_clld
from tiny_clld import bert, task, textcnn, texts
from torch.nn.functional import cosine_similarity

from keycontrast.errors import InputError
from models.common.losses import supervised_contrast, token_contrast, token_similarity
from models.common.training import Step
from stages.common.encoders import resolve_encoder
from stages.params import parse_params
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.clld.architectures import architecture_of

TOKENS = {"kind": "tokens", "projection": 7, "tokens": 5}
COUNTS = [3, 1, 4, 2, 4, 1]


def some(seed=0):
    """Tokens of six texts, of 1 to 4 tokens each."""
    tokens = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    there = torch.arange(4) < torch.tensor(COUNTS).unsqueeze(1)
    return tokens.masked_fill(~there.unsqueeze(-1), 0.0).requires_grad_()


def by_loop(tokens):
    rows = [[sum(max(cosine_similarity(tokens[i, a], tokens[j, b], dim=0) for b in range(COUNTS[j]))
                 for a in range(COUNTS[i])) / COUNTS[i] for j in range(6)] for i in range(6)]
    return torch.stack([torch.stack(row) for row in rows])


def test_similarities_are_those_of_a_loop_over_tokens():
    tokens = some()
    torch.testing.assert_close(token_similarity(tokens), by_loop(tokens))
    none = torch.cat([tokens.detach(), torch.zeros(1, 4, 3)])
    found = token_similarity(none)
    assert not found[6].any() and not found[:, 6].any()
    torch.testing.assert_close(found[:6, :6], token_similarity(tokens).detach())


def test_the_contrast_is_supervised_contrast_of_these():
    tokens, labels = some(1), torch.tensor([0, 1, 2, 0, 1, 2])
    scores, losses = by_loop(tokens) / 0.3, []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        losses.append(scores[i, others].logsumexp(0) - scores[i, (i + 3) % 6])
    found = token_contrast(tokens, labels, 0.3)
    torch.testing.assert_close(found, torch.stack(losses).mean())
    (gradient,) = torch.autograd.grad(found, tokens)
    assert gradient.isfinite().all() and gradient[0, :3].abs().sum() > 0
    assert token_contrast(tokens[:1], labels[:1]) == 0


def test_a_text_of_one_token_is_compared_by_its_vector():
    """With pools of one token nothing is left but supervised contrast."""
    vectors, labels = torch.randn(6, 1, 5, dtype=torch.float64), torch.tensor([0, 1, 2]).repeat(2)
    torch.testing.assert_close(token_contrast(vectors, labels, 0.2), supervised_contrast(vectors[:, 0], labels, 0.2))


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_vectors_are_the_first_tokens_behind_the_head(pool):
    model, batch = bert(pool=pool, contrast=TOKENS), texts(6).batch(range(6))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        views = model.train_views(ids, mask)
        states = model.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(views.logits, model(ids, mask), atol=1e-5, rtol=1e-5)
        found = views.vectors.unflatten(1, (5, 7))
        for row, length in enumerate(mask.sum(1).tolist()):
            torch.testing.assert_close(found[row, :length], model.head(states[row, :min(length, 5)]), atol=1e-5,
                                       rtol=1e-5)
            assert not found[row, length:].any()
    assert len(views.vectors) == 12 and model.config.views == 2


def test_micro_batches_have_the_contrast_of_the_whole_batch():
    one, step = task(bert(contrast=TOKENS), 8), Step(0, 1, 0, range(8))
    whole, parts = one.train_batch(one.load(range(8)), step)
    halves = [one.train_apart(one.load(items), step) for items in (range(4), range(4, 8))]
    contrast, _ = one.contrast(torch.cat([half[2] for half in halves]), step)
    torch.testing.assert_close(sum(half[0] for half in halves) + contrast, whole)
    assert parts["contrast"] > 0


def test_a_row_begins_as_the_others_do_and_learns(tmp_path):
    encoder = resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path / 'encoder')}")
    architecture, values = architecture_of("bert"), tiny_classes.settings("bert")
    ct, row = (architecture.build(values, contrast, [], tiny_classes.CLASSES, encoder, ["a"], 5).model.state_dict()
               for contrast in ("none", "fastfit"))
    assert all(torch.equal(value, row[name]) for name, value in ct.items())
    trained = architecture.run(tiny_classes.items(), values, "fastfit", [], encoder, 13,
                               FolderCheckpoints(tmp_path / "store", "a"))
    losses = [epoch["train_contrast"] for epoch in trained.history.rows]
    assert losses[-1] < losses[0]


def test_what_has_no_tokens_is_refused():
    with pytest.raises(ValueError, match="contrast.kind tokens compares states of tokens, and a TextCNN has none"):
        textcnn(contrast=TOKENS)
    with pytest.raises(ValueError, match="pool: pooler leaves none; set it to cls or mean"):
        bert(pool="pooler", contrast=TOKENS)
    content = {"recipe": "r", "datasets": {}}
    for model, message in (({"encoder": "textcnn"}, "a TextCNN has none; give it an encoder"),
                           ({"overrides": {"pool": "pooler"}}, "pool: pooler leaves none; set pool to cls or mean")):
        row = {"dataset": "questions", "contrast": "fastfit", **model}
        with pytest.raises(InputError, match=f"contrast fastfit compares states of tokens, and {message}"):
            parse_params(with_clld(content, m=row), "params")
