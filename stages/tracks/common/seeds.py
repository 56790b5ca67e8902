"""What generation and evaluation of every track do with a run's seeds: one after another, and none that is finished.

    for_each_seed(process, _generate, lambda run: [run.predictions.parent])
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from keycontrast.files import hash_values
from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import code_of, hash_code, hash_files
from stages.run.process import StageProcess
from stages.tracks.common.frame import Finished


def for_each_seed(process: StageProcess, make: Callable[[StageProcess, ModelPaths], None],
                  folders: Callable[[RunPaths], Sequence[Path]],
                  tables: Callable[[RunPaths], Sequence[Path]] = lambda run: (), **further: Any) -> None:
    """Make what a run is to have, with its model under each of its seeds.

    Args:
        process: of the stage.
        make: makes it for the seed that the process is at work on, given the model's paths.
        folders: that it makes for a seed.
        tables: that it reads beside the model.
        further: whatever else decides the bytes, plain.
    """
    name = process.instance
    code = hash_code(code_of(process.stage))
    for seed in process.params.run_seeds(name):
        one, paths, run = process.under(seed), ModelPaths(process.params.run_model(name), seed), RunPaths(name, seed)
        # What is missing is said by what reads it.
        read = [path for path in (paths.folder, *tables(run)) if path.exists()]
        key = hash_values({**one.declared_values, "data": hash_files(read), "code": code, "torch": torch.__version__,
                           **further})
        finished = Finished(one, key, folders(run))
        if not finished.restore():
            make(one, paths)
            finished.keep()
