"""Rows of the results table: what each value of ``contrast`` is called in print, and what it asks of a model."""

from typing import TYPE_CHECKING, Any

from stages.runtime.settings import Params

if TYPE_CHECKING:
    from stages.params import Params as Validated

# What stands in the place of an encoder's source for the model that starts from none.
TEXTCNN = "textcnn"
# As published (CLLD Table III), and the further rows of METHODS D.3.
LABELS = {"none": "CT", "uniform": "CT+CL", "static_tau_pairs": "CT+CLSLED", "static_tau_all": "CT+CLSLED (all pairs)",
          "adaptive": "CT+CLALD", "supcl_seq": "SupCL-Seq", "simcse": "CT+SimCSE"}
# Of the further views of SupCL-Seq (Sedghamiz et al. 2021).
SUPCL_SEQ_DROPOUTS = (0.0, 0.05, 0.2)
_KINDS = {"none": "none", "supcl_seq": "supervised", "simcse": "twin"}


def source_of(params: "Params | Validated", name: str) -> str:
    """Return what model ``name`` starts from: ``textcnn``, or a source of an encoder."""
    return str(params.models.clld[name].encoder or params.encoder.source)


def contrast_group(contrast: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the group ``contrast`` of a model's configuration.

    Args:
        contrast: of ``models.clld.NAME``, a key of ``LABELS``.
        values: plain values of the block ``train_clld.contrast``.
    """
    own = SUPCL_SEQ_DROPOUTS if contrast == "supcl_seq" else ()
    vectors = values["vectors"] or ("pooled" if contrast == "supcl_seq" else "head")
    further = contrast in ("supcl_seq", "simcse")
    dropouts = (own if values["dropouts"] is None else values["dropouts"]) if further else ()
    return {"kind": _KINDS.get(contrast, "label_distance"), "weight": values["weight"],
            "temperature": values["temperature"], "projection": values["projection"], "vectors": vectors,
            "dropouts": tuple(dropouts)}


def distance_group(contrast: str, values: dict[str, Any], pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Return the group ``distance`` of a model's configuration.

    Args:
        contrast: of ``models.clld.NAME``.
        values: plain values of the block ``train_clld.distance``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
    """
    kind = contrast if contrast in ("static_tau_pairs", "static_tau_all", "adaptive") else "ones"
    return {"kind": kind, "tau": values["tau"], "pairs": tuple(pairs), "ald_count": values["ald_count"],
            "share_of": values["share_of"]}
