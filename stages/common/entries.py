"""Which module is the entry of a stage."""

from pathlib import Path

_STAGES = Path(__file__).resolve().parent.parent


def module_of(stage: str) -> str:
    """Return the dotted name of the module that runs stage ``stage``.

    A track's stages are called ``train_hcl`` and lie as ``tracks/hcl/train.py``; others have the name of their module.

    Raises:
        ValueError: there is no such stage.
    """
    verb, _, track = stage.rpartition("_")
    places = [_STAGES / "tracks" / track / f"{verb}.py", *_STAGES.glob(f"*/{stage}.py"),
              *_STAGES.glob(f"tracks/*/{stage}.py")]
    found = next((path for path in places if path.exists()), None)
    if found is None or not stage:
        raise ValueError(f"no stage {stage}")
    return ".".join(("stages", *found.relative_to(_STAGES).with_suffix("").parts))
