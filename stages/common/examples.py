"""The structures of data sets by layout, and the texts that examples use."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.schemas import EXAMPLES, LABELLED_EXAMPLES, PLAIN_EXAMPLES, TableSchema
from stages.common.tables import column_names, read_batches, read_table

STRUCTURES = {
    "pairs": ("pairs", "glue_qqp", "kaggle_qqp", "quora_qqp"),
    "triples": ("triples",),
    "captions": ("captions", "mscoco_captions"),
    "stories": ("stories", "rocstories", "story_cloze", "story_infilling"),
    "dialogue": ("dialogue", "douban_dialogue", "groupwise_dialogue"),
    "labelled": ("labelled", "trec", "all_terms", "rt_polarity", "text_gcn", "newsgroups"),
    "texts": ("texts", "text_lines"),
}

# Between the turns of a dialogue; tokenizers of BERT read it as their separator.
TURN = "[SEP]"


def structure_of(layout: str) -> str:
    """Return the structure of a row under ``layout``, a key of ``STRUCTURES``."""
    return next(structure for structure, layouts in STRUCTURES.items() if layout in layouts)


def is_paired(layout: str) -> bool:
    """Return whether rows under ``layout`` are inputs with outputs, and not single texts."""
    return structure_of(layout) not in ("labelled", "texts")


_ROLES = ("source_id", "target_id", "negative_id")
_Value = TypeVar("_Value", bound=np.generic)
TextIds = npt.NDArray[np.int64]
# A mask over text ids.
TextMarks = npt.NDArray[np.bool_]


def read_examples(path: Path) -> pa.Table:
    """Read table ``examples``; errors as in :func:`stages.common.tables.read_table`."""
    return read_table(path, examples_schema(path))


def role_batches(path: Path) -> Iterator[pa.Table]:
    """Yield table ``examples`` in batches, with the columns of the split and the text ids only."""
    schema = examples_schema(path)
    yield from read_batches(path, schema,
                            [name for name in ("split", "text_id", *_ROLES) if name in schema.arrow().names])


def examples_schema(path: Path) -> TableSchema:
    """Return the schema of a table of examples: pairs or triples, labelled texts, or plain texts."""
    names = column_names(path)
    return LABELLED_EXAMPLES if "label" in names else PLAIN_EXAMPLES if "text_id" in names else EXAMPLES


def is_single(examples: pa.Table) -> bool:
    """Return whether examples are single texts, and not pairs or triples."""
    return "text_id" in examples.column_names


def all_text_ids(examples: pa.Table) -> TextIds:
    """Return the sorted ids of the sources, targets and negatives (no further references), or of the single texts."""
    columns = ["text_id"] if is_single(examples) else _ROLES
    return np.unique(np.concatenate([pc.drop_null(examples[name]).to_numpy().astype(np.int64) for name in columns]))


def training_text_ids(examples: pa.Table) -> TextIds:
    """Return :func:`all_text_ids` of the training examples."""
    return all_text_ids(examples.filter(pc.equal(examples["split"], "train")))


def training_texts(path: Path) -> TextMarks:
    """Return a mask by text id of the texts that training examples use, read in batches."""
    return marked_texts(map(training_text_ids, role_batches(path)))


def marked_texts(some: Iterable[TextIds]) -> TextMarks:
    """Return a mask by text id of the texts in ``some``, as long as the largest id needs."""
    mask, end = np.zeros(0, dtype=bool), 0
    for ids in some:
        if len(ids):
            end = max(end, int(ids.max()) + 1)
            mask = room_for(mask, end)
            mask[ids] = True
    return mask[:end]


def room_for(by_text: npt.NDArray[_Value], end: int) -> npt.NDArray[_Value]:
    """Return an array of one value per text id, extended by zeros if it is shorter than ``end``."""
    if end <= len(by_text):
        return by_text
    return np.concatenate([by_text, np.zeros(max(end, 2 * len(by_text)) - len(by_text), dtype=by_text.dtype)])


def reference_pairs(examples: pa.Table) -> TextIds:
    """Return the distinct (source, reference) text ids, sorted, (n, 2); the target is the first reference."""
    references = examples["reference_ids"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(references), 0).to_numpy()
    sources = np.repeat(examples["source_id"].to_numpy(), lengths)
    return np.unique(np.stack([sources, pc.list_flatten(references).to_numpy()], axis=1).astype(np.int64), axis=0)


MODES = ("xx", "xy")


def source_pairs(examples: pa.Table, modes: Sequence[str], others: TextIds | None = None) -> np.ndarray:
    """Return the distinct (text, mode, second text) to be scored, sorted, (n, 3); a mode is its index in MODES.

    ``xx`` pairs every source of every split, and each of the texts ``others``, with itself; ``xy`` pairs every source
    with each of its references.
    """
    alone = examples["source_id"].to_numpy()
    alone = alone if others is None else np.concatenate([alone, others])
    pairs = {"xx": np.stack([alone, alone], axis=1), "xy": reference_pairs(examples)}
    wanted = [np.insert(pairs[mode], 1, MODES.index(mode), axis=1) for mode in modes]
    return np.unique(np.concatenate([np.zeros((0, 3), dtype=np.int64), *wanted]), axis=0)
