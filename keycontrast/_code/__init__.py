"""The project's code under names of its own, beside whatever is called ``models``, ``stages`` or ``pipeline``.

    ranker = code("stages.ranking.ranker")      # the module keycontrast._code.stages.ranking.ranker

A caller's folder stands before installed packages on ``sys.path``, and ``models.py`` is a common name. So what the
Python interface needs is imported a second time, below this package: a finder knows where our folders lie, beside this
one, and the modules that it loads have an ``__import__`` of their own, which looks here for these three names. Nothing
under the bare names is imported, replaced or hidden; worker processes find functions by the longer names.
"""

import builtins
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

OURS = ("models", "pipeline", "stages")
ROOT = Path(__file__).resolve().parents[2]
_PREFIX = f"{__name__}."


def code(name: str) -> Any:
    """Return our module of that name, such as ``stages.ranking.ranker``."""
    return import_module(_PREFIX + name)


def _import(name: str, given: Mapping[str, Any] | None = None, local: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] | None = (), level: int = 0) -> ModuleType:
    """``__import__`` of our modules: absolute names of ours lead here, all others where they always lead."""
    top = name.partition(".")[0]
    if level or top not in OURS:
        return builtins.__import__(name, given, local, fromlist, level)
    found = builtins.__import__(_PREFIX + name, given, local, fromlist or ("__name__",), 0)
    return found if fromlist else sys.modules[_PREFIX + top]


# CPython takes the function of an import statement from the module's own builtins (`__import__` in the library's
# reference, "Invoking the import machinery"), so that no bytecode differs and compiled files are shared.
_BUILTINS = {**vars(builtins), "__import__": _import}


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = _BUILTINS
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None,
                  ) -> ModuleSpec | None:
        parts = fullname.removeprefix(_PREFIX).split(".")
        if not fullname.startswith(_PREFIX) or parts[0] not in OURS:
            return None
        place = ROOT.joinpath(*parts)
        package = (place / "__init__.py").is_file()
        file = place / "__init__.py" if package else place.with_suffix(".py")
        if not file.is_file():
            return None
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)),
                                       submodule_search_locations=[str(place)] if package else None)


__path__ = []  # type: ignore[no-redef]  # what lies below is found by the finder alone
sys.meta_path.insert(0, _Finder())
