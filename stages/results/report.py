"""Write the report: one self-contained page with results, examples, keywords and training curves."""

from functools import partial

from keycontrast.files import atomic_folder
from stages.common.paths import REPORT
from stages.results.page.context import build, gather, rendered
from stages.run.process import StageProcess, run_stage


def _work(process: StageProcess) -> None:
    files = rendered(build(*gather(process.params), process.params.report.examples))
    with atomic_folder(REPORT) as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)


main = partial(run_stage, "report", _work, instance=None)
