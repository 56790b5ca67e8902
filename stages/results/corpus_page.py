"""Make a page of a data set's keywords and graph, long before there are results; the report follows it."""

import sys
from dataclasses import replace

from stages.common.paths import corpus_page
from stages.results.page.context import build
from stages.results.page.material import gather_first
from stages.results.page.rendering import html
from stages.run.durable import atomic_file
from stages.run.process import StageProcess, run_stage


def _work(process: StageProcess) -> None:
    page = replace(build(gather_first(process.params, process.instance), examples=0), first=True)
    with atomic_file(corpus_page(process.instance)) as temporary:
        temporary.write_text(html(page), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("corpus_page", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
