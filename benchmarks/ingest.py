"""From raw pairs to tables: the stage's engine on disk and the plain way, pandas with Python dictionaries."""

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory
from pipeline.schemas import SCHEMAS
from stages.common.schemas import SPLITS
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, read_frame
from stages.common.writing import table_writer
from stages.ingest import ingest
from stages.ingest.deduplication.text_keys import jaccard, overlap_tokens, text_key
from stages.ingest.reading.files import read_rows
from stages.ingest.splitting.splits import split_groups
from stages.params.data import Dataset, Ingest

PEER = "pandas and Python dictionaries"
_SEED = 13
_PARAMS = Ingest(neg_source="labelled", max_rejected=1.0)
_PAIRS = {"source": "source", "target": "target", "label": "label"}
# Negatives are searched for among all texts, but for so few items: the time of a search grows with the square of the
# texts, its memory does not.
_SEARCHED = {"max_rejected": 1.0, "max_train": 40, "max_validation": 5, "max_test": 5}
_NEGATIVES = {
    "labelled": (("pairs", _PAIRS), _PARAMS),
    "overlap": (("pairs", _PAIRS), Ingest(neg_source="retrieved", **_SEARCHED)),
    "BM25": (("dialogue", {"context": "source", "response": "target"}),
             Ingest(neg_source="retrieved", douban_neg="bm25", **_SEARCHED))}
_PIECE = 50_000
_CLUSTER, _PAIRS_OF_CLUSTER = 6, 4
_KINDS = ("examples", "texts", "rejected")


def run(context: Context) -> list[Section]:
    """Time both ways from a Parquet file to three tables, and measure their memory at two sizes.

    Pairs are made: questions in clusters of six, some said twice, in both orders, or with both labels.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_pairs(folder / "pairs.parquet", 400 if context.quick else 100_000)
        return [_speed(path, folder, context.repeats), _memory(folder, context.quick)]


def write_pairs(path: Path, rows: int) -> Path:
    """Write ``rows`` labelled pairs of made-up questions, from a fixed seed."""
    schema = pa.schema([("source", pa.string()), ("target", pa.string()), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for frame in _pairs(rows):
            writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))
    return path


def engine(path: Path, folder: Path, negatives: str = "labelled") -> None:
    """Run the stage's engine on the pairs at ``path`` and write its tables and counts to ``folder``.

    Args:
        path: Parquet file of pairs.
        folder: for tables and counts.
        negatives: where they are from, a name of ``_NEGATIVES``.
    """
    (layout, columns), params = _NEGATIVES[negatives]
    data = Dataset(source=str(path), layout=layout, columns=columns)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = ingest.run(read_rows(data), data, params, _SEED, Path(scratch))
        for kind, pieces in made.pieces.items():
            with table_writer(folder / f"{kind}.parquet", SCHEMAS[kind], Provenance("benchmark", "")) as writer:
                for piece in pieces():
                    writer.write(piece)
    (folder / "counts.json").write_text(json.dumps(made.counts))


def plain(path: Path, folder: Path) -> None:
    """Do the same with a data frame in memory, dictionaries and sets."""
    frame = pd.read_parquet(path)
    numbers: dict[str, int] = {}
    surfaces: list[str] = []
    rejected: list[tuple[int, str]] = []
    groups: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    columns = (frame[name] for name in ("source", "target", "label"))
    for row, (source, target, label) in enumerate(zip(*columns, strict=True), start=1):
        keys = text_key(source), text_key(target)
        if keys[0] == keys[1]:
            rejected.append((row, "same text: source and target have the same letters and digits"))
            continue
        for key, text in zip(keys, (source, target), strict=True):
            if numbers.setdefault(key, len(surfaces)) == len(surfaces):
                surfaces.append(text)
        one, other = numbers[keys[0]], numbers[keys[1]]
        groups.setdefault((min(one, other), max(one, other)), []).append((row, one, other, label))
    good: dict[int, set[int]] = {}
    bad: dict[int, set[int]] = {}
    parent = list(range(len(surfaces)))
    for rows in groups.values():
        if len({row[3] for row in rows}) > 1:
            rejected += [(row[0], "both labels: the pair occurs as paraphrase and as non-paraphrase") for row in rows]
            continue
        rejected += [(row[0], f"duplicate: of {path.name} row {rows[0][0]}") for row in rows[1:]]
        _, one, other, label = rows[0]
        for x, y in ((one, other), (other, one)):
            (good if label else bad).setdefault(x, set()).add(y)
        _join(parent, one, other)
    items = _triples(good, bad, surfaces, list(numbers))
    _write_plain(folder, items, [_root(parent, x) for x in range(len(surfaces))], surfaces, rejected, frame)


def _triples(good: dict[int, set[int]], bad: dict[int, set[int]], surfaces: list[str],
             keys: list[str]) -> list[tuple[int, int, int]]:
    items = []
    for x in sorted(good.keys() & bad.keys()):
        targets = sorted(good[x], key=lambda n: keys[n])
        target = targets[derived_seed(_SEED, "ingest", "target", keys[x]) % len(targets)]
        words = overlap_tokens(surfaces[x])
        negative = min(bad[x], key=lambda n: (-jaccard(words, overlap_tokens(surfaces[n])), keys[n]))
        items.append((x, target, negative))
    return items


def _write_plain(folder: Path, items: list[tuple[int, int, int]], roots: list[int], surfaces: list[str],
                 rejected: list[tuple[int, str]], frame: pd.DataFrame) -> None:
    component: dict[int, int] = {}
    group = [component.setdefault(root, len(component)) for root in roots]
    split = split_groups(np.array([group[x] for x, _, _ in items]), len(component), _PARAMS.validation, _PARAMS.test,
                         _SEED)
    used = {number: place for place, number in enumerate(sorted({number for item in items for number in item}))}
    pd.DataFrame({
        "example_id": range(len(items)), "split": [SPLITS[split[group[x]]] for x, _, _ in items],
        "source_id": [used[x] for x, _, _ in items], "target_id": [used[y] for _, y, _ in items],
        "negative_id": [used[n] for _, _, n in items], "further_negative_ids": [[] for _ in items],
        "reference_ids": [[used[y]] for _, y, _ in items],
        "group": [group[x] for x, _, _ in items],
        "negative_origin": "labelled"}).to_parquet(folder / "examples.parquet")
    pd.DataFrame({"text_id": used.values(), "text": [surfaces[number] for number in used],
                  "language": "en"}).to_parquet(folder / "texts.parquet")
    rejected.sort()
    rows = frame.iloc[[row - 1 for row, _ in rejected]].to_dict("records")
    pd.DataFrame({"file": "pairs.parquet", "row": [row for row, _ in rejected], "reason": [why for _, why in rejected],
                  "raw": [json.dumps(row, ensure_ascii=False) for row in rows]}).to_parquet(folder / "rejected.parquet")


def _root(parent: list[int], x: int) -> int:
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


def _join(parent: list[int], one: int, other: int) -> None:
    low, high = sorted((_root(parent, one), _root(parent, other)))
    parent[high] = low


def _pairs(rows: int) -> Iterator[pd.DataFrame]:
    rng = np.random.default_rng(0)
    clusters = rows // _PAIRS_OF_CLUSTER + 1
    for start in range(0, rows, _PIECE):
        size = min(_PIECE, rows - start)
        cluster = rng.integers(0, clusters, size)
        one, other = rng.integers(0, _CLUSTER, (2, size))
        frame = pd.DataFrame({
            role: [_question(*pair) for pair in zip(cluster.tolist(), members.tolist(), strict=True)]
            for role, members in (("source", one), ("target", other))})
        # Members of the same half of a cluster say the same; one label in fifty is wrong.
        yield frame.assign(label=((one % 2 == other % 2) ^ (rng.random(size) < 0.02)).astype(int))


def _question(cluster: int, member: int) -> str:
    opening = ("how do i", "what is the best way to", "can anyone tell me how to")[member % 3]
    return f"{opening} get topic{cluster} to work with part{cluster * 7 % 1009} in case {member}?"


def _speed(path: Path, folder: Path, repeats: int) -> Section:
    ours, theirs = folder / "ours", folder / "plain"
    for place, work in ((ours, engine), (theirs, plain)):
        place.mkdir()
        work(path, place)
    examples = _check(ours, theirs)
    counts = json.loads((ours / "counts.json").read_text())
    rows = compare({"ours, on disk": lambda: engine(path, ours), PEER: lambda: plain(path, theirs)}, repeats,
                   items=counts["rows"]["read"], unit="rows")
    return Section(
        "Time", f"{counts['rows']['read']:,} labelled pairs of {counts['texts']['distinct']:,} distinct texts, from a "
        f"Parquet file to the tables examples, texts and rejected; one core",
        f"all {examples:,} examples, their texts and splits, and all rejected rows are the same", rows,
        ["Both use the project's text key and draws by the seed, since these define the result.",
         "Only ours counts every rule, checks for leaks, and keeps no text in memory."])


def _check(ours: Path, theirs: Path) -> int:
    """Return the number of examples if both folders hold the same tables.

    Raises:
        Disagreement: they do not; names the table and how many rows differ.
    """
    size = 0
    for kind in _KINDS:
        mine, other = read_frame(ours / f"{kind}.parquet", SCHEMAS[kind]), read_frame(theirs / f"{kind}.parquet")
        columns = [name for name in mine if name not in ("file", "reference_ids", "further_negative_ids")]
        rows = [list(part[columns].itertuples(index=False, name=None)) for part in (mine, other)]
        wrong = abs(len(mine) - len(other)) + sum(one != two for one, two in zip(*rows, strict=False))
        if wrong:
            raise Disagreement(f"ingest: {wrong} rows of {kind} differ from {PEER}")
        size = len(mine) if kind == "examples" else size
    return size


def _memory(folder: Path, quick: bool) -> Section:
    sizes = (2_000, 10_000) if quick else (100_000, 2_000_000)
    works: dict[str, Callable[..., None]] = {
        "ours": engine, PEER: plain, "ours by overlap": partial(engine, negatives="overlap"),
        "ours by BM25": partial(engine, negatives="BM25")}
    measured: dict[str, list[float]] = {name: [] for name in works}
    distinct = []
    for size in sizes:
        path = write_pairs(folder / f"{size}.parquet", size)
        place = folder / f"of-{size}"
        place.mkdir()
        for name, work in works.items():
            measured[name].append(peak_memory(work, path, place))
        distinct.append(json.loads((place / "counts.json").read_text())["texts"]["distinct"])
    table: list[dict[str, Any]] = [
        {"rows": size, "distinct texts": texts, **{f"{name}, MiB": round(peaks[place], 1)
                                                   for name, peaks in measured.items()}}
        for place, (size, texts) in enumerate(zip(sizes, distinct, strict=True))]
    each = ", ".join(f"{name} {(peaks[1] - peaks[0]) * 2**20 / (distinct[1] - distinct[0]):.0f}"
                     for name, peaks in measured.items())
    return Section(
        "Memory", f"pairs as above, {sizes[0]:,} and {sizes[1]:,} rows, each run in a fresh process",
        "the same engines as above", [],
        [f"Bytes for each distinct text more: {each}.",
         f"Ours takes labelled negatives; by overlap and by BM25 it searches for them among all texts of a split, in "
         f"the latter case with the same rows read as contexts and responses, for {_SEARCHED['max_train']} items of "
         f"training and {_SEARCHED['max_test']} of each other split."], table)
