"""What CLLD published (Tables II and III), as printed.

"Contrastive Learning with Label Distance for Text Classification". All cells are accuracies on the test set in per
cent, of one run as far as the paper says. Table II is kept in a part per data set, so that a run stands below its row.
"""

import re

from stages.results.published.printed import PublishedCell, PublishedRow, PublishedTable

METRICS = ("accuracy",)
ENCODERS = ("BERT", "ALBERT", "TextCNN")
# Kind of data set (see printed.dataset_kind_of): its name in Table II.
DATASETS = {"20ng": "20NG", "trec6": "TREC_6", "r8": "R8", "r52": "R52", "mr": "MR"}

# Texts of the training and the test split, counted in the split lists of Yao et al. 2019, which the paper's have.
PAPER_TEXTS = {"20ng": (11_314, 7_532), "trec6": (5_452, 500), "r8": (5_485, 2_189), "r52": (6_532, 2_568),
               "mr": (7_108, 3_554)}

# Columns: each encoder alone, then with CLLD.
_TABLE_II = """
20NG   | 85.3 | 86.6 | 80.6 | 81.7 | 78.8 | 80.0
TREC_6 | 97.6 | 97.8 | 96.4 | 96.6 | 88.2 | 88.8
R8     | 97.8 | 98.1 | 97.3 | 97.7 | 94.8 | 95.0
R52    | 96.4 | 96.5 | 94.8 | 95.6 | 91.1 | 91.3
MR     | 85.7 | 87.0 | 86.6 | 97.0 | 70.9 | 72.1
"""
_TABLE_III = {"CT": "85.30", "CT+CL": "86.30", "CT+CLSLED": "86.60", "CT+CLALD": "86.56"}
# Row and column of Table II: flag and what the cell should almost surely say; in Table III by row.
_SUSPICIOUS = {("MR", "ALBERT+CLLD"): ("!8", 87.0)}
_REMARKS = {("20NG", "BERT+CLLD"): "r7"}
_REMARKS_III = {"CT+CLSLED": "r7", "CT+CLALD": "r8"}


def _table_ii() -> list[PublishedTable]:
    names = [name for encoder in ENCODERS for name in (encoder, f"{encoder}+CLLD")]
    printed = {name: texts for line in _TABLE_II.strip().splitlines()
               for name, *texts in [[part.strip() for part in line.split("|")]]}
    return [PublishedTable(f"II, {name}", "accuracy in per cent", kind, METRICS,
                           {row: _row(row, text, name) for row, text in zip(names, printed[name], strict=True)}, 100)
            for kind, name in DATASETS.items()]


def _row(name: str, text: str, dataset: str) -> PublishedRow:
    flag, presumed = _SUSPICIOUS.get((dataset, name), (_REMARKS.get((dataset, name), ""), None))
    return PublishedRow(name, {"accuracy": PublishedCell(text, float(text), flag, presumed)})


TABLES: dict[str, PublishedTable] = {table.number: table for table in (
    *_table_ii(),
    PublishedTable("III", "ablation with BERT, 20NG, accuracy in per cent", "20ng", METRICS, {
        name: PublishedRow(name, {"accuracy": PublishedCell(text, float(text), _REMARKS_III.get(name, ""))})
        for name, text in _TABLE_III.items()}, 100))}


def encoder_of(source: str) -> str | None:
    """Return which encoder of Table II ``source`` corresponds to: ``BERT``, ``ALBERT`` or ``TextCNN``; None for none.

    The bundled MiniLM is a BERT of 6 layers and width 384, and is set beside BERT. Encoders that only have its name
    in theirs, such as RoBERTa, are others.

    Args:
        source: ``textcnn``, or as ``encoder.source``: ``bundled``, ``scratch``, ``hub:<id>`` or ``path:<dir>``.
    """
    if source == "textcnn":
        return "TextCNN"
    if source == "bundled":
        return "BERT"
    found = re.search(r"(?<![a-z])(al)?bert(?![a-z])", source.rpartition("/")[2].lower())
    return None if found is None else "ALBERT" if found[1] else "BERT"
