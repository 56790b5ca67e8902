"""How much a data set holds, from a look at its first rows: for sizes and estimates, not for any result."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np

from stages.common.schemas import SPLITS
from stages.ingest.deduplication.checks import RowCheck, RowError
from stages.ingest.layouts.registry import structure_of
from stages.ingest.reading.files import data_files, read_rows
from stages.ingest.reading.text import COMPRESSIONS
from stages.params import Params
from stages.params.data import Dataset
from stages.tracks.common.cost import Extent

# Rows that are read; the count of all is exact up to here, and goes by the size of the files beyond.
LOOKED_AT = 50_000
_COMPRESSED = 3.0  # text in its own size over that in an archive or in Parquet, roughly
_RARE = 95  # texts longer than all but so many per cent are cut


def extent_of(params: Params, name: str, root: Path = Path()) -> Extent:
    """Return the extent of data set ``name``, whose source is relative to ``root``.

    Raises:
        InputError: its files are missing or cannot be read.
    """
    dataset, settings = params.datasets[name], params.ingest_settings(name)
    dataset = dataset.model_copy(update={"source": str(root / dataset.source)})
    structure = structure_of(dataset.layout)
    check, lengths, splits, groups = RowCheck(dataset, settings.roc_mode), [], Counter[str | None](), set()
    rows, size, in_all = 0, 0, sum(_text_size(path) for _, path in data_files(dataset))
    for row in islice(read_rows(dataset), LOOKED_AT):
        rows, size = rows + 1, size + sum(len(str(value)) + 1 for value in row.values or [row.content])
        try:
            found = check(row)
        except RowError:
            continue
        if structure in ("pairs", "dialogue") and found.label == "0" or found.group in groups:
            continue
        groups |= {found.group} if structure == "captions" else set()
        splits[row.split] += 1
        lengths.append([_words(text, dataset) for text in (found.surfaces[0], found.surfaces[:2][-1])])
    scale = max(1.0, in_all / max(1, size)) if rows == LOOKED_AT else 1.0
    shares = {"validation": settings.validation, "test": settings.test}
    low, high = settings.train_part or (0.0, 1.0)
    shares["train"] = (1 - sum(shares.values())) * (high - low)
    limits = {"train": settings.max_train, "validation": settings.max_validation, "test": settings.max_test}
    counts = {split: round(scale * (splits[split] + shares[split] * splits[None])) for split in SPLITS}
    counts = {split: count if (most := limits[split]) is None else min(count, most) for split, count in counts.items()}
    inputs, outputs = np.percentile(np.array(lengths or [[1, 1]]), _RARE, axis=0)
    return Extent(counts["train"], counts["validation"], counts["test"], int(inputs), int(outputs),
                  float(np.mean([one[0] for one in lengths])) if lengths else 1.0)


def _words(text: str, dataset: Dataset) -> int:
    return len(text) if dataset.language == "zh" else len(text.split())


def _text_size(path: Path) -> float:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size * (_COMPRESSED if file.suffix in (*COMPRESSIONS, ".parquet") else 1)
               for file in files)
