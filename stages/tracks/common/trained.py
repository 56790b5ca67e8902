"""What every trained model leaves behind: weights, notes and a card in one folder; history, tables and metrics beside.

The folder is written whole or not at all, and the metrics last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.files import atomic_file, atomic_folder
from models.common.task import History
from stages.common.paths import ModelPaths
from stages.common.schemas import TableSchema
from stages.common.tables import Provenance, write_json, write_table
from stages.common.training import save_notes, seal, selection, write_history


@dataclass(frozen=True)
class Table:
    """A table of a model.

    Attributes:
        name: of the file.
        rows: of the table.
        schema: of the table.
    """

    name: str
    rows: pd.DataFrame
    schema: TableSchema


@dataclass(frozen=True)
class ModelFolder:
    """What a trained model leaves beside its weights and its history.

    Attributes:
        card: README of the folder, from :func:`model_card`.
        notes: plain values by file name, which the model needs away from its artifacts.
        tables: what it was trained and is evaluated on, and whatever else is one row after another.
        metrics: content of ``metrics.json`` beside which epoch was kept.
        tokenizer: that cuts texts for the model; None for one that reads words.
        logs: further tables of the training as CSV, by file name.
        remarks: sentences for people, said once it is trained.
        measured: for the stage's record; no artifact.
    """

    card: str
    notes: Mapping[str, Any]
    tables: Sequence[Table]
    metrics: Mapping[str, Any]
    tokenizer: PreTrainedTokenizerBase | None = None
    logs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)


def write_model(paths: ModelPaths, architecture: str, model: PreTrainedModel, history: History, made: ModelFolder,
                provenance: Provenance) -> None:
    """Write the folder ``artifacts/models/NAME``.

    Args:
        paths: of the model.
        architecture: its name in the params.
        model: with the weights of the best epoch.
        history: of its training.
        made: everything else.
        provenance: of the tables.
    """
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(model, "cpu")
        model.save_pretrained(folder)
        if made.tokenizer is not None:
            made.tokenizer.save_pretrained(folder)
        save_notes(folder, made.notes)
        (folder / "README.md").write_text(made.card, encoding="utf-8")
        seal(folder)
    write_history(paths.history, history.rows)
    for name, rows in made.logs.items():
        with atomic_file(paths.folder / name) as file:
            rows.to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
    for table in made.tables:
        write_table(paths.table(table.name), table.schema, table.rows, provenance)
    write_json(paths.metrics, {**selection(history), "architecture": architecture, **made.metrics})


def model_card(title: str, task: str, intro: str, facts: Sequence[str], use: str, more: str = "") -> str:
    """Return the README of a saved model.

    Args:
        title: heading.
        task: that the hub calls ``pipeline_tag``.
        intro: what the model does, and what it was trained on.
        facts: one line each.
        use: how it is used.
        more: a further part, with a heading of its own.
    """
    listed = "\n".join(f"- {fact}" for fact in facts)
    parts = [f"# {title}", intro, listed, *([more] if more else []), f"Use it with {use}."]
    return f"---\nlibrary_name: transformers\npipeline_tag: {task}\n---\n" + "\n\n".join(parts) + "\n"


def best_values(history: History) -> str:
    """Return the validation values of the epoch that was kept, for people."""
    return ", ".join(f"{key} {value:.4f}" for key, value in history.best.items())
