"""Peers that cannot be installed: code that a person gives as a folder, with ``--peer``."""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from stages.runtime.errors import InputError


@dataclass(frozen=True)
class Peer:
    """Code that cannot ship with us.

    Attributes:
        repository: on GitHub.
        commit: that was measured.
        package: its package that a benchmark imports, a folder.
        modules: of the package, by the names that a benchmark knows them by.
        digest: SHA-256 of the files of these modules at that commit, one after another.
    """

    repository: str
    commit: str
    package: str
    modules: Mapping[str, str]
    digest: str

    @property
    def wanted(self) -> str:
        """What ``--peer`` is to name."""
        return f"a checkout of github.com/{self.repository} (measured at commit {self.commit})"

    def load(self, folder: Path) -> dict[str, ModuleType]:
        """Import the modules from ``folder``, whatever an earlier call imported under their names.

        Raises:
            InputError: a file is missing, or does not import.
        """
        self._files(folder)
        for name in [name for name in sys.modules if name.split(".")[0] == self.package]:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        try:
            return {known: import_module(name) for known, name in self.modules.items()}
        except (ImportError, SyntaxError) as error:
            raise InputError(f"--peer: {folder} cannot be imported: {error}. Name {self.wanted}, and install what it "
                             f"needs.") from error
        finally:
            sys.path.remove(str(folder))

    def version(self, folder: Path) -> str:
        """Return the repository and whether the modules in ``folder`` are those of the commit."""
        content = b"".join(file.read_bytes() for file in self._files(folder))
        same = hashlib.sha256(content).hexdigest() == self.digest
        return f"{self.repository}, {'' if same else 'files that differ from those '}at commit {self.commit}"

    def _files(self, folder: Path) -> list[Path]:
        files = [folder / f"{name.replace('.', '/')}.py" for name in self.modules.values()]
        for file in files:
            if not file.is_file():
                raise InputError(f"--peer: {file} is missing; name {self.wanted}.")
        return files


# By the benchmark that needs it.
PEERS = {"pgkpr": Peer("DaSESmartEdu/PGKPR", "ef618f4", "Model", {
    "model": "Model.SPTransformerFine", "parts": "Model.transformer.model", "batches": "Model.transformer.train"},
    "e011c32650047b90be01cef50f010b88a792cb875b1bba7061eb138333baf7c4")}
