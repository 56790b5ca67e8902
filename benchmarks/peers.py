"""Peers that cannot be installed: code that a person gives as a folder, with ``--peer``."""

import ast
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from stages.run.errors import InputError


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


def module_of(folder: Path, file: str) -> ModuleType:
    """Return a module of the peer in ``folder``, imported by its file alone, under a name that no other has.

    Raises:
        InputError: the file is missing, or does not import.
    """
    spec = spec_from_file_location(f"peer_{file.removesuffix('.py').replace('/', '_')}", _source(folder, file))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise InputError(f"--peer: {folder / file} cannot be imported: {error}. Install what it needs.") from error
    return module


def definitions(folder: Path, file: str, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions and classes of a script of the peer, of which nothing else is run.

    Args:
        folder: of the peer.
        file: the script, which may work or need packages when it is imported.
        names: of the functions and classes.
        given: what they find under global names.

    Raises:
        InputError: the file is missing, or lacks some of the names.
    """
    path = _source(folder, file)
    body: list[ast.stmt] = [part for part in ast.parse(path.read_text(encoding="utf-8")).body
                            if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name in names]
    found = dict(given)
    exec(compile(ast.Module(body, []), str(path), "exec"), found)
    if lacking := [name for name in names if name not in found]:
        raise InputError(f"--peer: {path} has no {lacking[0]}; name a checkout of the commit that was measured.")
    return found


def _source(folder: Path, file: str) -> Path:
    if not (folder / file).is_file():
        raise InputError(f"--peer: {folder / file} is missing; name a whole checkout.")
    return folder / file
