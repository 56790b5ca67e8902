"""Tokenise and tag every distinct text once: lemmas, parts of speech, sentence starts, noun chunks."""

import sys
from collections.abc import Callable
from functools import cache

import pyarrow as pa
from spacy.language import Language

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_table, write_table
from stages.language.pipelines import describe_pipeline, load_pipeline
from stages.language.tokens import annotate_texts, fixed_chunks, token_table
from stages.params.data import Annotate
from stages.runtime.errors import InputError
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess, run_stage

# spaCy's code for a pipeline of no particular language.
_ANY_LANGUAGE = "xx"


def run(texts: pa.Table, params: Annotate, workers: int = 1) -> pa.Table:
    """Return the ``tokens`` table of ``texts``; the same for any number of ``workers``.

    Args:
        texts: table ``texts``.
        params: pipeline and chunk size.
        workers: processes.

    Raises:
        InputError: the pipeline cannot be used, or is made for another language.
    """
    _check_language(pipeline(params.pipeline), params.pipeline, texts)
    chunks = fixed_chunks(texts.select(["text_id", "text"]), params.chunk)
    tables = map_chunks(annotator, (params.pipeline,), chunks, workers, "annotate")
    return pa.concat_tables([SCHEMAS["tokens"].arrow().empty_table(), *tables])


def annotator(name: str) -> Callable[[pa.Table], pa.Table]:
    """Return the function that turns a chunk of texts into a chunk of tokens with pipeline ``name``."""
    nlp = pipeline(name)

    def annotate(chunk: pa.Table) -> pa.Table:
        return token_table(annotate_texts(nlp, chunk["text_id"].to_pylist(), chunk["text"].to_pylist()))

    return annotate


@cache
def pipeline(name: str) -> Language:
    """Return pipeline ``name``, loaded once per process."""
    return load_pipeline(name)


def _check_language(nlp: Language, name: str, texts: pa.Table) -> None:
    for language in sorted(texts["language"].unique().to_pylist()):
        if nlp.lang not in (language, _ANY_LANGUAGE):
            raise InputError(f"annotate.pipeline: {name!r} is made for language {nlp.lang!r}, but the texts are "
                             f"{language!r}. Name a pipeline for that language, or correct the data set's `language`.")


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    paths = DatasetPaths(process.instance)
    tokens = run(read_table(paths.table("texts"), "texts"), params.annotate, params.runtime.workers)
    model = describe_pipeline(pipeline(params.annotate.pipeline))
    write_table(paths.table("tokens"), "tokens", tokens, Provenance(
        stage=process.name, params_hash=stage_hash(params, "annotate", process.instance), models={"spacy": model}))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("annotate", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
