"""Columns of the two tables that the library makes: tokens of texts, and their ranked phrases."""

import pyarrow as pa

STRINGS = pa.list_(pa.string())
INTS = pa.list_(pa.int32())
BOOLS = pa.list_(pa.bool_())


def schema_of(*fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Return the Arrow schema of ``fields``: name, type, and a description that is kept as metadata."""
    return pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in fields])


TOKENS = schema_of(
    ("text_id", pa.int64(), "text"),
    ("token", STRINGS, "token as written"),
    ("lemma", STRINGS, "lemma"),
    ("pos", STRINGS, "universal part of speech (UPOS)"),
    ("tag", STRINGS, "fine part of speech (Penn for English)"),
    ("start", INTS, "offset of the token's first character in the text"),
    ("end", INTS, "offset after the token's last character"),
    ("is_stop", BOOLS, "stop word of the language pipeline"),
    ("sentence_start", BOOLS, "token opens a sentence"),
    ("chunk_start", INTS, "first token of each noun chunk"),
    ("chunk_end", INTS, "token after the last of each noun chunk"))

PHRASES = schema_of(
    ("text_id", pa.int64(), "text"),
    ("rank", pa.int32(), "1 for the best phrase; 0 for a text without phrases"),
    ("phrase", pa.string(), "phrase as written in the text; null without phrases"),
    ("keyword", pa.string(), "normal form of the phrase, the identity of a graph node"),
    ("score", pa.float64(), "rank score of the phrase"),
    ("token_start", pa.int32(), "first token of the phrase's first occurrence"),
    ("token_end", pa.int32(), "token after its last"),
    ("status", pa.string(), "ok, not_converged, or why there is no phrase (empty_text, no_candidate)"))
