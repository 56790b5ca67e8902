"""Which row of PGKPR's tables 2 and 3 a run corresponds to."""

from collections.abc import Mapping
from typing import Any

from stages.results.reporting.published import PGKPR_TABLES, PublishedRow

FULL = "PGKPR"
_BASELINES = {"residual_lstm": "Residual-LSTM", "transformer": "Transformer"}
# (what names the keywords in training, what names them at test): the row of the full model.
_VARIANTS = {("attribution", "xx"): FULL, ("attribution", "xy"): "PGKPR-ref", ("psi", "psi_xx"): "PGKPR-PSI+X",
             ("psi", "s_tagger"): "PGKPR-PSI+S"}
_ABLATIONS = {frozenset({"contrast"}): "w/o L_con", frozenset({"reconstruction"}): "w/o L_rec",
              frozenset({"contrast", "reconstruction"}): "w/o L_con and L_rec"}
_IANET = {"psi_xx": "IANet+X", "s_tagger": "IANet+S"}


def pgkpr_row(settings: Mapping[str, Any], decode: Mapping[str, Any], dataset_kind: str | None) -> PublishedRow | None:
    """Return the published row that a run of ours corresponds to.

    >>> pgkpr_row({"architecture": "latent_bow", "latent_bow": {"gumbel": True}}, {}, "mscoco").name
    'LBOW-gumbel'

    Only the architecture, the parts that were removed, and where keywords come from count: a model that reads the
    paper another way, is smaller, or is decoded by beam search is compared with the same row.

    Args:
        settings: nested like ``train_pgkpr``: its block with the model's overrides, or a part of it.
        decode: nested like ``generate_pgkpr``, likewise with the run's own.
        dataset_kind: ``qqp`` or ``mscoco``; see ``published.dataset_kind_of``.

    Returns:
        None if the paper has no such row: another data set, keywords by attribution for a model that was trained on
        those of PSI or the other way round, an ablation with other keywords than PGKPR's, IANet with those of the
        reference.
    """
    name = pgkpr_row_name(settings, decode)
    tables = [table for table in PGKPR_TABLES.values() if table.kind == dataset_kind]
    return next((table.rows[name] for table in tables if name in table.rows), None)


def pgkpr_row_name(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> str | None:
    """Return which published row a run makes, whatever the data set; None for none."""
    architecture = str(settings.get("architecture", "pgkpr"))
    if architecture == "latent_bow":
        return "LBOW-gumbel" if settings.get("latent_bow", {}).get("gumbel") else "LBOW-Topk"
    if architecture == "ianet":
        return _IANET.get(str(keywords_of(settings, decode)))
    if architecture in _BASELINES:
        return _BASELINES[architecture]
    variant = _VARIANTS.get((_trained_on(settings), str(keywords_of(settings, decode))))
    removed = removed_terms(settings)
    return variant if not removed else _ABLATIONS[removed] if variant == FULL else None


def keywords_of(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> str | None:
    """Return where a run takes the keywords of a source from; None for a model that has none.

    ``xx``, ``xy``, ``psi_xx``, ``psi_xy`` or ``s_tagger``, as ``generate_pgkpr.keywords`` names them.
    """
    architecture = settings.get("architecture", "pgkpr")
    if architecture not in ("pgkpr", "ianet"):
        return None
    by_psi = architecture == "ianet" or _trained_on(settings) == "psi"
    return str(decode.get("keywords") or ("psi_xx" if by_psi else "xx"))


def removed_terms(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return which of ``reconstruction`` and ``contrast`` PGKPR does without; nothing for another architecture."""
    if settings.get("architecture", "pgkpr") != "pgkpr":
        return frozenset()
    return frozenset(term for term in ("reconstruction", "contrast") if settings.get(term, {}).get("weight") == 0)


def _trained_on(settings: Mapping[str, Any]) -> str:
    return str(settings.get("keywords", {}).get("by", "attribution"))
