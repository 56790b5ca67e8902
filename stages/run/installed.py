"""Which code a project outside of a clone was made with: ``installed.yaml``, a dependency of each of its stages.

In a clone every stage depends on the files of code that it imports. A project of ``keycontrast init`` has none of
these: its stages depend on the version that is installed, and on a hash of its code and language pipeline, for two
builds may have one version.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path

import yaml

from stages.common.shipped import shipped
from stages.run.errors import InputError

INSTALLED = Path("installed.yaml")
_ROOT = Path(__file__).resolve().parents[2]
_LANGUAGE = ("data", "language", "en_ewt")


def described() -> str:
    """Return what ``installed.yaml`` is to hold."""
    digest = hashlib.sha256()
    for root, kind in ((_ROOT / "models", "*.py"), (_ROOT / "stages", "*.py"), (shipped(*_LANGUAGE), "*")):
        for path in sorted(path for path in root.rglob(kind) if path.is_file()):
            # Relative names: the same build has one hash wherever it is installed.
            name = path.relative_to(root.parent).as_posix()
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    content = {"keycontrast": version("keycontrast"), "code": digest.hexdigest()[:16]}
    return "# Written by keycontrast; every stage depends on it.\n" + yaml.safe_dump(content, sort_keys=False)


def check(root: Path = Path()) -> None:
    """Refuse to compute with other code than ``installed.yaml`` names, if there is such a file.

    Raises:
        InputError: another version or build has been installed since.
    """
    file = root / INSTALLED
    if file.exists() and file.read_text(encoding="utf-8") != described():
        raise InputError(f"{INSTALLED}: the project was made with another version or build of Keycontrast than is "
                         f"installed. `keycontrast run` takes the installed one and makes anew what depends on it.")
