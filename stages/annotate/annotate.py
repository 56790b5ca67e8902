"""Tokenise and tag every distinct text once: lemmas, parts of speech, sentence starts, noun chunks.

Texts are read, annotated and written chunk by chunk, by worker processes or a Dask cluster, so that memory does
not grow with the corpus. A stage that was killed goes on after the last chunk it had finished.
"""

import sys
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.files import hash_values
from keycontrast.text.annotators import load_annotator
from keycontrast.text.tokens import stream_chunks
from stages.annotate.annotation import annotated, annotator, annotator_arguments, row_groups
from stages.common.chunk_store import ChunkStore
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.fingerprint import hash_code
from stages.common.part_work import PartWork, Workforce, write_by_parts
from stages.common.paths import DatasetPaths
from stages.common.settings import code_of
from stages.common.tables import Provenance, read_batches
from stages.common.writing import table_writer
from stages.run.cluster_map import Cluster
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.annotate.params import Annotate

_COLUMNS = ["text_id", "text"]
_BATCH = 8192


def run(texts: pa.Table, params: "Annotate", workers: int = 1, cluster: Cluster | None = None) -> pa.Table:
    """Return the ``tokens`` table of ``texts``; the same whoever does the work.

    Args:
        texts: table ``texts``, of one language.
        params: pipeline and chunk size.
        workers: processes.
        cluster: whose workers take the place of processes here.

    Raises:
        InputError: the pipeline cannot be used, or is made for another language.
    """
    empty = TOKENS.arrow().empty_table()
    if not texts.num_rows:
        return empty
    language = _one_language(set(texts["language"].unique().to_pylist()), "texts")
    chunks = stream_chunks([texts.select(_COLUMNS).sort_by("text_id")], params.chunk)
    return pa.concat_tables([empty, *annotated(chunks, params.pipeline, language, texts.num_rows, workers, cluster)])


def _one_language(languages: set[str], place: str) -> str:
    if len(languages) > 1:
        raise InputError(f"{place}: texts in {len(languages)} languages ({', '.join(sorted(languages))}), but one "
                         f"pipeline reads one. Make a data set of each language.")
    return next(iter(languages))


def _work(process: StageProcess) -> None:
    params = process.params
    paths = DatasetPaths(process.instance)
    source, chosen = paths.table("texts"), params.annotate
    cluster = Cluster.of(params)
    languages = {name for batch in read_batches(source, TEXTS, ["language"])
                 for name in batch["language"].unique().to_pylist()}
    language = _one_language(languages or {params.datasets[process.instance].language}, str(source))
    by = load_annotator(chosen.pipeline, language)
    key = hash_values({**process.declared_values, "model": by.describe(),
                       "code": hash_code(code_of(process.stage))})
    store = ChunkStore(process.scratch, key)
    work = PartWork(annotator, annotator_arguments(chosen.pipeline, language, cluster), _COLUMNS, _BATCH,
                    partial(stream_chunks, size=chosen.chunk), row_groups, TOKENS)
    provenance = Provenance(process.name, process.params_hash, models={by.engine: by.describe()})
    with table_writer(paths.table("tokens"), TOKENS, provenance) as writer:
        write_by_parts(source, work, writer, Workforce(params.runtime.workers, cluster, store), process.name)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("annotate", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
