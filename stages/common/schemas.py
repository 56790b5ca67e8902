"""Table schemas, and those of data sets that more than one folder of stages reads."""

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 3
SPLITS = ("train", "validation", "test")
# Items of split "graph" are read only by clusters, graph and node vectors, together with the training items.
GRAPH_ONLY = "graph"
IN_GRAPH = (SPLITS[0], GRAPH_ONLY)
ALL_SPLITS = (*SPLITS, GRAPH_ONLY)
NO_KEYWORD = "<nokw>"
STRINGS = pa.list_(pa.string())


@dataclass(frozen=True)
class TableSchema:
    """The name, description, sort key and columns of a table; each column has a type and a meaning."""

    name: str
    description: str
    key: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType, str], ...]
    unique: bool = True

    @classmethod
    def of(cls, schema: pa.Schema, name: str, description: str, key: tuple[str, ...]) -> "TableSchema":
        """Return the schema of a table whose columns the library describes."""
        return cls(name, description, key, tuple((field.name, field.type, field.metadata[b"description"].decode())
                                                 for field in schema))

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema, whose fields have their descriptions as metadata."""
        return pa.schema([pa.field(name, kind, metadata={"description": text})
                          for name, kind, text in self.fields])


TEXTS = TableSchema(
    "texts", "Each distinct text once (by `ingest.text_identity`).", ("text_id",), (
        ("text_id", pa.int64(), "number of the text, in order of first appearance"),
        ("text", pa.string(), "the text as it first appeared"),
        ("language", pa.string(), "ISO 639-1 code"),
    ))

REJECTED = TableSchema(
    "rejected", "Every input row that is in no item, and why.", ("file", "row"), (
        ("file", pa.string(), "input file as named in the params"),
        ("row", pa.int64(), "row in that file, 1-based, header not counted"),
        ("reason", pa.string(), "why the row is in no item"),
        ("raw", pa.string(), "the row as JSON, or the raw line if it could not be parsed"),
    ), unique=False)


EXAMPLES = TableSchema(
    "examples", "Training, validation and test items: a source, a target, a negative, by text id.",
    ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, validation or test; graph: of the keyword graph alone"),
        ("source_id", pa.int64(), "text id of the input x"),
        ("target_id", pa.int64(), "text id of the output y+"),
        ("negative_id", pa.int64(), "text id of the negative y-; null where there is none"),
        ("reference_ids", pa.list_(pa.int64()), "text ids of all references, the target first"),
        ("group", pa.int64(), "connected component of all pairs; in one split, unless ingest.split_by is pair"),
        ("negative_origin", pa.string(), "given, labelled, retrieved or mined; bm25, random or scored for stories and "
                                         "dialogues; null where there is no negative"),
    ))

PLAIN_EXAMPLES = TableSchema(
    "plain_examples", "Plain texts, in the place of table examples for a data set of that layout.", ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, unless the data set publishes others"),
        ("text_id", pa.int64(), "text id"),
    ))

LABELLED_EXAMPLES = TableSchema(
    "labelled_examples", "Labelled texts, in the place of table examples for a data set of that layout.",
    ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, validation or test"),
        ("text_id", pa.int64(), "text id"),
        ("label", pa.string(), "class"),
    ))

ATTRIBUTION = TableSchema(
    "attribution", "Saliency of each word under the pair classifier (PGKPR, section 3): of "
    "sources, and of every text where it names keywords.",
    ("text_id", "mode", "pair"), (
        ("text_id", pa.int64(), "text whose words are scored"),
        ("mode", pa.string(), "xx: the text paired with itself; xy: paired with a target"),
        ("pair", pa.int64(), "text id of the second segment"),
        ("word", STRINGS, "word as written; aligned with the token lists of table tokens"),
        ("score", pa.list_(pa.float32()), "keyword probability in [0, 1]; aligned likewise"),
    ))

WORD_VECTORS = TableSchema(
    "word_vectors", "Vectors of words, from a file or trained on the training split (see the metadata).",
    ("word",), (
        ("word", pa.string(), "word, in lower case where the vectors were trained here"),
        ("count", pa.int64(), "occurrences in the training split"),
        ("vector", pa.list_(pa.float32()), "all rows have the same width"),
    ))

PSI = TableSchema(
    "psi", "Paired semantic importance of each word (IANet): of sources, and of every text where it names keywords.",
    ("text_id", "mode", "pair"), (
        ("text_id", pa.int64(), "text whose words are scored"),
        ("mode", pa.string(), "xx: the text paired with itself; xy: paired with a target"),
        ("pair", pa.int64(), "text id of the second text"),
        ("word", STRINGS, "word as written; aligned with the token lists of table tokens"),
        ("score", pa.list_(pa.float64()), "importance G; aligned likewise"),
        ("primary", pa.list_(pa.bool_()), "G exceeds the threshold; aligned likewise"),
    ))

S_TAGS = TableSchema(
    "s_tags", "Primary words as the S-Tagger sees them, without a target.", ("text_id",), (
        ("text_id", pa.int64(), "source text"),
        ("word", STRINGS, "word as written; aligned with the token lists of table tokens"),
        ("probability", pa.list_(pa.float32()), "of being primary; aligned likewise"),
        ("primary", pa.list_(pa.bool_()), "the probability exceeds one half; aligned likewise"),
    ))

CLUSTERS = TableSchema(
    "clusters", "Training examples by the keyword of their input (HCL section 3.2.2).", ("keyword", "example_id"), (
        ("keyword", pa.string(), "keyword of the input, or one that it contains (graph.cluster_by)"),
        ("example_id", pa.int64(), "training example"),
        ("output_keyword", pa.string(), "keyword of its target"),
        ("negative_keyword", pa.string(), "keyword of its negative; null where there is none"),
    ))

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
