"""A trained HCL model for others to start from, in this project or another."""

from pathlib import Path

from stages.artifacts.paths import ModelPaths
from stages.runtime.errors import InputError
from stages.runtime.settings import Params
from stages.tracks.hcl.starts import write_start


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a start, and return what it is and how it is used.

    Args:
        params: in force.
        paths: of the model.
        folder: to write into.
        called: what that will be called.

    Raises:
        InputError: the model is a baseline, is not trained, or has trained its encoder too.
    """
    architecture = params.model(paths.name).architecture
    if architecture != "hcl":
        raise InputError(f"--model: {paths.name} is of architecture {architecture}; only those of architecture hcl can "
                         f"be a start. {paths.weights} can be loaded as it is.")
    write_start(paths.weights, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return (f"what {paths.name} has trained beside its encoder, {size / 1e6:.1f} MB in half precision\n"
            f"Rows begin with it by models.hcl.NAME.init_from: path:{called}")
