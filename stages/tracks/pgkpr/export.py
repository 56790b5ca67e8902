"""A trained rewriter for others to start from, in this project or another."""

from pathlib import Path

from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.tracks.pgkpr.starts import write_start


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:  # noqa: ARG001 - as all tracks have it
    """Write a start, and return what it is and how it is used.

    Args:
        params: in force.
        paths: of the model.
        folder: to write into.
        called: what that will be called.

    Raises:
        InputError: the model is not trained.
    """
    write_start(paths.weights, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return (f"{paths.name} with its vocabulary, {size / 1e6:.1f} MB in half precision\n"
            f"Rows begin with it by models.pgkpr.NAME.init: {called}")
