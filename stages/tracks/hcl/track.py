"""The HCL track: rewriting a text under the guidance of its keyword (METHODS A)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stages.tracks.track import Asked, Finding, Predictor, Track

if TYPE_CHECKING:
    from stages.params import Params


def _predictor(asked: Asked, finding: Finding, device: str) -> Predictor:
    from stages.tracks.hcl.new_texts import NewTexts

    return NewTexts(asked, finding, device)


def _follows(params: "Params", name: str) -> Mapping[str, str]:
    start = params.models.hcl[name].init_from
    return {} if start is None else {"init_from": start}


HCL = Track(
    "hcl", "HCL", _predictor,
    settings=lambda params, name: params.hcl_model(name),
    decoding=lambda params, run: params.hcl_decoding(run),
    tables={"examples": "ingest", "texts": "ingest", "keywords": "keywords", "nodes": "graph", "edges": "graph"},
    prepared_by="graph", computed_by="generate_hcl", follows=_follows,
    source=lambda params, name: params.encoder.source, vectors=True)
