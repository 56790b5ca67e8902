"""Which device a stage computes on; never part of a promise about bytes."""

from stages.runtime.errors import InputError


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda`` for the param ``runtime.device`` (``auto``, ``cpu`` or ``cuda``).

    Raises:
        InputError: ``cuda`` is asked for and there is none.
    """
    import torch

    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise InputError("runtime.device is cuda, but torch sees no CUDA device. Set it to auto or cpu, or install "
                         "a torch built for your driver.")
    return "cuda" if available and wanted != "cpu" else "cpu"
