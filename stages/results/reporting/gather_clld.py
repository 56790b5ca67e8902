"""Read what the page shows of a classifier: classes, confusions, mistaken texts, calibration, label distances."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.tables import read_frame, read_table
from stages.runtime.errors import InputError
from stages.runtime.settings import Params
from stages.tracks.clld.rows import LABELS

LETTERS = 400       # of a text; what is beyond is left out
TABLES = ("classes", "confusion", "calibration")
_MISTAKES = ("example_id", "text", "label", "predicted", "probability")


@dataclass(frozen=True)
class RowKind:
    """Which row of the table a classifier is.

    Attributes:
        contrast: of its model, a key of ``stages.tracks.clld.rows.LABELS``.
        encoder: ``textcnn``, or the source of its encoder.
        settings: block ``train_clld`` with the model's overrides.
        pairs_of: the model whose confusions name the pairs of a static matrix; empty where the params name them.
    """

    contrast: str
    encoder: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    pairs_of: str = ""

    @property
    def label(self) -> str:
        """The row's name in print."""
        return LABELS[self.contrast]

    @property
    def encoder_name(self) -> str:
        """The encoder for people."""
        names = {"textcnn": "TextCNN", "bundled": "bundled encoder", "scratch": "encoder from scratch"}
        return names.get(self.encoder) or self.encoder.partition(":")[2]


@dataclass(frozen=True)
class ClassifierMaterial:
    """A run of CLLD, class by class.

    Attributes:
        kind: which row it is.
        classes: table ``classes``, in the order of the classes.
        confusion: texts (N, N), rows true, columns predicted, in that order.
        calibration: table ``calibration``.
        mistakes: texts that it has wrong: example_id, text (cut), label, predicted, probability.
        distances: table ``label_distance`` of its model; empty for a model without such a matrix.
    """

    kind: RowKind
    classes: pd.DataFrame
    confusion: np.ndarray
    calibration: pd.DataFrame
    mistakes: pd.DataFrame
    distances: pd.DataFrame

    @property
    def names(self) -> list[str]:
        """Name of each class, by index."""
        return self.classes["class"].tolist()


def read_classifier(run: str, params: Params) -> ClassifierMaterial:
    """Read the tables of ``run`` and of its model.

    Raises:
        InputError: one is missing, or they are of other classes.
    """
    paths, model = RunPaths(run), params.runs.clld[run].model
    needed = [(paths.table(kind), f"evaluate_clld@{run}") for kind in TABLES]
    needed += [(paths.predictions, f"evaluate_clld@{run}"),
               (ModelPaths(model).table("label_distance"), f"train_clld@{model}")]
    for path, stage in needed:
        if not path.exists():
            raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}`.")
    classes, confusion, calibration = (read_frame(paths.table(kind), kind) for kind in TABLES)
    names = classes["class"].tolist()
    if sorted(names) != sorted(confusion["label"].unique()):
        raise InputError(f"{paths.table('confusion')}: it is of other classes than classes.parquet. Make both again "
                         f"with `keycontrast run evaluate_clld@{run}`.")
    square = confusion.pivot(index="label", columns="predicted", values="texts").loc[names, names]
    return ClassifierMaterial(row_kind(model, params), classes, square.to_numpy(np.int64), calibration,
                              _mistakes(paths), read_frame(ModelPaths(model).table("label_distance"),
                                                           "label_distance"))


def row_kind(model: str, params: Params) -> RowKind:
    """Return which row of the table ``model`` is."""
    block = params.models.clld[model]
    return RowKind(block.contrast, block.encoder or params.encoder.source,
                   params.model(model).plain(), block.pairs_of or "")


def shown_settings(kind: RowKind) -> dict[str, Any]:
    """Return the settings that a model of that kind reads, in groups named as in the params."""
    groups = ["contrast"] if kind.contrast != "none" else []
    groups += ["distance"] if kind.contrast.startswith(("static", "adaptive")) else []
    groups += ["textcnn"] if kind.encoder == "textcnn" else ["pool", "encoder_dropout"]
    return {"row": kind.label, "encoder": kind.encoder,
            **{name: kind.settings[name] for name in ("max_length", "dropout", "ce_views", *groups)}}


def _mistakes(paths: RunPaths) -> pd.DataFrame:
    table = read_table(paths.predictions, "class_predictions", list(_MISTAKES))
    wrong = table.filter(pc.not_equal(table["label"], table["predicted"])).to_pandas()
    cut = [text if len(text) <= LETTERS else text[:LETTERS - 1] + "…" for text in wrong["text"]]
    return wrong.assign(text=cut)
