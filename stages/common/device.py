"""Which device a stage computes on; never part of a promise about bytes."""

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
