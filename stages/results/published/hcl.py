"""What HCL published, tables 1 to 3, as printed.

"Keywords and Instances: A Hierarchical Contrastive Learning Framework Unifying Hybrid Granularities for Text
Generation" (ACL 2022). BLEU-n there is of order n alone with smoothing 7, and the word vectors of the embedding
metrics are not named: set nothing beside it that was measured otherwise, or smaller, without saying so.
"""

from stages.results.published.printed import PublishedCell, PublishedTable, printed_table

# Keys of the published columns, as metrics.json names them.
METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy")
HUMAN = ("fluency", "meaningfulness", "differential")
# Rows whose relation to the full method the paper speaks of.
TOLD = ("w/o keyword", "w/o graph", "w/o MA")
PAPER_TRIPLES = {"samples": 44_949, "train": 40_441, "validation": 2_254, "test": 2_254}

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
TABLES: dict[str, PublishedTable] = {table.number: table for table in (
    printed_table("1a", "Paraphrasing, QQP", "qqp", METRICS, _QQP, {("DialoGPT", "bleu_4"): PublishedCell(
        "0.0749", 0.0749, "r1")}),
    printed_table("1b", "Dialogue, Douban", "douban", METRICS, _DOUBAN, flags={"DialoGPT": "r3"}),
    printed_table("1c", "Storytelling, RocStories", "rocstories", METRICS, _ROCSTORIES, {
        ("Transformer", "bleu_2"): PublishedCell("0.0596", 0.0596, "!1", presumed=0.0956),
        ("DialoGPT", "greedy"): PublishedCell("6103", 0.6103, "!2"),
        ("Ours", "extrema"): PublishedCell("0.5218", 0.5218, "!3"),
        ("Ours", "greedy"): PublishedCell("0.6131", 0.6131, "!3")}),
    printed_table("2", "Ablations, QQP", "qqp", METRICS, _ABLATIONS, flags={"w/o MA": "r2"}),
    printed_table("3", "Human evaluation, QQP, 1 to 3", "qqp", HUMAN, _HUMAN,
                  flags=dict.fromkeys(("Seq2Seq-DU", "DialoGPT", "T5-CLAPS", "Ours"), "r4"), human=True),
)}
# Kappa of three raters; the differences of Ours from the others are called significant (two-tailed paired t-test).
HUMAN_KAPPA = {"fluency": 0.53, "meaningfulness": 0.61, "differential": 0.56}
