"""The device and the precision that a stage computes in: asked for by the params, told to what it makes.

A training says its precision in its own block; everything that trains nothing (generation, evaluation, attribution,
node vectors, probes, predictions) obeys ``runtime.precision``. TF32 is switched for all alike by ``seed_everything``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keycontrast.errors import InputError


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for the param ``runtime.device`` (``auto``, ``cpu`` or ``cuda``).

    Raises:
        InputError: ``cuda`` is asked for and there is none.
    """
    found = accelerator()
    if wanted == "cuda" and found is None:
        raise InputError("runtime.device is cuda, but torch sees no CUDA device. Set it to auto or cpu, or install "
                         "a torch built for your driver.")
    return found if found is not None and wanted != "cpu" else "cpu"


def accelerator() -> str | None:
    """Return ``cuda`` if torch sees a device of that kind; the tests put a device of their own in its place."""
    import torch

    return "cuda" if torch.cuda.is_available() else None


_AMPERE = (8, 0)  # the first compute capability with TF32


@contextmanager
def computing(runtime: Any) -> Iterator[str]:
    """Yield the device that the block ``runtime`` asks for, with matrix products in ``runtime.precision``.

    Raises:
        InputError: there is no such device, or it lacks that precision.
    """
    from models.common.losses import products

    device = choose_device(runtime.device)
    check_precision(device, runtime.precision, runtime.tf32, "runtime.precision")
    with products(device, runtime.precision):
        yield device


def check_precision(device: str, precision: str, tf32: bool, place: str) -> None:
    """Check that ``device`` computes in ``precision`` by itself; every CPU does, whatever is asked.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:0``.
        precision: ``fp32`` or ``bf16``.
        tf32: what ``runtime.tf32`` says.
        place: dotted name of the param that ``precision`` is from.

    Raises:
        InputError: a GPU without bf16, which torch would emulate in fp32, or without TF32, which it would ignore.
    """
    import torch

    if not device.startswith("cuda"):
        return
    name = torch.cuda.get_device_name(device)
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise InputError(f"{place} is bf16, which {name} cannot compute. Set it to fp32.")
    if tf32 and torch.cuda.get_device_capability(device) < _AMPERE:
        raise InputError(f"runtime.tf32 is true, and {name} has no TF32. Set it to false.")


def settled_precision(device: str, runtime: Any, training: Mapping[str, Any], block: str) -> dict[str, Any]:
    """Return :func:`computed_in` of a training, once it is sure that ``device`` can do what ``training`` asks for.

    Args:
        device: of the training.
        runtime: the block of that name.
        training: plain values with ``precision``.
        block: dotted name of the block that they are.

    Raises:
        InputError: as of :func:`check_precision`.
    """
    check_precision(device, training["precision"], runtime.tf32, f"{block}.precision")
    return computed_in(training["precision"], runtime.tf32)


def computed_in(precision: str, tf32: bool) -> dict[str, Any]:
    """Return what metadata and records say of how products were computed; layers are never compiled."""
    return {"products": precision, "tf32": tf32, "compiled": False}
