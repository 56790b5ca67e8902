"""List a data set's artifacts with size, hash, rows and provenance, for the report to depend on."""

import sys

from stages.common.manifest import write_manifest
from stages.common.paths import DatasetPaths
from stages.run.process import StageProcess, run_stage


def _work(process: StageProcess) -> None:
    write_manifest(process, "data", [DatasetPaths(process.instance).folder])


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("manifest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
