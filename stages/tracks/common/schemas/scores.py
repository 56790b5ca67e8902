"""What evaluations of rewriters find."""

import pyarrow as pa

from stages.common.schemas import STRINGS, TableSchema

_SCORES: tuple[tuple[str, pa.DataType, str], ...] = (
    ("system", pa.string(), "run, or a floor: copy, nearest, shuffled, keyword"),
    ("example_id", pa.int64(), "evaluated example"),
    ("output", pa.string(), "text that was scored"),
    ("bleu_1", pa.float64(), "sentence BLEU of order 1 alone, smoothing method 7"),
    ("bleu_2", pa.float64(), "order 2 alone"),
    ("bleu_3", pa.float64(), "order 3 alone"),
    ("bleu_4", pa.float64(), "order 4 alone"),
    ("extrema", pa.float64(), "vector extrema cosine; null if the reference has no known word"),
    ("average", pa.float64(), "mean vector cosine; null likewise"),
    ("greedy", pa.float64(), "greedy matching, mean of both directions"),
    ("rouge_1", pa.float64(), "ROUGE-1 F1 as rouge_score counts it, stemmed, best reference"),
    ("rouge_2", pa.float64(), "ROUGE-2 likewise"),
    ("rouge_l", pa.float64(), "ROUGE-L likewise"),
    ("bertscore", pa.float64(), "BERTScore F1, raw, best reference; null if it was left out"),
    ("source_bleu_4", pa.float64(), "cumulative sentence BLEU-4 of the output against the source, smoothing "
                                    "method 7; lower means more rewriting"),
    ("keyword_kept", pa.bool_(), "the input keyword occurs in the output, by word stems; null without one"),
)

SCORES = TableSchema(
    "scores", "Scores of every evaluated example, of the run and of the floors.", ("system", "example_id"), (
        *_SCORES,
        ("cluster", pa.int64(), "training examples whose input has this input's keyword; 0 without one"),
        ("known", pa.bool_(), "this input's keyword is a node of the training graph"),
    ))

PARAPHRASE_SCORES = TableSchema(
    "paraphrase_scores", "Scores of a run of the PGKPR track, in the place of scores.parquet; texts are words of "
                         "the language pipeline, joined by spaces.", ("system", "example_id"), (
        *_SCORES,
        ("py_rouge_1", pa.float64(), "ROUGE-1 F1 as py-rouge counts it: pooled over the references"),
        ("py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
        ("py_rouge_l", pa.float64(), "ROUGE-L likewise"),
        ("released_py_rouge_1", pa.float64(), "ROUGE-1 likewise, of released_output and released_references"),
        ("released_py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
        ("released_py_rouge_l", pa.float64(), "ROUGE-L likewise"),
        ("keywords_kept", pa.float64(), "share of the source's keywords (attribution from the source alone, fixed "
                                        "coins) that the output shows, by word stems; null without any"),
        ("released_output", pa.string(), "the output as PGKPR's code scores it: cut, [unk] for words outside the "
                                         "vocabulary"),
        ("released_references", STRINGS, "references likewise"),
    ))
