"""The device: tensors that hold a tensor of the CPU, an implementation of every operation, and torch's registration.

Registering is for good within a process, and alone changes nothing for code that does not name the device.
:func:`switched_on` puts in place, for the length of a block, what torch offers no registration for.
"""

import functools
import threading
from contextlib import contextmanager
from unittest import mock

import torch
from pretend import autocast, fused, rules
from pretend.record import active, note
from torch.overrides import TorchFunctionMode
from torch.utils._foreach_utils import _foreach_supported_types
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "pretend"
aten = torch.ops.aten


class _Generator:
    """The device's random numbers, which have a state of their own, as on CUDA."""

    def __init__(self):
        self.state = torch.Generator().manual_seed(0).get_state()
        self.lock = threading.RLock()

    @contextmanager
    def drawing(self):
        """Let the CPU's generator stand for the device's."""
        with self.lock:
            cpu = torch.get_rng_state()
            torch.set_rng_state(self.state)
            try:
                yield
            finally:
                self.state = torch.get_rng_state()
                torch.set_rng_state(cpu)


_GENERATOR = _Generator()


class _Module(_DummyBackendModule):
    """``torch.pretend``."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]

    def manual_seed_all(self, seed):
        _GENERATOR.state = torch.Generator().manual_seed(seed % 2**64).get_state()

    def get_rng_state(self, device=None):
        return _GENERATOR.state.clone()

    def set_rng_state(self, state, device=None):
        _GENERATOR.state = state.clone()

    def set_device(self, device):
        pass

    def synchronize(self, device=None):
        note("waits", "synchronize")


_setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
DEVICE = torch.device(NAME, 0)


class PretendTensor(torch.Tensor):
    """A tensor of the device; ``raw`` is the tensor of the CPU with its values.

    Reading it by ``tolist`` waits; ``numpy`` raises as for any tensor that is not on the CPU.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        """Wrap ``raw``."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=DEVICE)
        made.raw = raw
        return made

    def __repr__(self, **_):
        return f"{self.raw!r} on {DEVICE}"

    def __deepcopy__(self, memo):
        copied = PretendTensor(self.raw.clone())
        copied = torch.nn.Parameter(copied) if isinstance(self, torch.nn.Parameter) else copied
        copied = copied.requires_grad_(self.requires_grad)
        return memo.setdefault(id(self), copied)

    def numpy(self, *args, **kwargs):
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                        "host memory first.")

    def __array__(self, *args, **kwargs):
        return self.numpy()

    def tolist(self):
        note("waits", "tolist")
        return self.raw.tolist()

    def untyped_storage(self):
        return self.raw.untyped_storage()  # tied tensors share it

    def data_ptr(self):
        return self.raw.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _compute(func, args, kwargs or {})


def on_device(device):
    """Whether ``device``, which may be None, names the pretend device."""
    return device is not None and torch.device(device).type == NAME


def raw(value):
    """Return the CPU's tensor of a tensor of the device; anything else as it is."""
    return value.raw if isinstance(value, PretendTensor) else value


def _mapped(change, value):
    """Return ``value`` with all in its tuples, lists and dictionaries changed, in a fraction of a pytree's time."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_mapped(change, one) for one in value])
    if kind is dict:
        return {name: _mapped(change, one) for name, one in value.items()}
    return tree_map(change, value) if isinstance(value, (tuple, list)) else change(value)


def _tensors(value, found):
    """Add the tensors in ``value`` to the list ``found``, and return it."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for one in value:
            _tensors(one, found)
    return found


@functools.cache
def _written(func):
    """Return place and name of each argument that ``func`` changes."""
    return [(place, one.name) for place, one in enumerate(func._schema.arguments)
            if one.alias_info is not None and one.alias_info.is_write]


def _wrap(one):
    return PretendTensor(one) if type(one) is torch.Tensor else one


def _compute(func, args, kwargs):
    """Carry out an operation on the raw tensors, under CUDA's rules."""
    name = rules.name_of(func)
    if name == "_to_copy":
        return _to_copy(func, *args, **kwargs)
    if name in ("copy_", "_copy_from"):
        target, source = args[:2] if name == "copy_" else args[1::-1]
        return _copy_into(target, source, *args[2:], **kwargs)
    operands = _tensors(list(kwargs.values()), _tensors(args, []))
    _check_devices(func, args, operands)
    _check_determinism(func, args, kwargs)
    _count(func, args, kwargs)
    here = on_device(kwargs["device"]) if kwargs.get("device") is not None else bool(operands)
    plain = {key: _plain(key, _mapped(raw, value)) for key, value in kwargs.items()}
    if rules.draws(func):
        with _GENERATOR.drawing():
            found = func(*_mapped(raw, args), **plain)
    else:
        found = func(*_mapped(raw, args), **plain)
    return _wrapped(func, found, args, kwargs) if here else found


def _plain(key, value):
    if key == "device" and value is not None:
        return torch.device("cpu")
    return None if key == "pin_memory" else value


def _wrapped(func, found, args, kwargs):
    """Return results as tensors of the device; what was changed in place is the very tensor that was given."""
    if rules.name_of(func) == "_pack_padded_sequence":
        return PretendTensor(found[0]), found[1]  # how many sequences go on at each step is the host's to know
    written = _written(func)
    if not written:
        return _mapped(_wrap, found)
    if not func._schema.returns:
        return None
    given = [kwargs[name] if name in kwargs else args[place] for place, name in written]
    return given[0] if len(func._schema.returns) == 1 else tuple(given)


def _to_copy(func, source, device=None, non_blocking=False, **changes):
    goes_there = on_device(device) if device is not None else isinstance(source, PretendTensor)
    changes.pop("pin_memory", None)
    _count_copy(isinstance(source, PretendTensor), goes_there, non_blocking, "_to_copy")
    found = func(raw(source), **changes)
    return PretendTensor(found) if goes_there else found


def _copy_into(target, source, non_blocking=False):
    _count_copy(isinstance(source, PretendTensor), isinstance(target, PretendTensor), non_blocking, "copy_")
    raw(target).copy_(raw(source))
    return target


def _count_copy(comes_from_here, goes_here, non_blocking, name):
    if comes_from_here and not goes_here:
        note("waits", "copy to the host")
    elif goes_here and not comes_from_here:
        note("copies" if non_blocking else "blocking", "copy to the device")
    else:
        _launch(name)


def _check_devices(func, args, operands):
    if not any(isinstance(one, PretendTensor) for one in operands):
        return
    indices = rules.copied_indices(func, args)
    for one in operands:
        if isinstance(one, PretendTensor) or rules.takes_from_cpu(func, one):
            continue
        if isinstance(args[0], PretendTensor) and any(one is index for index in indices):
            note("blocking", "an index on the CPU")
            continue
        _refuse(_on_two_devices(func, one))


def _on_two_devices(func, tensor):
    return RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and "
                        f"cpu! ({func}; the one on the CPU has shape {tuple(tensor.shape)})")


def _check_determinism(func, args, kwargs):
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        refused = rules.refusal(func, args, kwargs)
        if refused:
            _refuse(RuntimeError(f"{refused} does not have a deterministic implementation on CUDA, but you set "
                                 "'torch.use_deterministic_algorithms(True)'."))


def _refuse(error):
    """Raise ``error``; in a backward pass, when it has ended, for no exception passes autograd's engine alive."""
    if not _BACKWARD:
        raise error
    _BACKWARD[-1].append(error)


_BACKWARD: list[list[RuntimeError]] = []  # what was refused in the backward passes that are under way
_run_backward = torch.autograd._engine_run_backward


def _backward(*args, **kwargs):
    _BACKWARD.append([])
    try:
        found = _run_backward(*args, **kwargs)
    finally:
        refused = _BACKWARD.pop()
    if refused:
        raise refused[0]
    return found


def _count(func, args, kwargs):
    if not active():
        return
    if rules.launches(func):
        _launch(rules.name_of(func), *_tensors(args, []))
    waited = rules.waits(func, args, kwargs)
    if waited:
        note("waits", waited)
    if rules.sorts(func, args, kwargs):
        note("sorts", rules.name_of(func))


def _launch(name, *operands):
    for record in active():
        kinds = (one.dtype for one in operands if one.is_floating_point()) if record.places else ()
        record.launch(name, next(iter(kinds), None))


# Operations without a tensor of the device among their operands: made by the device they name.
_FACTORIES = ("arange", "arange.start", "arange.start_step", "empty.memory_format", "empty_strided", "eye", "eye.m",
              "full", "linspace", "ones", "rand", "rand.generator", "randint", "randint.low", "randn",
              "randn.generator", "randperm", "scalar_tensor", "tril_indices", "triu_indices", "zeros")


def _register_factories():
    library, everything = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    everything.fallback(lambda func, *args, **kwargs: _compute(func, args, kwargs), "PrivateUse1")
    for name in _FACTORIES:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(aten, packet), overload or "default")
        library.impl(name, lambda *args, _func=func, **kwargs: _compute(_func, args, kwargs), "PrivateUse1")
    return library, everything


# Kept, for they end with their objects.
_LIBRARIES = _register_factories()
_CASTS, CAST_OPERATIONS = autocast.register(NAME)


class _Functions(TorchFunctionMode):
    """What torch decides above the dispatcher: tensors of Python values, cuDNN's recurrent layers, fused attention."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and on_device(kwargs.get("device")):
            return func(*args, **{**kwargs, "device": None}).to(kwargs["device"])
        if func in _FUSED and any(isinstance(one, PretendTensor) for one in args[:2]):
            return _FUSED[func](_Kernels, *args, **kwargs)
        return func(*args, **kwargs)


class _Kernels:
    """The device, as ``fused`` needs to know it."""

    name = NAME
    raw = staticmethod(raw)
    wrap = PretendTensor
    launch = staticmethod(_launch)
    drawing = staticmethod(_GENERATOR.drawing)

    @staticmethod
    def same(*tensors):
        """Raise if one of ``tensors`` is on the CPU."""
        for one in tensors:
            if not isinstance(one, PretendTensor):
                raise _on_two_devices("a fused kernel", one)


_FUSED = {torch.nn.functional.scaled_dot_product_attention: fused.attention, torch._VF.lstm: fused.lstm,
          torch._VF.gru: fused.gru}


@contextmanager
def _foreach():
    """Let optimisers and clipping take lists of the device's tensors at once, as of CUDA's."""
    _foreach_supported_types.append(PretendTensor)
    try:
        yield
    finally:
        _foreach_supported_types.remove(PretendTensor)


@contextmanager
def switched_on():
    """Let code within the block use the device.

    Inference mode, which tensors made in Python lack, is no_grad. The backward pass runs in the thread that calls for
    it, so that its operations can be told from others.
    """
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # so that tied parameters stay tied
    try:
        with (mock.patch.object(torch, "inference_mode", torch.no_grad), _Functions(), _foreach(),
              mock.patch.object(torch.autograd, "_engine_run_backward", _backward),
              torch.autograd.set_multithreading_enabled(False)):
            yield DEVICE
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)
