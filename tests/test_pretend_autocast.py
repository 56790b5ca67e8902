"""Trainings in bf16 on the pretend device, under CUDA's autocast lists: matrix products in it, losses and LSTMs not."""

import pytest
import torch
from pretend import NAME, recording, switched_on, workloads
from pretend.autocast import lists
from pretend.device import CAST_OPERATIONS
from pretend.measure import micro_batch
from torch import nn
from torch.nn import functional as F

TRAININGS = ("hcl", "hcl-backbone", "pgkpr", "transformer", "ianet", "residual_lstm", "latent_bow", "latent_bow-gumbel",
             "cl-bert", "clald-textcnn", "supcl-textcnn", "simcse-textcnn", "pair_classifier", "s_tagger")
RECURRENT = ("residual_lstm", "latent_bow", "latent_bow-gumbel", "s_tagger")
# What losses are made of; attention's softmax is inside its kernel.
LOSSES = ("_log_softmax", "nll_loss_forward", "logsumexp", "softplus", "binary_cross_entropy_with_logits", "log", "exp",
          "log1p", "_softmax", "log_sigmoid_forward")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The record of a micro-batch in bf16, by training; each measured once."""
    folder, found = tmp_path_factory.mktemp("workloads"), {}

    def of(name):
        if name not in found:
            work = workloads.trainings(folder)[name]()
            found[name] = micro_batch(work.stage, work.train, precision="bf16", places=True)
        return found[name]

    return of


@pytest.mark.parametrize("name", TRAININGS)
def test_losses_are_fp32_and_matrix_products_bf16(records, name):
    types = records(name).types
    lossy = {(operation, kind) for operation, kind in types if operation in LOSSES}
    assert lossy and {kind for _, kind in lossy} <= {torch.float32, torch.float64}, lossy
    products = {kind for operation, kind in types if operation in ("addmm", "mm", "bmm")}
    assert torch.bfloat16 in products
    assert {kind for operation, kind in types if operation == "native_layer_norm"} <= {torch.float32}
    assert not any(kind == torch.float16 for _, kind in types)  # would need a scaler


@pytest.mark.parametrize("name", RECURRENT)
def test_no_recurrent_layer_runs_under_autocast(records, name):
    record = records(name)
    assert record.operations["_cudnn_rnn"] > 0
    assert not record.recurrent


def test_the_lists_are_those_of_cuda():
    found = lists()
    assert ("linear", "default") in found["low"] and ("nll_loss", "default") in found["fp32"]
    assert ("softmax", "int") in found["fp32 result"] and ("scatter_add", "default") in found["widest"]
    assert CAST_OPERATIONS > 100


def test_operations_are_cast_by_the_lists_and_only_under_autocast():
    with switched_on(), torch.autocast(NAME, torch.bfloat16):
        left = torch.ones(2, 2, device=NAME, requires_grad=True)
        product = left @ left
        assert product.dtype == torch.bfloat16 and product.exp().dtype == torch.float32
        assert product.log_softmax(-1).dtype == product.sum().dtype == torch.float32
        assert F.mse_loss(product, left).dtype == torch.float32 and (product + product).dtype == torch.bfloat16
        assert torch.dot(product[0], left[0]).dtype == torch.float32
        product.sum().backward()
        assert left.grad.dtype == torch.float32 and left.double().exp().dtype == torch.float64
        assert F.scaled_dot_product_attention(left[None], left[None], left[None]).dtype == torch.bfloat16
        with torch.autocast(NAME, enabled=False):
            assert (left @ left).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(left.detach() / 2, left.detach())
    with switched_on():
        assert (left @ left).dtype == torch.float32


def test_a_recurrent_layer_under_autocast_is_seen():
    with switched_on(), recording() as record:
        layer, inputs = nn.LSTM(2, 2).to(NAME), torch.ones(3, 1, 2, device=NAME)
        assert layer(inputs)[0].dtype == torch.float32
        assert not record.recurrent
        with torch.autocast(NAME, torch.bfloat16):
            assert layer(inputs)[0].dtype == torch.float16
    assert record.recurrent.total() == 1
