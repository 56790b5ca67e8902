"""Raw rows, a random corpus of pairs, and the tables that the stage ``ingest`` makes of them."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa

from stages.common.tables import as_table
from stages.ingest import ingest
from stages.ingest.params import Dataset, Ingest
from stages.ingest.rows import RawRow
from stages.ingest.text_keys import text_key
from stages.ingest.texts import TextFile

LABELLED = {"source": "q1", "target": "q2", "label": "dup"}
SHARES = {"validation": 0.2, "test": 0.2}
# Why rows that can be taken are in no item.
NO_ITEM = ("unused", "left out", "no negative")


def dataset(source="unused", layout="pairs", columns=None, **more) -> Dataset:
    """A data set of labelled pairs, or what is asked for."""
    return Dataset(source=str(source), layout=layout, columns=columns or LABELLED, **more)


def raw(pairs: Iterable[tuple], file="f.csv", split=None) -> list[RawRow]:
    """Rows of (source, target, label)."""
    return [RawRow(file, number, dict(zip(("source", "target", "label"), pair, strict=True)), split=split)
            for number, pair in enumerate(pairs, start=1)]


def corpus(size=240, seed=0) -> list[tuple[str, str, int]]:
    """Random labelled pairs over few words: overlaps, repetitions, both orders, shared texts."""
    rng = np.random.default_rng(seed)
    words = [f"w{n}" for n in range(90)]
    texts = [" ".join(rng.choice(words, size=rng.integers(2, 7))) for _ in range(size)]
    return [(texts[a], texts[b], int(rng.random() < 0.6)) for a, b in rng.integers(0, size, (size // 2, 2)) if a != b]


def token_rows(ids, words, **given) -> dict:
    """Columns of table ``tokens``; those that are not given play no part."""
    zeros, never = [[0] * len(row) for row in words], [[False] * len(row) for row in words]
    return {"text_id": list(ids), "token": words, "lemma": words, "pos": words, "tag": words, "start": zeros,
            "end": zeros, "is_stop": never, "sentence_start": never, "chunk_start": [[] for _ in words],
            "chunk_end": [[] for _ in words]} | given


def text_file(folder: Path, surfaces: Iterable[str]) -> TextFile:
    """Texts on disk, numbered as they come."""
    texts = pa.table({"text": pa.array(list(surfaces), pa.string())})
    return TextFile(folder / f"texts{len(list(folder.glob('texts*')))}", texts.to_reader(7))


def ingested(rows: Iterable[RawRow], data: Dataset, params: Ingest, seed: int, scratch: Path,
             embed=None) -> SimpleNamespace:
    """Run the stage's function; return its tables as frames, the rows refused before items are made, and its counts."""
    folder = scratch / f"spool{len(list(scratch.glob('spool*')))}"
    folder.mkdir()
    made = ingest.run(rows, data, params, seed, folder, embed)
    tables = {}
    for name, pieces in made.pieces.items():
        tables[name] = pa.concat_tables([as_table(made.schemas[name], piece) for piece in pieces()]).to_pandas()
    rows, reasons = made.counts["rows"], tables["rejected"]["reason"].str.split(":").str[0]
    assert rows["read"] == rows["in_items"] + len(tables["rejected"])
    refused = tables["rejected"][~reasons.isin(NO_ITEM)].reset_index(drop=True)
    return SimpleNamespace(counts=made.counts, refused=refused, **tables)


def by_key(made: SimpleNamespace) -> pd.DataFrame:
    """Examples with the keys of their texts."""
    keys = made.texts["text"].map(text_key)
    frame = made.examples.copy()
    for role in ("source", "target", "negative"):
        frame[role] = frame[f"{role}_id"].map(keys)
    return frame
