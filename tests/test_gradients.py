"""Gradients of several micro-batches: the sums of backward passes, to the bit, in one operation."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from models.common.training import add_gradients


class Added(TorchDispatchMode):
    """Counts operations that add into a tensor."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("add_", "_foreach_add_"):
            self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class Net(nn.Module):
    """Layers of which the last is used by a part of the micro-batches alone, and one never."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 3))
        self.late, self.never = nn.Linear(3, 3), nn.Linear(3, 3)

    def loss(self, number):
        values = self.layers(torch.randn(4, 5, generator=torch.Generator().manual_seed(number)))
        # The gradient of a sum is one number seen as many.
        return (self.late(values).sum() + self.late.bias.sum() if number else values.square().sum())


def gradients(net):
    return {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_sums_are_those_of_backward_passes_to_the_bit(count):
    ours, plain = Net(), Net()
    parameters = list(ours.parameters())
    for number in range(count):
        add_gradients([ours.loss(number)], [None], parameters)
        plain.loss(number).backward()
    expected, found = gradients(plain), gradients(ours)
    assert found.keys() == expected.keys() and ("late.weight" in found) == (count > 1)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_all_parameters_are_added_at_once():
    net = Net()
    parameters = list(net.parameters())
    for number in (1, 2):
        with Added() as added:
            add_gradients([net.loss(number)], [None], parameters)
    assert added.names == ["_foreach_add_"]


def test_weights_of_several_outputs():
    ours, plain = Net(), Net()
    for number in (1, 2):
        for net, add in ((ours, lambda out, by: add_gradients(out, by, list(ours.parameters()))),
                         (plain, torch.autograd.backward)):
            vectors = net.layers(torch.ones(4, 5))
            add([net.loss(number), vectors], [None, torch.full((4, 3), 0.5)])
    assert all(torch.equal(gradients(ours)[name], value) for name, value in gradients(plain).items())
