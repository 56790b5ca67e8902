"""The labelled texts of a data set, and its classes."""

import pandas as pd

from keycontrast.errors import InputError
from stages.common.columns.texts import TEXTS
from stages.common.example_texts import read_examples
from stages.common.paths import DatasetPaths
from stages.common.tables import read_frame

COLUMNS = ["example_id", "text_id", "split", "text", "label"]


def read_labelled_texts(paths: DatasetPaths) -> pd.DataFrame:
    """Return the labelled texts of a data set; see :func:`labelled_texts`.

    Raises:
        InputError: it has none, or its tables do not belong together.
    """
    examples = read_examples(paths.table("examples"))
    if "label" not in examples.column_names:
        raise InputError(f"{paths.table('examples')}: holds pairs, and not texts with a class. Choose a data set of "
                         f"labelled texts, or run its stage ingest again.")
    return labelled_texts(examples.to_pandas(), read_frame(paths.table("texts"), TEXTS))


def labelled_texts(examples: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return the examples with their texts, sorted by id: ``example_id``, ``text_id``, ``split``, ``text``, ``label``.

    Args:
        examples: table ``labelled_examples``.
        texts: table ``texts``.

    Raises:
        InputError: a text is missing, the training or validation split is empty, or there is one class only.
    """
    joined = examples.merge(texts[["text_id", "text"]], on="text_id", how="left", validate="many_to_one")
    lost = joined[joined["text"].isna()]
    if len(lost):
        raise InputError(f"table texts: text {lost['text_id'].iloc[0]} of example {lost['example_id'].iloc[0]} is "
                         f"missing, and {len(lost) - 1} more; the tables are of different runs. Run the stage ingest "
                         f"again.")
    for split in ("train", "validation"):
        if not joined["split"].eq(split).any():
            raise InputError(f"table examples: the {split} split is empty. Give more data, or a larger share "
                             f"(ingest.validation).")
    if joined["label"].nunique() < 2:
        raise InputError(f"table examples: column label has no value but {joined['label'].iloc[0]!r}, and there is "
                         f"nothing to tell apart. Check columns.label of the data set.")
    return joined.sort_values("example_id", ignore_index=True)[COLUMNS]


def classes_of(labelled: pd.DataFrame) -> list[str]:
    """Return the classes of a data set in the order of their names, which is that of their indices.

    A class counts that only an evaluated split has: its texts cannot be got right, and they are not left out.

    Args:
        labelled: with column ``label``.
    """
    return sorted(labelled["label"].unique())


def class_numbers(labels: pd.Series, classes: list[str]) -> list[int]:
    """Return the index in ``classes`` of each label.

    Raises:
        InputError: a label is none of these.
    """
    places = {name: number for number, name in enumerate(classes)}
    unknown = sorted(set(labels) - places.keys())
    if unknown:
        raise InputError(f"label {unknown[0]!r} is no class of the model; it knows {', '.join(classes)}. Train the "
                         f"model again.")
    return [places[label] for label in labels]
