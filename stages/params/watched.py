"""Files and folders from elsewhere that params name: DVC watches them, each in a place of its own in ``dvc.yaml``.

All are here but what a data set is read from (`source`), the project's encoder (`own_encoders`) and what a model starts
from (`starts_from`), whose places have further uses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os.path import normpath
from typing import Any

from stages.common.settings import GIVEN, laid_over


@dataclass(frozen=True)
class Outside:
    """What may name a file or a folder.

    Attributes:
        param: dotted name of the param that does; of a row, within the row.
        nothing: what is watched where they name none: a file that always exists and that no stage reads, such as the
            one line of a package that says what it is for. A stage has no two of the same.
        named: given all params and, of a row, its own, returns the value; all as they were read, sound or not.
    """

    param: str
    nothing: str
    named: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


def _of_block(param: str, nothing: str) -> Outside:
    return Outside(param, nothing, lambda content, row: _at(content, param))


def _negatives(content: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    return _at(_over(content.get("ingest"), row.get("ingest")), "neg_encoder")


def _weights(content: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """Return where the architecture of a row of HCL's takes its weights from, if it takes any."""
    settings = _over(content.get("train_hcl"), row.get("overrides"))
    return _at(settings, f"{settings.get('architecture')}.source")


def _distances(content: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """Return where a row of CLLD's takes its label distances from, if it takes any."""
    settings = _over(content.get("train_clld"), row.get("overrides"))
    return _at(settings, "distance.source") if row.get("contrast") == "given" else None


# By the entry of block `watched`.
BLOCKS = {
    "pipeline": _of_block("annotate.pipeline", "data/language/en_ewt"),     # watched whatever reads the texts
    "embedrank": _of_block("embedrank.encoder", "stages/keywords/__init__.py"),
    "word_vectors": _of_block("word_vectors.source", "stages/psi/importance/__init__.py"),
    "bertscore": _of_block("evaluation.bertscore.encoder", "stages/tracks/common/evaluation/__init__.py"),
    "emb": _of_block("evaluation.emb", "stages/tracks/__init__.py")}
# By the block of the rows, and their entry that says what is watched.
ROWS = {
    ("datasets", "watched"): Outside("ingest.neg_encoder", "stages/ingest/negatives/__init__.py", _negatives),
    ("models.hcl", "watched"): Outside("source", "stages/tracks/hcl/__init__.py", _weights),
    ("models.clld", "watched"): Outside("encoder", "stages/tracks/clld/__init__.py",
                                        lambda content, row: row.get("encoder")),
    ("models.clld", "distances_from"): Outside("distance.source", "stages/tracks/clld/schemas/__init__.py",
                                               _distances)}
WATCHED = "what DVC watches for {}; a file that always exists where that names no folder; filled in"


def blocks_watched(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of block `watched` that params as read ask for."""
    return {name: _watched(content, {}, outside) for name, outside in BLOCKS.items()}


def rows_watched(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return params as read with what is watched filled in, in all rows that say so.

    Raises:
        ValueError: a row has another one.
    """
    filled = dict(content)
    for (place, entry), outside in ROWS.items():
        rows = _at(content, place)
        for name, row in rows.items() if isinstance(rows, Mapping) else ():
            if not isinstance(row, Mapping):
                continue
            wanted = _watched(content, row, outside)
            if row.get(entry, wanted) != wanted:
                raise ValueError(f"{place}.{name}.{entry}: is {row[entry]!r}, and {outside.param} asks for "
                                 f"{wanted!r}; write that, or leave it out and `keycontrast use` fills it in")
            inner: dict[str, Any] = {name: {entry: wanted}}
            for part in reversed(place.split(".")):
                inner = {part: inner}
            filled = laid_over(filled, inner)
    return filled


def named_paths(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the files and folders that plain, validated params name, by the params that do."""
    found = {outside.param: params["watched"][name] for name, outside in BLOCKS.items()
             if params["watched"][name] != outside.nothing}
    return found | {f"{place}.{name}.{outside.param}": row[entry] for (place, entry), outside in ROWS.items()
                    for name, row in _at(params, place).items() if row[entry] != outside.nothing}


def _watched(content: Mapping[str, Any], row: Mapping[str, Any], outside: Outside) -> str:
    """Return the path that is named, unless DVC watches it already as the project's encoder."""
    named = _path(outside.named(content, row), bare=outside.param == "annotate.pipeline")
    own = _path(_at(content, "encoder.source"))
    return outside.nothing if named is None or (own is not None and normpath(own) == normpath(named)) else named


def _path(value: Any, bare: bool = False) -> str | None:
    """Return the path in the value of a param, if it is one; ``bare``: what holds a slash is one too."""
    if not isinstance(value, str):
        return None
    if value.startswith(GIVEN) and value != GIVEN:
        return value.removeprefix(GIVEN)
    return value if bare and "/" in value else None


def _over(block: Any, own: Any) -> dict[str, Any]:
    """Return a block as read with what a row lays over it."""
    return laid_over(block if isinstance(block, Mapping) else {}, own if isinstance(own, Mapping) else {})


def _at(content: Any, place: str) -> Any:
    for part in place.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content
