"""Rows of the results table: what each value of ``contrast`` is called in print."""

from typing import TYPE_CHECKING

from stages.common.settings import Params

if TYPE_CHECKING:
    from stages.params import Params as Validated

# What stands in the place of an encoder's source for the model that starts from none.
TEXTCNN = "textcnn"
# As published (CLLD Table III), and further rows of ours (docs/clld.md).
LABELS = {"none": "CT", "uniform": "CT+CL", "static_tau_pairs": "CT+CLSLED", "adaptive": "CT+CLALD",
          "supcl_seq": "SupCL-Seq", "simcse": "CT+SimCSE"}
# CT whose cross-entropy reads two views: the time that a contrast takes, without one.
TWO_VIEWS = "two_views"
_NAMES = {**LABELS, TWO_VIEWS: "CT, two views"}


def source_of(params: "Params | Validated", name: str) -> str:
    """Return what model ``name`` starts from: ``textcnn``, or a source of an encoder."""
    return str(params.models.clld[name].encoder or params.encoder.source)


def row_of(contrast: str, ce_views: str) -> str:
    """Return which row of the table a model is: its contrast, or :data:`TWO_VIEWS`.

    Args:
        contrast: of ``models.clld.NAME``.
        ce_views: of its block ``train_clld``.
    """
    return TWO_VIEWS if (contrast, ce_views) == ("none", "both") else contrast


def row_name(row: str) -> str:
    """Return what a row is called in print; what is none, as it is."""
    return _NAMES.get(row, row)
