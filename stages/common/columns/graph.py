"""The keyword graph as trainings read it, and the phrase graph."""

import pyarrow as pa

from stages.common.schemas import TableSchema

NODES = TableSchema(
    "nodes", "Nodes of the keyword graph, numbered by sorted keyword.", ("node_id",), (
        ("node_id", pa.int32(), "number of the node"),
        ("keyword", pa.string(), "keyword"),
        ("cluster_size", pa.int64(), "training examples whose input has this keyword"),
        ("in_positive", pa.int32(), "positive neighbours that the node receives from, itself excluded"),
        ("in_negative", pa.int32(), "negative neighbours that the node receives from"),
        ("out_positive", pa.int32(), "nodes that receive from it positively, itself excluded"),
        ("out_negative", pa.int32(), "nodes that receive from it negatively"),
        ("centrality", pa.float64(), "PageRank over the positive edges, summing to 1"),
        ("component", pa.int32(), "connected component over both signs, numbered by smallest node"),
        ("community", pa.int32(), "community over the positive edges, numbered by smallest node"),
    ))

EDGES = TableSchema(
    "edges", "Directed edges of the keyword graph: target receives from source.",
    ("target", "source", "sign"), (
        ("target", pa.int32(), "node that receives"),
        ("source", pa.int32(), "neighbour it receives from"),
        ("sign", pa.int8(), "+1 positive, -1 negative"),
        ("count", pa.int64(), "multiplicity, after conflicts were resolved and neighbours capped"),
    ))

NODE_VECTORS = TableSchema(
    "node_vectors", "Initial vector of each node: mean of frozen text embeddings (HCL section 3.2.2).", ("node_id",), (
        ("node_id", pa.int32(), "node"),
        ("vector", pa.list_(pa.float32()), "mean embedding; all rows have the encoder's width"),
        ("origin", pa.string(), "texts averaged: input, output or negative"),
    ))

TEXT_VECTORS = TableSchema(
    "text_vectors", "Frozen embeddings of the training texts that node vectors average, or would if texts of a "
                    "connected component were hidden.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("vector", pa.list_(pa.float32()), "embedding; all rows have the encoder's width"),
    ))

PHRASE_NODES = TableSchema(
    "phrase_nodes", "Nodes of the phrase graph: phrases of the texts, numbered by sorted phrase.", ("node_id",), (
        ("node_id", pa.int32(), "number of the node"),
        ("keyword", pa.string(), "phrase in normal form"),
        ("texts", pa.int64(), "texts that hold it"),
        ("degree", pa.int32(), "phrases that it shares texts with"),
        ("centrality", pa.float64(), "PageRank, summing to 1"),
        ("component", pa.int32(), "connected component, numbered by smallest node"),
        ("community", pa.int32(), "community, numbered by smallest node"),
    ))

PHRASE_EDGES = TableSchema(
    "phrase_edges", "Edges of the phrase graph, without direction, each once.", ("source", "target"), (
        ("source", pa.int32(), "the smaller node"),
        ("target", pa.int32(), "the larger node"),
        ("weight", pa.int64(), "texts that hold both phrases"),
    ))

PHRASE_TEXTS = TableSchema(
    "phrase_texts", "The texts that hold the phrases of the phrase graph.", ("text_id", "node_id"), (
        ("text_id", pa.int64(), "text"),
        ("node_id", pa.int32(), "phrase that it holds"),
    ))
