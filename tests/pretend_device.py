"""A device that computes on the CPU and refuses what CUDA refuses: operands on two devices, NumPy, some operations.

Registering it is for good within a process, and alone changes nothing for code that does not name the device.
:func:`stages_on_device` lets stages that choose their device choose this one.
"""

from contextlib import contextmanager
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._foreach_utils import _foreach_supported_types
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from stages.common import device

NAME = "pretend"
# Lengths of packed sequences belong on the CPU; an index may lie there; a copy goes from one device to the other.
_MIXED = ("_pack_padded_sequence", "_pack_padded_sequence_backward", "index", "index_put_", "_index_put_impl_")
# Without a deterministic implementation on CUDA; cumsum of floats as well.
_REFUSED = ("_embedding_bag_dense_backward", "histc", "kthvalue", "nll_loss2d_forward", "put_", "bincount")
# Operations without an operand on the device: made by the device they name.
_FACTORIES = ("arange", "arange.start", "arange.start_step", "empty.memory_format", "empty_strided", "eye", "eye.m",
              "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "scalar_tensor", "zeros")


class _Module(_DummyBackendModule):
    """``torch.pretend``; random numbers are those of the CPU's generator."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]

    def manual_seed_all(self, seed):
        pass

    def get_rng_state(self, device=None):
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None):
        torch.set_rng_state(state)

    def set_device(self, device):
        pass

    def synchronize(self, device=None):
        pass


_setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
DEVICE = torch.device(NAME, 0)


class PretendTensor(torch.Tensor):
    """A tensor of the device; ``raw`` is the tensor of the CPU with its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    operations = 0  # how many were carried out on the device

    @staticmethod
    def __new__(cls, raw):
        """Wrap ``raw``."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=DEVICE)
        made.raw = raw
        return made

    def __deepcopy__(self, memo):
        copied = PretendTensor(self.raw.clone())
        copied = torch.nn.Parameter(copied) if isinstance(self, torch.nn.Parameter) else copied
        return memo.setdefault(id(self), copied.requires_grad_(self.requires_grad))

    def numpy(self, *args, **kwargs):
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu()")

    __array__ = numpy

    def tolist(self):
        return self.raw.tolist()

    def untyped_storage(self):
        return self.raw.untyped_storage()  # tied tensors share it

    def data_ptr(self):
        return self.raw.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _compute(func, args, kwargs or {})


def _there(where):
    return where is not None and torch.device(where).type == NAME


def _raw(value):
    return value.raw if isinstance(value, PretendTensor) else value


def _wrapped(value):
    return PretendTensor(value) if type(value) is torch.Tensor else value


def _compute(func, args, kwargs):
    """Carry out an operation on the raw tensors, under CUDA's rules."""
    name = func.overloadpacket.__name__
    if name == "_to_copy":
        kwargs = dict(kwargs)
        where = kwargs.pop("device", None) or args[0].device
        kwargs.pop("pin_memory", None)
        copied = func(_raw(args[0]), **kwargs)
        return PretendTensor(copied) if _there(where) else copied
    if name in ("copy_", "_copy_from"):
        target, source = args[:2] if name == "copy_" else args[1::-1]
        _raw(target).copy_(_raw(source))
        return target
    operands = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    on_device = [value for value in operands if isinstance(value, PretendTensor)]
    if on_device:
        _check(func, name, args, operands)
    where = kwargs.get("device")
    plain = {key: torch.device("cpu") if key == "device" and value is not None else value
             for key, value in tree_map(_raw, kwargs).items() if key != "pin_memory"}
    computed = func(*tree_map(_raw, args), **plain)
    if not (_there(where) if where is not None else on_device):
        return computed
    PretendTensor.operations += 1
    if name == "_pack_padded_sequence":
        return PretendTensor(computed[0]), computed[1]
    written = [(place, each.name) for place, each in enumerate(func._schema.arguments)
               if each.alias_info is not None and each.alias_info.is_write]
    if not written:
        return tree_map(_wrapped, computed)
    given = [kwargs[key] if key in kwargs else args[place] for place, key in written]
    return None if not func._schema.returns else given[0] if len(func._schema.returns) == 1 else tuple(given)


def _check(func, name, args, operands):
    """Raise what CUDA raises."""
    for value in operands:
        if value.dim() and not isinstance(value, PretendTensor) and (
                name not in _MIXED or name.startswith("index") and not isinstance(args[0], PretendTensor)):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, "
                               f"{DEVICE} and cpu! ({func}; the one on the CPU has shape {tuple(value.shape)})")
    if torch.are_deterministic_algorithms_enabled() and (name == "cumsum" and args[0].is_floating_point() or (
            name in _REFUSED and (name != "bincount" or len(args) > 1 and args[1] is not None))):
        raise RuntimeError(f"{name} does not have a deterministic implementation on CUDA")


def _register():
    everything, factories = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(lambda func, *args, **kwargs: _compute(func, args, kwargs), "PrivateUse1")
    for name in _FACTORIES:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, packet), overload or "default")
        factories.impl(name, lambda *args, _func=func, **kwargs: _compute(_func, args, kwargs), "PrivateUse1")
    return everything, factories


_LIBRARIES = _register()  # kept, for the registration ends with these objects


class _Recurrent(torch.autograd.Function):
    """An LSTM or a GRU as one operation each way, as cuDNN has it; torch would look for kernels of the device."""

    @staticmethod
    def forward(ctx, compute, *tensors):
        with torch.enable_grad():
            ctx.inputs = [_raw(each).detach().requires_grad_() for each in tensors]
            ctx.computed = compute(*ctx.inputs)
        return tuple(PretendTensor(each.detach().clone()) for each in ctx.computed)

    @staticmethod
    def backward(ctx, *gradients):
        found = torch.autograd.grad(ctx.computed, ctx.inputs, [_raw(each) for each in gradients])
        return None, *map(PretendTensor, found)


def _recurrent(function, data, *rest):
    """Compute ``torch._VF.lstm`` or ``gru``, of packed data or not."""
    sizes, (states, weights, *settings) = ((), rest) if isinstance(rest[1], list) else (rest[:1], rest[1:])
    several = isinstance(states, tuple)  # of an LSTM
    tensors = [data, *(states if several else [states]), *weights]
    if not all(isinstance(each, PretendTensor) for each in tensors):
        raise RuntimeError(f"Expected all tensors of {function.__name__} to be on {DEVICE}")

    def compute(data, *others):
        state = others[:2] if several else others[0]
        return function(data, *sizes, state, list(others[2 if several else 1:]), *settings)

    return _Recurrent.apply(compute, *tensors)


class _Functions(TorchFunctionMode):
    """What torch decides above the dispatcher: tensors of Python values, recurrent layers."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch._VF.lstm, torch._VF.gru) and isinstance(args[0], PretendTensor):
            return _recurrent(func, *args)
        if func in (torch.tensor, torch.as_tensor) and _there(kwargs.get("device")):
            return func(*args, **{**kwargs, "device": None}).to(kwargs["device"])
        return func(*args, **kwargs)


@contextmanager
def switched_on():
    """Let code within the block use the device; inference mode, which its tensors lack, is no_grad."""
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # so that tied parameters stay tied
    _foreach_supported_types.append(PretendTensor)  # for optimisers and clipping
    try:
        with (mock.patch.object(torch, "inference_mode", torch.no_grad), _Functions(),
              torch.autograd.set_multithreading_enabled(False)):
            yield
    finally:
        _foreach_supported_types.remove(PretendTensor)
        torch.__future__.set_swap_module_params_on_conversion(swaps)


@contextmanager
def stages_on_device():
    """Let stages that choose their device choose this one."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    with mock.patch.object(device, "accelerator", lambda: NAME), switched_on():
        yield
    torch.use_deterministic_algorithms(deterministic)
