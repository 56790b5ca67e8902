"""The same measurement from a pack: `python run_packed.py --out DIR --check`."""

from pathlib import Path

from benchmarks.gpu.command import main


def check(results: Path, encoders: str, minutes: float | None, device: str) -> int:
    """Measure this machine, starting from the pack's first encoder, if it has one.

    Args:
        results: file to write.
        encoders: what the names of its folders begin with.
        minutes: for everything; None takes the command's own.
        device: ``auto``, ``cuda`` or ``cpu``; ``auto`` is a GPU, and an error without one.
    """
    found = sorted(path.as_posix() for path in Path().glob(f"{encoders}*") if path.is_dir())
    given = ["--out", str(results), "--encoder", found[0]] if found else ["--out", str(results)]
    given += ["--minutes", str(minutes)] if minutes is not None else []
    return main([*given, "--device", "cpu"] if device == "cpu" else given)
