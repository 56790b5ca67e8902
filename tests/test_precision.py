"""The precision of products: recurrent layers out of autocast, TF32 as asked, devices that lack it, its record."""

from types import SimpleNamespace

import numpy as np
import pytest
import recurrent_cases
import tiny_bert
import tiny_clld
import torch
from torch import nn
from transformers import BertModel

from keycontrast.errors import InputError
from models.common.losses import products
from models.keywords.attribution import word_saliency
from models.keywords.s_tagger import STagger, STaggerConfig
from stages.common.device import check_precision, checked_precision, computed_in, computing
from stages.common.encoders import embed_texts
from stages.common.seeds import seed_everything
from stages.metrics.bertscore import BertScorer
from stages.tracks.clld.export import class_probabilities


@pytest.fixture
def seen(monkeypatch):
    """What recurrent layers were given: the types of inputs and states, and whether autocast was on."""
    found = []
    forward = nn.LSTM.forward

    def watched(layer, inputs, state=None):
        data = inputs.data if not isinstance(inputs, torch.Tensor) else inputs
        kinds = {data.dtype, *(part.dtype for part in state or ())}
        found.append((kinds, torch.is_autocast_enabled("cpu")))
        outputs, state = forward(layer, inputs, state)
        return outputs, state

    monkeypatch.setattr(nn.LSTM, "forward", watched)
    return found


@pytest.mark.parametrize("architecture", recurrent_cases.ARCHITECTURES)
def test_lstm_rewriters_compute_recurrent_layers_in_full_under_autocast(architecture, seen, monkeypatch):
    rewriter, content = recurrent_cases.model(architecture), recurrent_cases.batch()
    products_seen, linear = [], torch.nn.functional.linear

    def watched(*given):
        found = linear(*given)
        products_seen.append(found.dtype)
        return found

    monkeypatch.setattr(torch.nn.functional, "linear", watched)
    with products("cpu", "bf16"):
        sum(rewriter.sums(content, None).values()).backward()
        rewriter.rewrite(content, None, recurrent_cases.RULES, 2)
        assert torch.is_autocast_enabled("cpu")
    assert torch.bfloat16 in products_seen  # autocast was on for the others
    assert len(seen) > 4 and all(entry == ({torch.float32}, False) for entry in seen)


def test_the_tagger_computes_its_recurrent_layers_in_full_under_autocast(seen):
    tagger = STagger(STaggerConfig(9, 4, 4, 2))
    ids = torch.tensor([[2, 3, 4], [5, 0, 0]])
    with products("cpu", "bf16"):
        logits = tagger(ids)
    assert logits.dtype == torch.bfloat16
    assert seen == [({torch.float32}, False)]
    assert torch.allclose(logits.float(), tagger(ids), atol=0.02)


def runtime(**changes):
    return SimpleNamespace(**{"device": "auto", "precision": "fp32", "tf32": False, **changes})


@pytest.fixture
def old_gpu(monkeypatch):
    """A GPU before Ampere, which torch would let compute bf16 by emulation."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "Tesla V100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 0))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)


def test_a_gpu_without_bf16_or_tf32_is_an_error_that_says_what_to_do(old_gpu):
    with pytest.raises(InputError, match="runtime.precision is bf16, which Tesla V100 cannot compute. Set it to"), \
            computing(runtime(precision="bf16")):
        pass
    with pytest.raises(InputError, match=r"train_hcl.training.precision is bf16, which Tesla V100"):
        checked_precision("cuda:0", runtime(), {"precision": "bf16"}, "train_hcl.training")
    with pytest.raises(InputError, match=r"runtime.tf32 is true, and Tesla V100 has no TF32. Set it to false"):
        check_precision("cuda", "fp32", True, "runtime.precision")
    assert checked_precision("cuda", runtime(), {"precision": "fp32"}, "x") == computed_in("fp32", False)


def test_what_trains_nothing_computes_in_the_precision_of_runtime_and_leaves_it_behind():
    with computing(runtime(device="cpu", precision="bf16", tf32=True)) as device:
        assert device == "cpu"
        assert (torch.eye(2) @ torch.eye(2)).dtype == torch.bfloat16
    assert (torch.eye(2) @ torch.eye(2)).dtype == torch.float32


def test_tf32_is_what_was_asked_for_and_never_what_torch_lets_cudnn_do_unasked():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = True
        for asked in (False, True, False):
            seed_everything(1, tf32=asked)
            assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (asked, asked)
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
        torch.use_deterministic_algorithms(False)


TEXTS = ["what is the best way to learn a new language", "how do i learn language fast ?", "a cat", "dog"]


def classifier_scores(folder):
    tokenizer = tiny_bert.tokenizer(folder)
    encoding = tokenizer(TEXTS[:2], TEXTS[2:], return_tensors="pt", padding=True)
    return torch.cat(word_saliency(tiny_bert.classifier(), encoding)).numpy()


def scaled_encoder():
    torch.manual_seed(0)
    return BertModel(tiny_bert.config(initializer_range=0.3)).eval()


def node_vectors(folder):
    found = embed_texts(scaled_encoder(), tiny_bert.tokenizer(folder), TEXTS, 2, 32)
    return np.concatenate([vectors for _, vectors in found])


def class_shares(folder):
    model = tiny_clld.bert()
    return class_probabilities(model, tiny_bert.tokenizer(folder), TEXTS, 32, 2)


def bertscores(folder):
    return BertScorer(scaled_encoder(), tiny_bert.tokenizer(folder)).score({"run": TEXTS}, TEXTS[::-1])["run"].f1


@pytest.mark.parametrize("compute", [classifier_scores, node_vectors, class_shares, bertscores])
def test_what_trains_nothing_says_nearly_the_same_in_bf16(compute, tmp_path):
    full = compute(tmp_path)
    with computing(runtime(device="cpu", precision="bf16")):
        short = compute(tmp_path)
    assert short.dtype == full.dtype and np.isfinite(short).all()
    assert not np.array_equal(short, full)
    np.testing.assert_allclose(short, full, atol=0.15)
