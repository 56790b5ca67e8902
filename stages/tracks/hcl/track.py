"""The HCL track, keyword-guided rewriting, and the tables of its probe."""

import pyarrow as pa

from stages.common.schemas import TableSchema
from stages.tracks.common.schemas import ITEMS, PREDICTIONS, SCORES
from stages.tracks.common.track import Track

HCL = Track(
    "hcl", "HCL", prepared_by="graph", schemas={"items": ITEMS, "predictions": PREDICTIONS, "scores": SCORES},
    after="init", source=lambda params, name: params.encoder.source,
    unread={"n": "draw further outputs instead, with --samples"})

LATENT = TableSchema(
    "latent", "Points of the latent space of some items, and where t-SNE puts them (HCL Figure 3).",
    ("example_id", "kind"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("kind", pa.string(), "input (mu of the prior), positive and negative (mu of the posterior), "
                              "output_keyword and impostor_keyword (P u)"),
        ("text", pa.string(), "the text, or the keyword"),
        ("x", pa.float64(), "first coordinate of t-SNE"),
        ("y", pa.float64(), "second coordinate"),
        ("vector", pa.list_(pa.float32()), "the point itself; all rows have the latent width"),
    ))

KEYWORD_SWAP = TableSchema(
    "keyword_swap", "The same input rewritten under other keywords (HCL Table 4).", ("example_id", "choice"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("choice", pa.string(), "textrank, random or given"),
        ("keyword", pa.string(), "keyword that conditioned the prior"),
        ("keyword_known", pa.bool_(), "it is a node of the training graph"),
        ("source", pa.string(), "input text"),
        ("prediction", pa.string(), "generated text"),
        ("reference", pa.string(), "target text"),
        ("shows_keyword", pa.bool_(), "the keyword occurs in the output, by word stems"),
        ("same_as_textrank", pa.bool_(), "the output is the one under the input's own keyword"),
    ))
