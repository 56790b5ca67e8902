"""Write the report: one self-contained page with results, examples, keywords and training curves."""

import sys
from functools import partial
from typing import TYPE_CHECKING

from keycontrast.files import atomic_folder
from stages.common.paths import REPORT
from stages.results.page.context import Material, build, gather, rendered
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.results.params import Report


def run(material: Material, params: "Report") -> dict[str, bytes]:
    """Return the files of the report by name; the same material gives the same bytes."""
    return rendered(build(material, params.examples))


def _work(process: StageProcess) -> None:
    params = process.params
    files = run(gather(params), params.report)
    with atomic_folder(REPORT) as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)


main = partial(run_stage, "report", _work, instance=None)


if __name__ == "__main__":
    sys.exit(main())
