"""A trained HCL model for others to start from, or a baseline as a model of transformers."""

from pathlib import Path

from keycontrast.errors import InputError
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.tracks.hcl.library_export import AUTO, export_library_model
from stages.tracks.hcl.starts import write_start


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a start or a model of the library, and return what it is and how it is used.

    Args:
        params: in force.
        paths: of the model.
        folder: to write into.
        called: what that will be called.

    Raises:
        InputError: the model is a baseline that is none of the library's, is not trained, or has trained its encoder
            too.
    """
    architecture = params.model(paths.name).architecture
    if architecture in AUTO:
        return f"{paths.name} as {export_library_model(paths.weights, folder, called)}"
    if architecture != "hcl":
        raise InputError(f"--model: {paths.name} is of architecture {architecture}; only those of architecture hcl can "
                         f"be a start, and {', '.join(AUTO)} are models of transformers. {paths.weights} can be loaded "
                         f"as it is.")
    write_start(paths.weights, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return (f"what {paths.name} has trained beside its encoder, {size / 1e6:.1f} MB in half precision\n"
            f"Rows begin with it by models.hcl.NAME.init: {called}")
