"""Synthetic keyword triples, their keywords drawn by Zipf's law, and a project folder that holds them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from stages.artifacts.tables import Provenance, table_writer
from stages.data.schemas.items import EXAMPLES
from stages.keywords.schemas.keywords import KEYWORDS

DATASET = "synthetic"
ROLES = ("input_keyword", "output_keyword", "negative_keyword")
_PIECE = 100_000
_PARAMS = f"recipe: synthetic\ndatasets:\n  {DATASET}:\n    source: synthetic.parquet\n"


def zipf_triples(count: int, keywords: int = 200_000, exponent: float = 1.0, seed: int = 13) -> pa.Table:
    """Return ``count`` keyword triples, each keyword drawn for itself.

    The keyword of rank r has probability proportional to r ** -exponent; ranks are dealt to names at random. Drawing
    the three independently is the hard case: real triples agree more, which leaves fewer edges.

    Args:
        count: rows.
        keywords: distinct keywords to draw from.
        exponent: of Zipf's law.
        seed: of the draws; the first rows of a longer table are another table's.
    """
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(np.arange(1, keywords + 1, dtype=np.float64) ** -exponent)
    names = pa.array([f"keyword {number:06d}" for number in range(keywords)])
    dealt = rng.permutation(keywords).astype(np.int32)
    columns = {}
    for role in ROLES:
        ranks = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        columns[role] = pa.DictionaryArray.from_arrays(dealt[np.minimum(ranks, keywords - 1)], names).cast(pa.string())
    return pa.table(columns)


def write_project(folder: Path, triples: pa.Table) -> None:
    """Write ``triples`` to ``folder`` as a project whose data set ``synthetic`` is ready for stage ``clusters``.

    Every keyword becomes the keyword of a text of its own, so a row makes one example and three texts.

    Args:
        folder: of the project, made if missing.
        triples: the columns of ``ROLES``; null negatives are examples without one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.yaml").write_text(_PARAMS, encoding="utf-8")
    place = folder / "artifacts" / DATASET
    for schema, rows in ((EXAMPLES, _examples), (KEYWORDS, _keywords)):
        path, provenance = place / f"{schema.name}.parquet", Provenance(f"{schema.name}@{DATASET}", "")
        with table_writer(path, schema, provenance) as writer:
            for start in range(0, triples.num_rows, _PIECE):
                writer.write(rows(triples.slice(start, _PIECE), start))


def _examples(triples: pa.Table, start: int) -> pa.Table:
    number = np.arange(start, start + triples.num_rows)
    without = triples["negative_keyword"].is_null().to_numpy()
    return pa.table({
        "example_id": number, "split": pa.repeat("train", len(number)),
        "source_id": 3 * number, "target_id": 3 * number + 1, "negative_id": pa.array(3 * number + 2, mask=without),
        "further_negative_ids": pa.ListArray.from_arrays(np.zeros(len(number) + 1, dtype=np.int32),
                                                         pa.array([], pa.int64())),
        "reference_ids": pa.ListArray.from_arrays(np.arange(len(number) + 1, dtype=np.int32), 3 * number + 1),
        "group": number, "negative_origin": pa.array(np.full(len(number), "given"), mask=without)})


def _keywords(triples: pa.Table, start: int) -> pa.Table:
    text = 3 * np.arange(start, start + triples.num_rows)
    ids = np.concatenate([text + place for place in range(len(ROLES))])
    words = pa.concat_arrays([triples[role].combine_chunks() for role in ROLES])
    rows = pa.table({"text_id": ids, "keyword": words, "method": pa.repeat("textrank", len(ids)),
                     "score": np.ones(len(ids))})
    return rows.filter(words.is_valid())
