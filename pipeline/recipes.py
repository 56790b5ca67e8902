"""Recipes: named, validated sets of params, and what changes in the project when one is chosen.

Artifacts of the former params stay, in ``artifacts/`` and in DVC's cache. When the same params come back, the next run
takes them from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import reduce
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.tokens import AnchorToken
from yaml import ScalarNode
from yaml.resolver import Resolver

from keycontrast.errors import InputError, nearest
from keycontrast.files import atomic_file
from stages.common import paths
from stages.common.settings import laid_over
from stages.common.yaml_files import parse_yaml, read_yaml
from stages.params import Params, parse_params, with_what_dvc_reads
from stages.tracks.common.frame import forget_others
from stages.tracks.registry import TRACKS, all_runs, seeds_of_stage, with_earlier

_DATA, _STR = "{data}", "tag:yaml.org,2002:str"
_HEADER = """\
# Written by `keycontrast use {recipe}`. Edit freely: `keycontrast run` and `dvc repro` check it first.
"""

@dataclass(frozen=True)
class Change:
    """The changes that choosing a recipe makes."""

    params: Params
    text: str   # new content of ``params.yaml``
    difference: str     # unified, from the present ``params.yaml``; empty if there is none


def recipe_names(folder: Path = paths.RECIPES) -> dict[str, str]:
    """Return every recipe's name and its first comment line."""
    firsts = {path.stem: path.read_text(encoding="utf-8-sig", errors="replace").partition("\n")[0]
              for path in sorted(folder.glob("*.yaml")) if path.is_file()}
    return {name: first.lstrip("# ").strip() if first.startswith("#") else "" for name, first in firsts.items()}


def _chosen(recipe: Any, changes: Sequence[str], place: str) -> dict[str, Any]:
    """Return the content of params that ``recipe`` with ``changes`` gives.

    A recipe may have three blocks that params do not have: ``by_dataset`` has overrides for each data set, ``dataset``
    names the data set to use, and ``every_model`` has defaults for all models.
    """
    if not isinstance(recipe, Mapping):
        raise InputError(f"{place}: must hold names and values, found {type(recipe).__name__}.")
    content = reduce(_changed, changes, dict(recipe))
    chosen: dict[str, Any] = {}
    if "by_dataset" in content:
        by_dataset = _mapping(content, "by_dataset", place)
        chosen["dataset"] = str(content.get("dataset"))
        if chosen["dataset"] not in by_dataset:
            raise InputError(f"{place}: dataset: by_dataset holds no {chosen['dataset'][:100]!r}; "
                             f"{nearest(chosen['dataset'], by_dataset)}")
        overrides = _mapping(by_dataset, chosen["dataset"], f"{place}: by_dataset")
        content = reduce(_changed, changes, laid_over(_for_dataset(content, chosen["dataset"]), overrides))
        del content["by_dataset"], content["dataset"]
    if "every_model" in content:
        chosen.update(_mapping(content, "every_model", place))
        content = {name: value for name, value in content.items() if name != "every_model"}
    if not chosen:
        return content
    models = _mapping(content, "models", place)
    return {**content, "models": {
        track: {name: laid_over(chosen, _mapping(models[track], name, f"{place}: models.{track}"))
                for name in _mapping(models, track, f"{place}: models")} for track in models}}


def _for_dataset(content: Any, dataset: str) -> Any:
    """Return ``content`` with the name of the data set in place of ``{dataset}``, in lists of data sets, say."""
    if isinstance(content, Mapping):
        return {name: _for_dataset(value, dataset) for name, value in content.items()}
    if isinstance(content, list):
        return [_for_dataset(value, dataset) for value in content]
    return dataset if content == "{dataset}" else content


def _mapping(content: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    value = content.get(name)
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {name}: must hold names and values, found {type(value).__name__}.")
    return value


def _changed(content: dict[str, Any], change: str) -> dict[str, Any]:
    """Return ``content`` with one ``place=value`` laid over it."""
    place, sign, value = change.partition("=")
    names = place.strip().split(".")
    if not sign or not all(names):
        raise InputError(f"--set {change}: expected PLACE=VALUE, such as encoder.source=bundled")
    nested = parse_yaml(value, f"--set {change}")
    for part in reversed(names):
        nested = {part: nested}
    return laid_over(content, nested)


def _part(content: dict[str, Any], models: Sequence[str], place: str) -> dict[str, Any]:
    """Return ``content`` with ``models`` alone, what they start from, and their runs and probes."""
    params = parse_params(content, place)
    chosen = set(with_earlier(params, models))
    runs = {run for run, entry in all_runs(params).items() if entry.model in chosen}
    probes = {probe for probe, entry in params.probes.hcl.items() if entry.model in chosen}

    def kept(group: str, names: set[str]) -> dict[str, Any]:
        return {track: {name: row for name, row in (rows or {}).items() if name in names}
                for track, rows in (content.get(group) or {}).items()}

    pairs = content.get("confusing_pairs") or {}
    return {**content, "models": kept("models", chosen), "runs": kept("runs", runs), "probes": kept("probes", probes),
            "confusing_pairs": {**pairs, "models": [name for name in pairs.get("models", ()) if name in chosen]}}


def plan(name: str, data: str | None = None, root: Path = Path(), changes: Sequence[str] = (),
         models: Sequence[str] = (), called: str | None = None) -> Change:
    """Return the changes that recipe ``name`` would make in ``root``, without making them.

    ``data`` is put in place of ``{data}`` in the sources of data sets; ``changes`` are ``place=value`` with a dotted
    place and a YAML value, such as ``train_hcl.training.epochs=2``; ``called`` is the name of the recipe in the params.

    Args:
        models: models of the recipe to use, with the models that they start from; all if it is empty.
    """
    path = root / paths.RECIPES / f"{name}.yaml"
    if not path.exists():
        raise InputError(f"no recipe is called {name!r}; {nearest(name, recipe_names(path.parent))}")
    content = _chosen(read_yaml(path), changes, str(path))
    content = _with_data(content if called is None else {**content, "recipe": called}, name, data)
    content = _part(content, models, str(path)) if models else content
    params, content = parse_params(content, str(path)), with_what_dvc_reads(content)[0]
    text = params_text(content, path.read_text(encoding="utf-8"))
    written = root / paths.PARAMS
    present = written.read_text(encoding="utf-8", errors="replace") if written.exists() else ""
    lines = unified_diff(present.splitlines(), text.splitlines(), f"{paths.PARAMS} (now)", f"{paths.PARAMS} ({name})",
                         lineterm="", n=1)
    return Change(params, text, "\n".join(lines))


def params_text(content: Mapping[str, Any], recipe: str = "") -> str:
    """Return ``params.yaml`` for ``content``: the text of ``recipe``, comments included, with these values."""
    yaml = YAML()
    yaml.width, yaml.allow_unicode = 110, True
    yaml.representer.add_representer(float, _float)
    yaml.representer.add_representer(str, _text)
    yaml.representer.add_representer(type(None), lambda by, _: by.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml.representer.ignore_aliases = lambda _: True
    # A value with an anchor is shared by several places, so that none of them could be changed alone.
    anchored = any(isinstance(token, AnchorToken) for token in YAML().scan(recipe))
    document = None if anchored else yaml.load(recipe)
    stream = StringIO()
    yaml.dump(content if document is None else _synchronised(document, content), stream)
    header = _HEADER.format(recipe=content["recipe"]) if document is None or document.ca.comment is None else ""
    return header + stream.getvalue()


def _text(by: Any, value: str) -> Any:
    # Quoted where YAML 1.1, by which params are read, has a switch or a number: no, on, 12:30.
    plain = Resolver().resolve(ScalarNode, value, (True, False)) == _STR
    return by.represent_scalar(_STR, value, style=None if plain else "'")


def _float(by: Any, value: float) -> Any:
    # As YAML 1.1 reads it, too, for which 1e-05 is a text.
    text = repr(value)
    return by.represent_scalar("tag:yaml.org,2002:float", text if "." in text else text.replace("e", ".0e"))


def _synchronised(document: Any, content: Mapping[str, Any]) -> Any:
    """Return ``document``, comments and all, with the values of ``content``."""
    for name in [name for name in document if name not in content]:
        del document[name]
    for name, value in content.items():
        present = document.get(name)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            _synchronised(present, value)
        elif name not in document or present != value:
            document[name] = value
    return document


def apply(change: Change, root: Path = Path()) -> None:
    """Write ``params.yaml``, and forget finished seeds that the new params do not have."""
    with atomic_file(root / paths.PARAMS) as temporary:
        temporary.write_text(change.text, encoding="utf-8")
    forget_others(root, {(stage, key, seed) for track in TRACKS.values() for stage, keys in (
        (track.trained_by, track.models(change.params)), (track.computed_by, track.runs(change.params)),
        (track.evaluated_by, track.runs(change.params)))
        for key in keys for seed in seeds_of_stage(change.params, stage, key)})


def _with_data(content: dict[str, Any], recipe: str, data: str | None) -> dict[str, Any]:
    """Return the recipe's content with ``data`` in place of ``{data}`` in the sources of its data sets."""
    datasets = content.get("datasets")
    filled = {}
    for name, dataset in datasets.items() if isinstance(datasets, Mapping) else ():
        source = dataset.get("source") if isinstance(dataset, Mapping) else None
        if isinstance(source, str) and _DATA in source:
            if data is None:
                raise InputError(f"recipe {recipe!r} reads data that does not ship with the project. Name its "
                                 f"folder: `keycontrast use {recipe} --data FOLDER` (it looks for "
                                 f"{source.replace(_DATA, 'FOLDER')}).")
            filled[name] = {**dataset, "source": source.replace(_DATA, Path(data).as_posix())}
    return {**content, "datasets": {**(datasets or {}), **filled}} if filled else content

