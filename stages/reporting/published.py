"""What HCL published, as printed, with notes on the cells that do not add up; pure data and ways into it.

"Keywords and Instances: A Hierarchical Contrastive Learning Framework Unifying Hybrid Granularities for Text
Generation" (ACL 2022), tables 1 to 3. BLEU-n there is of order n alone with smoothing 7, and the word vectors
of the embedding metrics are not named: set nothing beside it that was measured otherwise, or smaller, without
saying so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Keys of the published columns, as metrics.json names them.
METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy")
HUMAN = ("fluency", "meaningfulness", "differential")
HEADINGS = {"bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4", "extrema": "Extrema",
            "average": "Average", "greedy": "Greedy", "fluency": "Fluency", "meaningfulness": "Meaningfulness",
            "differential": "Differential", "accuracy": "Accuracy", "diversity": "Diversity"}
OURS, BACKBONE = "Ours", "BERT-GEN"
PAPER_TRIPLES = {"samples": 44_949, "train": 40_441, "validation": 2_254, "test": 2_254}

# Flags with ! are suspicions, those with r remarks.
NOTES = {
    "!1": "Below the bound BLEU-1/3 = 0.0851 that smoothing 7 sets, and out of line with its column: almost surely "
          "0.0956, two digits transposed.",
    "!2": "Printed without \"0.\": 0.6103.",
    "!3": "Lower than T5-CLAPS: \"ours best\" does not hold for this cell.",
    "r1": "Below Seq2Seq-DU on BLEU-4, though above it on BLEU-1 to 3: plausible.",
    "r2": "The lowest Extrema, Average and Greedy of the ablations, although its BLEU exceeds that of w/o keyword.",
    "r3": "Printed Dialo-gpt.",
    "r4": "Ours is printed as significantly better; no per-annotator data were published, so that neither kappa nor "
          "significance can be computed again.",
    "r5": "1,500 judged items are 100 sources, 5 systems and 3 judgements each, which leaves no room for this row.",
}


@dataclass(frozen=True)
class PublishedCell:
    """A cell.

    Attributes:
        text: as printed.
        value: what it says; where only "0." is missing, with it.
        flag: key of :data:`NOTES`, or empty.
        presumed: what it should almost surely say, where that is not its value.
    """

    text: str
    value: float
    flag: str = ""
    presumed: float | None = None


@dataclass(frozen=True)
class PublishedRow:
    """A row: its name, its cells by metric, and a flag of its own (key of :data:`NOTES`) or none."""

    name: str
    cells: dict[str, PublishedCell]
    flag: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper.

    Attributes:
        number: as printed, such as ``1a``.
        title: what it holds.
        kind: ``qqp``, ``douban`` or ``rocstories``.
        metrics: keys of its columns.
        rows: by name.
    """

    number: str
    title: str
    kind: str
    metrics: tuple[str, ...]
    rows: dict[str, PublishedRow]

    @property
    def flags(self) -> list[str]:
        """Flags that occur in the table, in the order of :data:`NOTES`."""
        found = {flag for row in self.rows.values() for flag in (row.flag, *(cell.flag for cell in row.cells.values()))}
        return [flag for flag in NOTES if flag in found]


_QQP = """
CVAE        | 0.4562 | 0.2150 | 0.0962 | 0.0496 | 0.6606 | 0.8371 | 0.8406
Seq2Seq     | 0.4510 | 0.2117 | 0.0950 | 0.0497 | 0.6543 | 0.8243 | 0.8533
Transformer | 0.4832 | 0.2339 | 0.1086 | 0.0590 | 0.6523 | 0.8274 | 0.8531
Seq2Seq-DU  | 0.5613 | 0.2781 | 0.1334 | 0.0763 | 0.6679 | 0.8302 | 0.8590
DialoGPT    | 0.5749 | 0.2845 | 0.1337 | 0.0749 | 0.6658 | 0.8393 | 0.8597
BERT-GEN    | 0.5452 | 0.2781 | 0.1343 | 0.0764 | 0.6673 | 0.8299 | 0.8586
T5          | 0.6172 | 0.3301 | 0.1730 | 0.1019 | 0.6679 | 0.8408 | 0.8601
Group-wise  | 0.5201 | 0.2472 | 0.1112 | 0.0582 | 0.6576 | 0.8337 | 0.8569
T5-CLAPS    | 0.6264 | 0.3394 | 0.1787 | 0.1058 | 0.6683 | 0.8430 | 0.8612
Ours        | 0.6430 | 0.3517 | 0.1845 | 0.1153 | 0.6701 | 0.8495 | 0.8661
"""
_DOUBAN = """
CVAE        | 0.0640 | 0.0259 | 0.0102 | 0.0047 | 0.4473 | 0.4814 | 0.6006
Seq2Seq     | 0.0542 | 0.0218 | 0.0086 | 0.0039 | 0.4388 | 0.4802 | 0.5960
Transformer | 0.0531 | 0.0210 | 0.0081 | 0.0036 | 0.4401 | 0.4807 | 0.5989
Seq2Seq-DU  | 0.0887 | 0.0333 | 0.0123 | 0.0050 | 0.4591 | 0.4972 | 0.6083
DialoGPT    | 0.0953 | 0.0363 | 0.0136 | 0.0057 | 0.4633 | 0.4997 | 0.6108
BERT-GEN    | 0.0823 | 0.0314 | 0.0119 | 0.0050 | 0.4630 | 0.5001 | 0.6095
T5          | 0.1007 | 0.0379 | 0.0140 | 0.0057 | 0.4659 | 0.5056 | 0.6147
Group-wise  | 0.0581 | 0.0239 | 0.0101 | 0.0053 | 0.4489 | 0.4903 | 0.6002
T5-CLAPS    | 0.1162 | 0.0413 | 0.0165 | 0.0062 | 0.4667 | 0.5071 | 0.6159
Ours        | 0.1398 | 0.0516 | 0.0188 | 0.0074 | 0.4691 | 0.5091 | 0.6179
"""
_ROCSTORIES = """
CVAE        | 0.2581 | 0.0969 | 0.0360 | 0.0148 | 0.5135 | 0.5632 | 0.6011
Seq2Seq     | 0.2324 | 0.0896 | 0.0340 | 0.0150 | 0.5133 | 0.5649 | 0.6007
Transformer | 0.2552 | 0.0596 | 0.0354 | 0.0145 | 0.5129 | 0.5637 | 0.6006
Seq2Seq-DU  | 0.3089 | 0.1131 | 0.0384 | 0.0156 | 0.5166 | 0.5773 | 0.6116
DialoGPT    | 0.3126 | 0.1105 | 0.0398 | 0.0158 | 0.5178 | 0.5860 | 6103
BERT-GEN    | 0.3040 | 0.1071 | 0.0385 | 0.0153 | 0.5173 | 0.5866 | 0.6098
T5          | 0.3274 | 0.1177 | 0.0416 | 0.0164 | 0.5194 | 0.5864 | 0.6118
Group-wise  | 0.2748 | 0.1017 | 0.0366 | 0.0152 | 0.5139 | 0.5651 | 0.6009
T5-CLAPS    | 0.3420 | 0.1261 | 0.0452 | 0.0176 | 0.5232 | 0.5880 | 0.6134
Ours        | 0.3552 | 0.1341 | 0.0485 | 0.0184 | 0.5218 | 0.5884 | 0.6131
"""
_ABLATIONS = """
Ours        | 0.6430 | 0.3517 | 0.1845 | 0.1153 | 0.6701 | 0.8495 | 0.8661
w/o graph   | 0.6295 | 0.3333 | 0.1675 | 0.1001 | 0.6685 | 0.8455 | 0.8647
w/o keyword | 0.5764 | 0.2993 | 0.1499 | 0.0892 | 0.6673 | 0.8450 | 0.8539
w/o MA      | 0.6013 | 0.3208 | 0.1628 | 0.0981 | 0.6605 | 0.8436 | 0.8524
"""
_HUMAN = """
Seq2Seq-DU  | 2.03 | 2.12 | 1.76
DialoGPT    | 2.18 | 2.04 | 1.97
T5-CLAPS    | 2.24 | 2.16 | 2.19
Ours        | 2.51 | 2.45 | 2.43
"""
_PGKPR_HUMAN = """
Residual-LSTM | 1.49 | 1.14 | 0.8
Transformer   | 1.7  | 1.33 | 1.11
LBOW-Topk     | 1.55 | 1.21 | 0.85
IANet+S       | 1.68 | 1.37 | 0.97
PGKPR         | 1.79 | 1.5  | 1.29
Target        | 1.85 | 1.59 | 1.47
"""


def _table(number: str, title: str, kind: str, metrics: tuple[str, ...], printed: str,
           cells: Mapping[tuple[str, str], PublishedCell] | None = None,
           flags: Mapping[str, str] | None = None) -> PublishedTable:
    rows = {}
    for line in printed.strip().splitlines():
        name, *texts = (part.strip() for part in line.split("|"))
        read = {key: PublishedCell(text, float(text)) for key, text in zip(metrics, texts, strict=True)}
        read |= {metric: cell for (row, metric), cell in (cells or {}).items() if row == name}
        rows[name] = PublishedRow(name, read, (flags or {}).get(name, ""))
    return PublishedTable(number, title, kind, metrics, rows)


TABLES: dict[str, PublishedTable] = {table.number: table for table in (
    _table("1a", "Paraphrasing, QQP", "qqp", METRICS, _QQP, {("DialoGPT", "bleu_4"): PublishedCell(
        "0.0749", 0.0749, "r1")}),
    _table("1b", "Dialogue, Douban", "douban", METRICS, _DOUBAN, flags={"DialoGPT": "r3"}),
    _table("1c", "Storytelling, RocStories", "rocstories", METRICS, _ROCSTORIES, {
        ("Transformer", "bleu_2"): PublishedCell("0.0596", 0.0596, "!1", presumed=0.0956),
        ("DialoGPT", "greedy"): PublishedCell("6103", 0.6103, "!2"),
        ("Ours", "extrema"): PublishedCell("0.5218", 0.5218, "!3"),
        ("Ours", "greedy"): PublishedCell("0.6131", 0.6131, "!3")}),
    _table("2", "Ablations, QQP", "qqp", METRICS, _ABLATIONS, flags={"w/o MA": "r2"}),
    _table("3", "Human evaluation, QQP, 1 to 3", "qqp", HUMAN, _HUMAN,
           flags=dict.fromkeys(("Seq2Seq-DU", "DialoGPT", "T5-CLAPS", "Ours"), "r4")),
)}
# Kappa of three raters; the differences of Ours from the others are called significant (two-tailed paired t-test).
HUMAN_KAPPA = {"fluency": 0.53, "meaningfulness": 0.61, "differential": 0.56}
# Table 5 of "Multi-task Learning for Paraphrase Generation with Keyword and Part-of-Speech Reconstruction".
PGKPR_HUMAN = _table("5", "Human evaluation of PGKPR, Quora and MSCOCO, 0 to 2", "quora",
                     ("fluency", "accuracy", "diversity"), _PGKPR_HUMAN,
                     flags={"Target": "r5"})
_OF_KIND = {"qqp": "1a", "douban": "1b", "rocstories": "1c"}


@dataclass(frozen=True)
class RelativeChange:
    """A change that the paper speaks of.

    Attributes:
        table: its number.
        row, base: rows compared.
        metric: column.
        quoted: per cent as the text has it; None where it does not.
    """

    table: str
    row: str
    base: str
    metric: str
    quoted: float | None

    @property
    def percent(self) -> float:
        """The change recomputed from the cells, in per cent of the base."""
        rows = TABLES[self.table].rows
        return 100 * (rows[self.row].cells[self.metric].value / rows[self.base].cells[self.metric].value - 1)


DROPS = tuple(RelativeChange("2", row, OURS, "bleu_1", quoted)
              for row, quoted in (("w/o keyword", -10.4), ("w/o graph", -2.1), ("w/o MA", None)))
GAINS = tuple(RelativeChange(number, OURS, "T5-CLAPS", metric, quoted) for number, values in
              (("1a", (2.7, 3.6)), ("1b", (20.3, 24.9)), ("1c", (3.9, 6.3)))
              for metric, quoted in zip(("bleu_1", "bleu_2"), values, strict=True))


def published_table(kind: str | None) -> PublishedTable | None:
    """Return Table 1 of data set ``kind`` (``qqp``, ``douban`` or ``rocstories``); None for any other."""
    return TABLES[_OF_KIND[kind]] if kind in _OF_KIND else None


def published_row(overrides: Mapping[str, Any], dataset_kind: str | None) -> PublishedRow | None:
    """Return the published row that a model of ours corresponds to.

    Only what removes a part of the method counts; a model that reads the paper another way, or is trained
    otherwise, is still compared with Ours.

    >>> published_row({"graph": {"iterations": 0}}, "qqp").name
    'w/o graph'

    Args:
        overrides: nested like ``train_hcl``: the overrides of a model, or its settings as a whole.
        dataset_kind: ``qqp``, ``douban`` or ``rocstories``; see :func:`dataset_kind_of`.

    Returns:
        None if the paper has no such row: another data set, several parts removed at once, the instance or the
        keyword contrast alone, and plain CVAE (the paper's is no BERT).
    """
    table = published_table(dataset_kind)
    name = row_name(overrides)
    if table is None or name is None:
        return None
    if name in table.rows:
        return table.rows[name]
    return TABLES["2"].rows[name] if dataset_kind == TABLES["2"].kind else None


def row_name(overrides: Mapping[str, Any]) -> str | None:
    """Return which published row ``overrides`` make, whatever the data set; None for none."""
    removed = removed_parts(overrides)
    names: dict[frozenset[str], str] = {
        frozenset(): OURS, frozenset({"graph"}): "w/o graph", frozenset({"keyword"}): "w/o keyword",
        frozenset({"mahalanobis"}): "w/o MA"}
    return BACKBONE if "latent" in removed else names.get(removed)


def removed_parts(overrides: Mapping[str, Any]) -> frozenset[str]:
    """Return the parts of the method that ``overrides`` remove, what they bring with them left out.

    Of ``latent``, ``graph``, ``keyword`` (condition and both contrasts over keywords), ``instance``,
    ``keyword_contrast`` and ``mahalanobis``.
    """
    def value(*names: str) -> Any:
        inner: Any = overrides
        for name in names:
            inner = inner.get(name) if isinstance(inner, Mapping) else None
        return inner

    weights = {"instance": "instance", "keyword": "keyword_contrast", "mahalanobis": "mahalanobis"}
    found = {part for name, part in weights.items() if value("contrasts", name, "weight") == 0}
    if value("latent", "enabled") is False:
        return frozenset({"latent"})
    if value("keyword", "condition") is False:
        # Without keywords there is neither a graph nor a contrast over them.
        return frozenset({"keyword"} | (found & {"instance"}))
    return frozenset(found | ({"graph"} if value("graph", "iterations") == 0 else set()))


def dataset_kind_of(name: str, layout: str, source: str = "") -> str | None:
    """Return which of the paper's data sets a data set of the params is, by its layout and name; None for none.

    Args:
        name: of the data set.
        layout: ``datasets.<name>.layout``.
        source: file or folder, which may name what the data set's name does not.
    """
    called = f"{name} {source}".lower()
    if layout in ("glue_qqp", "kaggle_qqp", "quora_qqp") or (layout == "pairs" and ("qqp" in called
                                                                                 or "quora" in called)):
        return "qqp"
    if layout == "dialogue" and "douban" in called:
        return "douban"
    return "rocstories" if layout == "stories" and "roc" in called else None
