"""The HCL track: rewriting a text under the guidance of its keyword (METHODS A)."""

from stages.tracks.track import Track

HCL = Track(
    "hcl", "HCL",
    {"examples": "ingest", "texts": "ingest", "keywords": "keywords", "nodes": "graph", "edges": "graph"},
    prepared_by="graph", after="init_from", source=lambda params, name: params.encoder.source, vectors=True)
