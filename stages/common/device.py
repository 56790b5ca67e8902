"""The device and the precision of a stage: a training has a precision of its own, others ``runtime.precision``."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keycontrast.errors import InputError


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for ``runtime.device``, which is ``auto``, ``cpu`` or ``cuda``."""
    available = accelerator()
    if wanted == "cuda" and available is None:
        raise InputError("runtime.device is cuda, but torch sees no CUDA device. Set it to auto or cpu, or install "
                         "a torch built for your driver.")
    return available if available is not None and wanted != "cpu" else "cpu"


def accelerator() -> str | None:
    """Return ``cuda`` if torch sees such a device; tests patch it with a device of their own."""
    import torch

    return "cuda" if torch.cuda.is_available() else None


@contextmanager
def computing(runtime: Any) -> Iterator[str]:
    """Yield the device that the block ``runtime`` asks for, with matrix products in ``runtime.precision``."""
    from models.common.losses import products

    device = choose_device(runtime.device)
    check_precision(device, runtime.precision, runtime.tf32, "runtime.precision")
    with products(device, runtime.precision):
        yield device


def check_precision(device: str, precision: str, tf32: bool, place: str) -> None:
    """Raise :class:`InputError` if the GPU does not support TF32, or bf16 (param ``place``) without emulation."""
    import torch

    if not device.startswith("cuda"):
        return
    name = torch.cuda.get_device_name(device)
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise InputError(f"{place} is bf16, which {name} cannot compute. Set it to fp32.")
    if tf32 and torch.cuda.get_device_capability(device) < (8, 0):  # Ampere
        raise InputError(f"runtime.tf32 is true, and {name} has no TF32. Set it to false.")


def checked_precision(device: str, runtime: Any, training: Mapping[str, Any], block: str) -> dict[str, Any]:
    """Check the precision of ``training``, the params of ``block`` (a dotted name), and return its metadata."""
    check_precision(device, training["precision"], runtime.tf32, f"{block}.precision")
    return computed_in(training["precision"], runtime.tf32)


def computed_in(precision: str, tf32: bool) -> dict[str, Any]:
    """Return the precision of matrix products as metadata and records have it."""
    return {"products": precision, "tf32": tf32}
