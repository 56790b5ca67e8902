"""CUDA's autocast lists on the pretend device, out of the header that torch ships.

Each operation of a list is registered for the device's autocast key, which is on only within ``torch.autocast``:
operands become the low type or fp32, are promoted to the widest among them, or fp32 is asked for as the result's type.
"""

import re
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_map

_HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
_LISTS = {"low": "AT_FORALL_LOWER_PRECISION_FP", "fp32": "AT_FORALL_FP32",
          "fp32 result": "AT_FORALL_FP32_SET_OPT_DTYPE",
          "widest": "AT_FORALL_PROMOTE"}
_LOW = (torch.bfloat16, torch.float16)


def lists():
    """Return the operations of each list as (name, overload).

    >>> ("matmul", "default") in lists()["low"]
    True
    """
    text = _HEADER.read_text()
    found = {}
    for kind, macro in _LISTS.items():
        body = re.search(rf"#define {macro}\(_\)(.*?)\n\n", text, re.S)[1]
        entries = [entry.split(",") for entry in re.findall(r"_\(([^()]+)\)", body)]
        found[kind] = [(name.strip(), rest[0].strip() if rest else "default") for name, *rest in entries]
    return found


def register(device):
    """Register the lists for ``device``; return the libraries, to be kept, and how many operations they hold."""
    everything, own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    count = 0
    for kind, entries in lists().items():
        for name, overload in entries:
            func = getattr(getattr(torch.ops.aten, name, None), overload, None)
            if func is not None:  # some are no operations of the dispatcher
                own.impl(name if overload == "default" else f"{name}.{overload}", _kernel(kind, func, device),
                         "AutocastPrivateUse1")
                count += 1
    own.impl("binary_cross_entropy", _unsafe, "AutocastPrivateUse1")
    return (everything, own), count


def _kernel(kind, func, device):
    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(off):
            if kind == "fp32 result":
                return func(*args, **_fp32_result(func, args, kwargs))
            wanted = _wanted(kind, (args, kwargs), device)
            args, kwargs = tree_map(lambda one: one.to(wanted) if _eligible(one, device) else one, (args, kwargs))
            return func(*args, **kwargs)

    return kernel


def _eligible(one, device):
    return (isinstance(one, torch.Tensor) and one.is_floating_point() and one.dtype != torch.float64
            and one.device.type == device)


def _wanted(kind, operands, device):
    if kind == "low":
        return torch.get_autocast_dtype(device)
    types = {one.dtype for one in tree_flatten(operands)[0] if _eligible(one, device)}
    return torch.float32 if kind == "fp32" or torch.float32 in types or len(types) != 1 else types.pop()


def _fp32_result(func, args, kwargs):
    """Ask for fp32 where no type is asked for and the operand is of a low one."""
    place = [one.name for one in func._schema.arguments].index("dtype")
    given = args[place] if len(args) > place else kwargs.get("dtype")
    low = isinstance(args[0], torch.Tensor) and args[0].dtype in _LOW
    return {**kwargs, "dtype": torch.float32} if low and given is None else kwargs


def _unsafe(*args, **kwargs):
    raise RuntimeError("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.")
