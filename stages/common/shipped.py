"""Files that come with the project and are no code: in a clone where they stand, in an installation below the package.

    shipped("data", "language", "en_ewt")
"""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
# Where `setup.py` puts them in a wheel.
INSTALLED = ("keycontrast", "_shipped")


def shipped(*parts: str) -> Path:
    """Return the place of a file or folder that is named as in a clone."""
    place = _ROOT.joinpath(*parts)
    return place if place.exists() else _ROOT.joinpath(*INSTALLED, *parts)
