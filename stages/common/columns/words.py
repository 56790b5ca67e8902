"""Tables about words: scores, marks and vectors."""

import pyarrow as pa

from stages.common.schemas import STRINGS, TableSchema

ATTRIBUTION = TableSchema(
    "attribution", "Saliency of each word under the pair classifier or a Siamese encoder (PGKPR, section 3): of "
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
