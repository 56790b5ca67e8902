"""What CUDA computes in one kernel each way, and a device without kernels of its own would take apart.

Scaled dot-product attention (memory-efficient) and recurrent layers (cuDNN).
"""

import torch
from pretend.record import active, note
from torch.nn import functional as F


class _Fused(torch.autograd.Function):
    """``compute`` over raw tensors as one operation forward and one backward; the device comes with the tensors."""

    @staticmethod
    def forward(ctx, device, name, compute, *tensors):
        with torch.enable_grad():
            inputs = [one if one is None else one.detach().requires_grad_(one.is_floating_point())
                      for one in map(device.raw, tensors)]
            with device.drawing():
                found = compute(*inputs)
        ctx.found, ctx.inputs, ctx.device, ctx.name = found, inputs, device, name
        device.launch(name)
        return tuple(device.wrap(one.detach().clone()) for one in found)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.device.launch(f"{ctx.name}_backward")
        places = [place for place, one in enumerate(ctx.inputs) if one is not None and one.requires_grad]
        pairs = [(one, ctx.device.raw(gradient)) for one, gradient in zip(ctx.found, gradients, strict=True)
                 if gradient is not None]
        found = torch.autograd.grad([one for one, _ in pairs], [ctx.inputs[place] for place in places],
                                    [gradient for _, gradient in pairs], allow_unused=True)
        by_place = dict(zip(places, found, strict=True))
        rest = [None if by_place.get(place) is None else ctx.device.wrap(by_place[place])
                for place in range(len(ctx.inputs))]
        return None, None, None, *rest


def attention(device, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Compute ``scaled_dot_product_attention``; in low precision under autocast."""
    tensors = [query, key, value, attn_mask]
    device.same(*(one for one in tensors if one is not None))
    if torch.is_autocast_enabled(device.name):
        kind = torch.get_autocast_dtype(device.name)
        tensors = [one if one is None or not one.is_floating_point() else one.to(kind) for one in tensors]

    def compute(query, key, value, mask):
        return (F.scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale=scale,
                                               enable_gqa=enable_gqa),)

    return _Fused.apply(device, "scaled_dot_product_attention", compute, *tensors)[0]


def lstm(device, data, *rest):
    """Compute ``torch._VF.lstm``, packed or not; see :func:`_recurrent`."""
    return _recurrent(device, torch._VF.lstm, data, rest, isinstance(rest[0], torch.Tensor))


def gru(device, data, *rest):
    """Compute ``torch._VF.gru``, likewise."""
    return _recurrent(device, torch._VF.gru, data, rest, isinstance(rest[1], torch.Tensor))


def _recurrent(device, function, data, rest, packed):
    """Compute a recurrent layer with cuDNN's demands.

    Under autocast CUDA has it computed in fp16, whatever the type that autocast was given: that is recorded, and
    done to the values.
    """
    sizes, (states, weights, *settings) = (rest[:1], rest[1:]) if packed else ((), rest)
    several = not isinstance(states, torch.Tensor)     # of an LSTM
    states = list(states) if several else [states]
    device.same(data, *states, *weights)
    for name, state in zip(("hx", "cx"), states, strict=False):
        if not state.is_contiguous():
            raise RuntimeError(f"rnn: {name} is not contiguous")
    if packed and sizes[0].device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor")
    half = torch.is_autocast_enabled(device.name)
    if half and active():
        note("recurrent", f"{function.__name__} under autocast")

    def compute(data, *others):
        kind = data.dtype
        if half:
            data, *others = (one.half().to(torch.float32) for one in (data, *others))
        state = others[:2] if several else others[0]
        found = function(data, *sizes, state, others[len(states):], *settings)
        return tuple(one.half() for one in found) if half else tuple(one.to(kind) for one in found)

    return _Fused.apply(device, "_cudnn_rnn", compute, data, *states, *weights)
