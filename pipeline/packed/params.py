"""Params as plain values, for a machine without pydantic: a pack has this file as its package ``stages.params``.

The stages that run there ask for ``load_params``, ``stage_hash`` and ``stage_values`` as they do at home. The values
were validated and filled in when the pack was made; nothing is checked here.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

PARAMS = Path("params.json")
# What the machine has in another way than params.yaml says; written by the runner.
OVERRIDES = Path("overrides.json")


class Values(dict[str, Any]):
    """A block of params: a dictionary whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        """Return the value called ``name``; attributes of a dictionary go before."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{PARAMS}: no value is called {name!r}") from None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Values":
        return Values({name: deepcopy(value, memo) for name, value in self.items()})

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        """Return a plain copy; values are plain in every ``mode``."""
        return json.loads(json.dumps(self))


class PackedParams(Values):
    """The params of a pack, with the settings of each model and run already laid over their blocks."""

    def hcl_model(self, name: str) -> Values:
        """Return the settings of model ``name`` of the HCL track."""
        return _settings(name)

    def pgkpr_model(self, name: str) -> Values:
        """Return the settings of model ``name`` of the PGKPR track."""
        return _settings(name)

    def clld_model(self, name: str) -> Values:
        """Return the settings of model ``name`` of the CLLD track."""
        return _settings(name)

    def clld_encoder(self, name: str) -> str:
        """Return what model ``name`` of the CLLD track starts from: ``textcnn``, or a folder of the pack."""
        return str(self.models.clld[name].encoder)

    def hcl_decoding(self, run: str) -> Values:
        """Return the decoding settings of ``run`` of the HCL track."""
        return _content().runs[run].decode

    def pgkpr_decoding(self, run: str) -> Values:
        """Return the decoding settings of ``run`` of the PGKPR track."""
        return _content().runs[run].decode

    def model_seed(self, name: str) -> int:
        """Return the seed of model ``name``."""
        return int(_content().models[name].seed)


def load_params() -> PackedParams:
    """Return the params of the pack in the working folder, for one machine."""
    params = PackedParams(_content().params)
    given = {name: value for name, value in _overrides().items() if name in params.runtime and value is not None}
    params["runtime"] = Values({**params.runtime, "rendezvous": None, **given})
    return params


def stage_values(params: PackedParams, stage: str, key: str = "") -> dict[str, Any]:
    """Return the values that stage instance ``stage@key`` depends on, and what the machine has in another way."""
    return {**_content().stages[f"{stage}@{key}"]["values"], "overrides": _overrides()}


def stage_hash(params: PackedParams, stage: str, key: str = "") -> str:
    """Return the hash of those values as it is at home, where the artifacts are to be read."""
    return str(_content().stages[f"{stage}@{key}"]["hash"])


def _settings(name: str) -> Values:
    settings = deepcopy(_content().models[name].settings)
    precision = _overrides().get("precision")
    if precision is not None:
        settings["training"]["precision"] = precision
    return settings


def _content() -> Values:
    return json.loads(PARAMS.read_text(encoding="utf-8"), object_hook=Values)


def _overrides() -> Values:
    return json.loads(OVERRIDES.read_text(encoding="utf-8"), object_hook=Values) if OVERRIDES.exists() else Values()
