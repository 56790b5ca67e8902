"""What PGKPR published, tables 2, 3 and 5, as printed.

"Multi-task Learning for Paraphrase Generation with Keyword and Part-of-Speech Reconstruction" (Findings of ACL 2022).
BLEU-n there is cumulative corpus BLEU times 100, against references that are cut and whose rare words are [unk]; ROUGE
is py-rouge's, likewise.
"""

from stages.results.published.printed import PublishedCell, PublishedTable, printed_table

# Keys of the published columns, as metrics.json names them.
METRICS = (*(f"released_bleu_{order}" for order in range(1, 5)),
           *(f"released_py_rouge_{kind}" for kind in ("1", "2", "l")))

_QUORA = """
Residual-LSTM | 55.06 | 40.73 | 31.41 | 25.06 | 56.92 | 32.70 | 54.37
Transformer   | 57.26 | 43.44 | 34.20 | 27.79 | 58.89 | 34.92 | 56.16
LBOW-Topk     | 55.94 | 42.02 | 32.64 | 26.10 | 58.60 | 34.33 | 56.17
LBOW-gumbel   | 55.82 | 41.82 | 32.48 | 25.96 | 58.09 | 33.88 | 55.59
IANet+X       | 57.69 | 43.78 | 34.30 | 27.70 | 59.00 | 35.15 | 56.43
IANet+S       | 57.72 | 43.74 | 34.24 | 27.65 | 59.03 | 35.10 | 56.41
PGKPR         | 58.89 | 45.08 | 35.69 | 29.23 | 60.94 | 36.69 | 58.16
PGKPR-ref     | 58.89 | 45.07 | 35.68 | 29.24 | 60.82 | 36.58 | 58.02
PGKPR-PSI+X   | 58.37 | 44.21 | 34.78 | 28.31 | 58.32 | 35.18 | 56.36
PGKPR-PSI+S   | 58.46 | 44.22 | 34.77 | 28.27 | 59.44 | 35.09 | 56.39
"""
_MSCOCO = """
Residual-LSTM | 71.67 | 49.88 | 34.57 | 24.50 | 41.85 | 15.74 | 37.76
Transformer   | 71.41 | 50.86 | 35.42 | 25.14 | 41.60 | 15.52 | 37.46
LBOW-Topk     | 72.62 | 51.00 | 35.53 | 25.30 | 42.16 | 16.09 | 38.20
LBOW-gumbel   | 72.41 | 51.85 | 35.51 | 25.16 | 42.20 | 16.05 | 38.15
IANet+X       | 70.43 | 49.50 | 34.09 | 23.95 | 40.76 | 14.80 | 36.78
IANet+S       | 71.46 | 50.93 | 35.29 | 24.80 | 41.37 | 15.36 | 37.40
PGKPR         | 72.67 | 52.55 | 37.22 | 26.70 | 42.49 | 16.31 | 38.25
PGKPR-ref     | 72.67 | 52.66 | 37.34 | 26.87 | 42.46 | 16.16 | 38.16
PGKPR-PSI+X   | 70.61 | 49.99 | 34.68 | 24.46 | 41.39 | 15.15 | 37.22
PGKPR-PSI+S   | 72.03 | 51.73 | 36.37 | 25.95 | 42.18 | 15.89 | 37.82
"""
_ABLATIONS_QUORA = """
PGKPR               | 58.89 | 45.08 | 35.69 | 29.23 | 60.94 | 36.69 | 58.16
w/o L_con           | 58.63 | 44.74 | 35.26 | 28.61 | 60.31 | 36.45 | 57.73
w/o L_rec           | 58.33 | 44.27 | 34.87 | 28.42 | 59.91 | 35.35 | 57.04
w/o L_con and L_rec | 58.1  | 43.89 | 34.42 | 27.91 | 58.90 | 35.35 | 56.84
"""
_ABLATIONS_MSCOCO = """
PGKPR               | 72.67 | 52.55 | 37.22 | 26.70 | 42.49 | 16.31 | 38.25
w/o L_con           | 72.29 | 51.99 | 36.71 | 26.29 | 42.34 | 16.12 | 38.04
w/o L_rec           | 72.12 | 51.94 | 36.60 | 26.18 | 42.33 | 16.00 | 37.99
w/o L_con and L_rec | 71.87 | 51.59 | 36.28 | 25.85 | 42.26 | 15.95 | 37.97
"""
_HUMAN = """
Residual-LSTM | 1.49 | 1.14 | 0.8
Transformer   | 1.7  | 1.33 | 1.11
LBOW-Topk     | 1.55 | 1.21 | 0.85
IANet+S       | 1.68 | 1.37 | 0.97
PGKPR         | 1.79 | 1.5  | 1.29
Target        | 1.85 | 1.59 | 1.47
"""
HUMAN = printed_table("5", "Human evaluation of PGKPR, Quora and MSCOCO, 0 to 2", "quora",
                      ("fluency", "accuracy", "diversity"), _HUMAN, flags={"Target": "r5"}, human=True)
# By number; each of tables 2 and 3 has one part for Quora and one for MSCOCO.
TABLES: dict[str, PublishedTable] = {table.number: table for table in (
    printed_table("2a", "Paraphrasing, Quora", "qqp", METRICS, _QUORA, {
        ("PGKPR-ref", "released_bleu_1"): PublishedCell("58.89", 58.89, "!4"),
        ("PGKPR-PSI+X", "released_py_rouge_1"): PublishedCell("58.32", 58.32, "!5")}, scale=100),
    printed_table("2b", "Paraphrasing, MSCOCO", "mscoco", METRICS, _MSCOCO, {
        ("PGKPR-ref", "released_bleu_1"): PublishedCell("72.67", 72.67, "!4"),
        ("LBOW-gumbel", "released_bleu_2"): PublishedCell("51.85", 51.85, "!6")}, scale=100),
    printed_table("3a", "Ablations, Quora", "qqp", METRICS, _ABLATIONS_QUORA, {
        ("w/o L_rec", "released_py_rouge_2"): PublishedCell("35.35", 35.35, "!7"),
        ("w/o L_con and L_rec", "released_py_rouge_2"): PublishedCell("35.35", 35.35, "!7"),
        ("w/o L_con and L_rec", "released_bleu_1"): PublishedCell("58.1", 58.1, "r6")}, scale=100),
    printed_table("3b", "Ablations, MSCOCO", "mscoco", METRICS, _ABLATIONS_MSCOCO, scale=100),
    HUMAN)}
