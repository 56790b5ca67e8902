"""Linguistic annotation."""

import pyarrow as pa

from stages.common.schemas import INTS, STRINGS, TableSchema

TOKENS = TableSchema(
    "tokens", "Linguistic annotation, one row per text, lists aligned with its tokens.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("token", STRINGS, "token as written"),
        ("lemma", STRINGS, "lemma"),
        ("pos", STRINGS, "universal part of speech (UPOS)"),
        ("tag", STRINGS, "fine part of speech (Penn for English)"),
        ("start", INTS, "offset of the token's first character in the text"),
        ("end", INTS, "offset after the token's last character"),
        ("is_stop", pa.list_(pa.bool_()), "stop word of the language pipeline"),
        ("sentence_start", pa.list_(pa.bool_()), "token opens a sentence"),
        ("chunk_start", INTS, "first token of each noun chunk"),
        ("chunk_end", INTS, "token after the last of each noun chunk"),
    ))
