"""Write a page with a data set's keywords and graph, before any training."""

from dataclasses import replace
from functools import partial

from keycontrast.files import atomic_file
from stages.common.paths import corpus_page
from stages.results.model import Results
from stages.results.page.context import build, html
from stages.results.page.corpus import read_dataset
from stages.run.process import StageProcess, run_stage


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    page = build(Results(params.recipe, params.seed, params.encoder.source, [], [], []),
                 [read_dataset(name, params.datasets[name].plain(), first=True)])
    with atomic_file(corpus_page(name)) as temporary:
        temporary.write_text(html(replace(page, first=True)), encoding="utf-8")


main = partial(run_stage, "corpus_page", _work)
