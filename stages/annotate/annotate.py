"""Tokenise and tag every distinct text once: lemmas, parts of speech, sentence starts, noun chunks.

Worker processes or a Dask cluster make a part of the tokens from each part of the texts. A stage that was killed
resumes with the parts that are missing.
"""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.files import hash_values
from keycontrast.text.annotate import annotated, annotator, is_foreign, load_annotator
from keycontrast.text.tokens import pieces, stream_chunks
from stages.common.paths import DatasetPaths
from stages.common.schemas import TEXTS
from stages.common.settings import code_of, hash_code
from stages.common.tables import Provenance, read_batches, table_writer, write_json, write_part
from stages.common.text_tables import TOKENS
from stages.run.executor import Executor, MakePart
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.annotate.params import Annotate

_COLUMNS = ["text_id", "text"]
# A row group is written when it has so many texts, or tokens: enough to compress well, few enough to hold. As many
# texts are read at once.
_GROUP_TEXTS = 8192
_GROUP_TOKENS = 1 << 20


def run(texts: pa.Table, params: "Annotate", workers: int = 1) -> pa.Table:
    """Return the ``tokens`` table of table ``texts``, of one language; the same for any number of ``workers``."""
    empty = TOKENS.arrow().empty_table()
    if not texts.num_rows:
        return empty
    language = _one_language(set(texts["language"].unique().to_pylist()), "texts")
    chunks = stream_chunks([texts.select(_COLUMNS).sort_by("text_id")], params.chunk)
    return pa.concat_tables([empty, *annotated(chunks, params.pipeline, language, texts.num_rows, workers,
                                                cleaning=params.clean)])


def _one_language(languages: set[str], place: str) -> str:
    if len(languages) > 1:
        raise InputError(f"{place}: texts in {len(languages)} languages ({', '.join(sorted(languages))}), but one "
                         f"pipeline reads one. Make a data set of each language.")
    return next(iter(languages))


def part_annotator(pipeline: str, language: str, size: int, clean: bool, expected: dict[str, Any],
                   provenance: Provenance) -> MakePart:
    """Return a function that annotates a part of the texts, in chunks of ``size`` texts.

    The description of this machine's pipeline must equal ``expected``.
    """
    own = load_annotator(pipeline, language).describe()
    if json.dumps(own, sort_keys=True) != json.dumps(expected, sort_keys=True):
        raise InputError(f"annotate.pipeline: a worker's pipeline {pipeline!r} is {own}, here it is {expected}. "
                         f"Install the same one on every machine of the cluster.")

    def make(part: Path, result: Path) -> dict[str, int]:
        counts = Counter[str]()
        work = annotator(pipeline, language, clean, counts)

        def annotated_chunks() -> Iterator[pa.Table]:
            for chunk in stream_chunks(read_batches(part, TEXTS, _COLUMNS, _GROUP_TEXTS), size):
                texts = chunk["text"].to_pylist()
                counts.update(texts=len(texts), other_language=sum(is_foreign(text, language) for text in texts))
                yield work(chunk)

        write_part(result, TOKENS, pieces(annotated_chunks(), _GROUP_TEXTS, _GROUP_TOKENS), provenance.of_part())
        return counts

    return make


def _work(process: StageProcess) -> None:
    params = process.params
    paths = DatasetPaths(process.instance)
    source, chosen = paths.table("texts"), params.annotate
    languages = {name for batch in read_batches(source, TEXTS, ["language"])
                 for name in batch["language"].unique().to_pylist()}
    language = _one_language(languages or {params.datasets[process.instance].language}, str(source))
    by = load_annotator(chosen.pipeline, language)
    executor = Executor.of(process, hash_values({**process.declared_values, "model": by.describe(),
                                                 "code": hash_code(code_of(process.stage))}))
    provenance = Provenance(process.name, process.params_hash, models={by.engine: by.describe()})
    with table_writer(paths.table("tokens"), TOKENS, provenance) as writer:
        arguments = chosen.pipeline, language, chosen.chunk, chosen.clean, by.describe(), provenance
        parts = executor.make(source, part_annotator, arguments, writer)
    counts = {name: sum(part.get(name, 0) for part in parts) for name in ("texts", "cleaned", "other_language")}
    shares = {f"share_{name}": round(count / max(1, counts["texts"]), 6) for name, count in counts.items()
              if name != "texts"}
    write_json(paths.metrics("annotate"), counts | shares)
    if counts["other_language"]:
        process.log.warning("%d of %d texts (%.0f %%) are not written as language %s is; their phrases mean little",
                            counts["other_language"], counts["texts"], 100 * shares["share_other_language"], language)
    executor.clear()


main = partial(run_stage, "annotate", _work)
