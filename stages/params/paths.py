"""Settings whose value is ``path``: an entry next to them names the file or folder, which DVC watches there."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stages.annotate.params import ENGLISH
from stages.common.settings import GIVEN, NOTHING, earlier_model

if TYPE_CHECKING:
    from stages.params.root import Params

# Place of the setting, and place of its path; rows of data sets and models have their own.
_BLOCKS = (("encoder.source", "encoder.path"), ("annotate.pipeline", "annotate.path"),
           ("embedrank.encoder", "embedrank.path"), ("word_vectors.source", "word_vectors.path"),
           ("evaluation.bertscore.encoder", "evaluation.bertscore.path"), ("evaluation.emb", "evaluation.emb_path"))
_CHARACTERS = "artifacts/data/{}/character_encoder"


def named_path_problems(params: "Params") -> list[str]:
    """Return the settings that need a path and have none, and the paths that no setting reads."""
    problems = []
    for setting, value, place, path in _named(params):
        if value in ("path", "characters") and path == NOTHING:
            problems.append(f"{place}: name the folder or file here, because {setting} is {value}")
        elif value not in ("path", "characters") and path not in (NOTHING, ENGLISH):
            problems.append(f"{place}: is {path}, and nothing reads it; let {setting} be path, or write {NOTHING}")
        if value == "characters" and path not in map(_CHARACTERS.format, params.character_encoder.datasets):
            problems.append(f"{place}: {path} is none of the encoders of character_encoder.datasets; write "
                            f"{_CHARACTERS.format('NAME')}, and NAME there")
    return problems


def named_paths(params: "Params") -> dict[str, str]:
    """Return the files and folders of settings whose value is ``path``, by the entry that names them."""
    return {place: path for _, _, place, path in _named(params) if path not in (NOTHING, ENGLISH)}


def with_paths(params: "Params") -> "Params":
    """Return params whose settings have the path itself, ``path:PLACE``, as stages read them."""
    for setting, value, _, path in list(_named(params)):
        if value == "path" and setting == "annotate.pipeline":
            params = _updated(params, setting.split("."), path if "/" in path else f"./{path}")
        elif value == "path":
            params = _updated(params, setting.split("."), f"{GIVEN}{path}")
        elif value == "characters":
            params = _updated(params, setting.split("."), f"characters:{path.split('/')[-2]}")
    return params


def _named(params: "Params") -> Iterator[tuple[str, Any, str, str]]:
    """Yield the place and the value of each setting, and the place and the value of its path."""
    for setting, place in _BLOCKS:
        yield setting, _at(params, setting), place, _at(params, place)
    for name, dataset in params.datasets.items():
        value = dataset.ingest.get("neg_encoder", params.ingest.neg_encoder)
        yield f"datasets.{name}.ingest.neg_encoder", value, f"datasets.{name}.neg_path", dataset.neg_path
    for name, model in params.models.hcl.items():
        architecture = str(model.overrides.get("architecture", params.train_hcl.architecture))
        own, block = model.overrides.get(architecture), getattr(params.train_hcl, architecture, None)
        value = own.get("source") if isinstance(own, dict) and "source" in own else getattr(block, "source", None)
        if value == "path":
            start = NOTHING if earlier_model(model) else model.init
            yield f"models.hcl.{name}.overrides.{architecture}.source", value, f"models.hcl.{name}.init", start
    for name, row in params.models.clld.items():
        yield f"models.clld.{name}.encoder", row.encoder, f"models.clld.{name}.path", row.path


def _at(params: Any, place: str) -> Any:
    for part in place.split("."):
        params = getattr(params, part)
    return params


def _updated(tree: Any, parts: list[str], value: Any) -> Any:
    """Return a block or dictionary with ``value`` at the place ``parts``."""
    if not parts:
        return value
    first, *others = parts
    if isinstance(tree, dict):
        return {**tree, first: _updated(tree.get(first, {}), others, value)}
    return tree.model_copy(update={first: _updated(getattr(tree, first), others, value)})
