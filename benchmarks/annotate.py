"""Annotation: the stage's chunks against bare ``nlp.pipe`` with the same components, two workers and one, memory."""

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.json
import yaml

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory, run_stage_in
from pipeline.schemas import SCHEMAS
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, read_batches, write_table
from stages.common.writing import table_writer
from stages.params.data import Annotate
from stages.run.pool import map_chunks
from stages.text.annotation import annotated, annotator, row_groups
from stages.text.annotators import EMBEDDED
from stages.text.pipelines import load_pipeline
from stages.text.tokens import BATCH, stream_chunks

_SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_CHUNK = Annotate().chunk
_SEED = 13
_TEXTS, _FEW = 8192, 96
_CORPORA = (10_000, 50_000)


def run(context: Context) -> list[Section]:
    """Time one worker against ``nlp.pipe``, then two workers against one, and measure memory at two sizes.

    Texts are joined, by a seed, from two of the shipped sample texts each.
    """
    texts = sample(_FEW if context.quick else _TEXTS)
    with tempfile.TemporaryDirectory(prefix="keycontrast-") as name:
        return [_one_worker(texts, Path(name), context), _two_workers(texts, context), _memory(Path(name), context)]


def sample(size: int) -> pa.Table:
    """Return ``size`` distinct texts, made from a seed, as a ``texts`` table."""
    return pa.table({"text_id": range(size), "text": _made(size), "language": ["en"] * size},
                    schema=SCHEMAS["texts"].arrow())


def differing(texts: pa.Table) -> int:
    """Return in how many texts the stage's tokens, tags, parts of speech or lemmas differ from ``nlp.pipe``'s."""
    tables = pa.concat_tables(map(annotator(EMBEDDED), stream_chunks([texts], _CHUNK)))
    ours = zip(*(tables[name].to_pylist() for name in ("token", "tag", "pos", "lemma")), strict=True)
    docs = load_pipeline(EMBEDDED).pipe(texts["text"].to_pylist(), batch_size=BATCH)
    return sum(mine != ([token.text for token in doc], [token.tag_ for token in doc], [token.pos_ for token in doc],
                        [token.lemma_ for token in doc]) for mine, doc in zip(ours, docs, strict=True))


def _one_worker(texts: pa.Table, folder: Path, context: Context) -> Section:
    wrong = differing(texts)
    if wrong:
        raise Disagreement(f"annotate: {wrong} of {texts.num_rows} texts differ from nlp.pipe")
    source, out = folder / "texts.parquet", folder / "tokens.parquet"
    write_table(source, TEXTS, texts, Provenance("benchmark", "0"))
    nlp, strings = load_pipeline(EMBEDDED), texts["text"].to_pylist()

    def ours() -> None:
        chunks = stream_chunks(read_batches(source, TEXTS, ["text_id", "text"]), _CHUNK)
        with table_writer(out, TOKENS, Provenance("benchmark", "0")) as writer:
            for group in row_groups(annotated(chunks, EMBEDDED, "en", texts.num_rows)):
                writer.write(group)

    def bare() -> None:
        for _ in nlp.pipe(strings, batch_size=BATCH):
            pass

    rows = compare({"ours, one worker": ours, "bare nlp.pipe": bare}, 1 if context.quick else context.repeats,
                   items=texts.num_rows)
    return Section("One worker and bare nlp.pipe", f"{texts.num_rows} texts, batches of {BATCH}, {_components(nlp)}",
                   f"tokens, tags, parts of speech and lemmas of {texts.num_rows} of {texts.num_rows} texts", rows,
                   ["Ours reads Parquet, annotates, and writes Parquet; nlp.pipe's documents are dropped. Neither "
                    "loads its pipeline."])


def _two_workers(texts: pa.Table, context: Context) -> Section:
    chunks = list(stream_chunks([texts], _FEW // 6 if context.quick else _CHUNK // 4))
    first, second = (pa.concat_tables(table for table, _ in _spread(chunks, workers)) for workers in (1, 2))
    if not first.equals(second):
        raise Disagreement("annotate: two workers do not give what one gives")
    repeats = 1 if context.quick else context.repeats
    rates: dict[int, list[float]] = {2: [], 1: []}
    rows = compare({f"{workers} worker{'s' * (workers > 1)}": partial(_timed, chunks, workers, rates[workers])
                    for workers in rates}, repeats, warmup=0, items=texts.num_rows)
    steady = {workers: median(found) for workers, found in rates.items()}
    table = [{"workers": workers, "texts per second once started": rate, "times one worker": rate / steady[1]}
             for workers, rate in sorted(steady.items())]
    return Section("Two workers and one", f"{texts.num_rows} texts in {len(chunks)} chunks",
                   f"{first.num_rows} rows are equal", rows,
                   ["The times above hold the start of the worker processes, each of which loads its pipeline; the "
                    "rates below count from when every worker has finished a chunk."], table)


def signed(name: str) -> Callable[[pa.Table], tuple[pa.Table, int]]:
    """Return the annotator called ``name``, whose results say which process they come from."""
    work = annotator(name)
    return lambda chunk: (work(chunk), os.getpid())


def _spread(chunks: list[pa.Table], workers: int) -> Iterator[tuple[pa.Table, int]]:
    return map_chunks(signed, (EMBEDDED,), chunks, workers, "annotate", unit="text",
                      total=sum(chunk.num_rows for chunk in chunks), measure=lambda chunk: chunk.num_rows)


def _timed(chunks: list[pa.Table], workers: int, rates: list[float]) -> None:
    """Annotate ``chunks`` and note the rate from when every worker had finished one."""
    texts, started = 0, 0.0
    seen: set[int] = set()
    for table, process in _spread(chunks, workers):
        texts += table.num_rows * (len(seen) == workers)
        if process not in seen:
            seen.add(process)
            started = time.perf_counter()
    rates.append(texts / (time.perf_counter() - started))


def _memory(folder: Path, context: Context) -> Section:
    table = []
    for size in (_FEW,) if context.quick else _CORPORA:
        project = folder / str(size)
        _project(project, sample(size))
        table.append({"texts": size, "peak MiB": peak_memory(run_stage_in, project, "annotate", "made")})
    return Section("Memory of the whole stage", "texts made from a seed, one worker", "not compared", [],
                   ["The peak of a fresh process that runs the stage, imports and pipeline included."], table)


def _project(folder: Path, texts: pa.Table) -> None:
    write_table(folder / DatasetPaths("made").table("texts"), TEXTS, texts, Provenance("benchmark", "0"))
    (folder / "params.yaml").write_text(yaml.safe_dump({"recipe": "made", "datasets": {"made": {"source": "none"}}}))


def _made(size: int) -> list[str]:
    """Return ``size`` distinct texts, each joined from two of the shipped ones."""
    table = pa.json.read_json(_SAMPLE)
    columns = [table[name].to_pylist() for name in ("source", "paraphrase", "negative")]
    shipped = sorted({text for column in columns for text in column if text})
    draw = random.Random(_SEED)
    made: dict[str, None] = {}
    while len(made) < size:
        made[" ".join(draw.sample(shipped, 2))] = None
    return list(made)


def _components(nlp: Any) -> str:
    return ", ".join(nlp.pipe_names)
