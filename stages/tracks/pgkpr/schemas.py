"""What models of the PGKPR track are trained on."""

import pyarrow as pa

from stages.common.schemas import STRINGS, TableSchema

PARAPHRASE_ITEMS = TableSchema(
    "paraphrase_items", "Pairs as words, with tags and keyword scores of the source (PGKPR).",
    ("example_id", "reference"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("reference", pa.int32(), "0 for the target; 1.. for further references, each a pair of its own"),
        ("split", pa.string(), "train, validation or test"),
        ("group", pa.int64(), "group of table examples: texts of one group are no negatives of each other"),
        ("source", pa.string(), "source text"),
        ("target", pa.string(), "target text"),
        ("source_words", STRINGS, "words of the source in lower case, uncut"),
        ("source_tags", STRINGS, "Penn tag of each, from the text as written"),
        ("target_words", STRINGS, "words of the target in lower case, uncut"),
        ("target_tags", STRINGS, "Penn tag of each"),
        ("score_xx", pa.list_(pa.float32()), "keyword probability of each source word, from the source alone"),
        ("score_xy", pa.list_(pa.float32()), "keyword probability of each source word, from this pair"),
        ("primary_xx", pa.list_(pa.bool_()), "primary by PSI, from the source alone; null where no "
                                            "model reads primary words"),
        ("primary_xy", pa.list_(pa.bool_()), "primary by PSI, from this pair; null likewise"),
        ("primary_s", pa.list_(pa.bool_()), "primary as the S-Tagger sees it; null where no run reads that"),
        ("primary_textrank", pa.list_(pa.bool_()), "word of the best phrases of TextRank, as many words as attribution "
                                                   "expects of the source; null where no model reads these"),
    ))

VOCABULARY = TableSchema(
    "vocabulary", "The one vocabulary of words, tags and special tokens.", ("token_id",), (
        ("token_id", pa.int32(), "id; [pad] is 0"),
        ("token", pa.string(), "special token, tag in brackets such as [NN], or word in lower case"),
        ("kind", pa.string(), "special, tag or word"),
        ("count", pa.int64(), "occurrences in sources and targets of the training split"),
    ))
