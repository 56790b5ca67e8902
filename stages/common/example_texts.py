"""Which texts a data set's examples use, whether they are pairs and triples, labelled texts or plain ones.

    examples = read_examples(DatasetPaths("sample").table("examples"))
    train = training_text_ids(examples)
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.schemas import EXAMPLES, LABELLED_EXAMPLES, PLAIN_EXAMPLES, TableSchema
from stages.common.tables import column_names, read_batches, read_table

_ROLES = ("source_id", "target_id", "negative_id")
_Value = TypeVar("_Value", bound=np.generic)
TextIds = npt.NDArray[np.int64]
# By text id, whether a text is meant.
TextMarks = npt.NDArray[np.bool_]


def read_examples(path: Path) -> pa.Table:
    """Read table ``examples``; see :func:`examples_schema`.

    Raises:
        InputError: the file is missing, is not Parquet, or lacks columns.
    """
    return read_table(path, examples_schema(path))


def role_batches(path: Path) -> Iterator[pa.Table]:
    """Yield the splits and the ids of the texts of table ``examples``, and nothing else of it; as read_examples."""
    schema = examples_schema(path)
    yield from read_batches(path, schema,
                            [name for name in ("split", "text_id", *_ROLES) if name in schema.arrow().names])


def examples_schema(path: Path) -> TableSchema:
    """Return which schema the file follows: ``examples``, ``labelled_examples`` or ``plain_examples``.

    Raises:
        InputError: the file is missing, or is not Parquet.
    """
    names = column_names(path)
    return LABELLED_EXAMPLES if "label" in names else PLAIN_EXAMPLES if "text_id" in names else EXAMPLES


def is_single(examples: pa.Table) -> bool:
    """Whether examples are single texts, labelled or plain, not pairs or triples."""
    return "text_id" in examples.column_names


def all_text_ids(examples: pa.Table) -> TextIds:
    """Return the distinct ids of the texts that examples use (sources, targets, negatives; or single texts), sorted.

    Further references are not among them: they are compared with, not learned from.
    """
    columns = ["text_id"] if is_single(examples) else _ROLES
    held = [pc.drop_null(examples[name]).to_numpy() for name in columns]
    return np.unique(np.concatenate([np.asarray(ids, dtype=np.int64) for ids in held]))


def training_text_ids(examples: pa.Table) -> TextIds:
    """Return the distinct ids of the texts that training examples use, sorted; see :func:`all_text_ids`."""
    return all_text_ids(examples.filter(pc.equal(examples["split"], "train")))


def training_texts(path: Path) -> TextMarks:
    """Return, by text id, whether the training examples of table ``path`` use a text; read piece by piece, (texts,).

    Raises:
        InputError: the file is missing, is not Parquet, or lacks columns.
    """
    return marked_texts(map(training_text_ids, role_batches(path)))


def marked_texts(some: Iterable[TextIds]) -> TextMarks:
    """Return, by text id, whether a text is among ``some``, a byte each, as far as the last that is, (texts,)."""
    marked, end = np.zeros(0, dtype=bool), 0
    for ids in some:
        if len(ids):
            end = max(end, int(ids.max()) + 1)
            marked = room_for(marked, end)
            marked[ids] = True
    return marked[:end]


def room_for(by_text: npt.NDArray[_Value], end: int) -> npt.NDArray[_Value]:
    """Return an array of one value per text id, with zeros behind its own if it has to grow to ``end`` or beyond."""
    if end <= len(by_text):
        return by_text
    return np.concatenate([by_text, np.zeros(max(end, 2 * len(by_text)) - len(by_text), dtype=by_text.dtype)])


def reference_pairs(examples: pa.Table) -> TextIds:
    """Return the distinct (source, reference) text ids of table ``examples``, sorted, (n, 2).

    The target is the first reference; captions have further ones, and each makes a pair with the source.
    """
    references = examples["reference_ids"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(references), 0).to_numpy()
    sources = np.repeat(examples["source_id"].to_numpy(), lengths)
    return np.unique(np.stack([sources, pc.list_flatten(references).to_numpy()], axis=1).astype(np.int64), axis=0)
