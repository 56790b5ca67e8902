"""Results of the HCL track."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from stages.metrics.registered import family
from stages.metrics.resampling import Statistic
from stages.metrics.systems import corpus_statistics
from stages.results.published import paper
from stages.results.track import ADDED, SCRATCH, Compared, Names, Question, Row, TableLayout, TrackResults, unusual
from stages.results.tracks.texts import AS_HCL, CUMULATIVE, VARIETY, item_statistics
from stages.tracks import registry
from stages.tracks.common.schemas import BASELINES

_QUESTIONS = (
    Question("The loss and its parts", "What is minimised. The validation loss, without the contrasts, chooses the "
             "weights.", r"loss|reconstruction|kl|{contrasts}"),
    Question("Is the latent variable used?", "Signs of posterior collapse are a KL near zero, few active units, and a "
             "reconstruction that is as good with z from the prior, with its mean, or with z = 0, as with z from the "
             "posterior. A training KL far below that of validation means that the prior has more information "
             "on training items.", r"active_units|(mean_log_)?sigma|kl_.*|reconstruction_.*"),
    Question("Does the keyword affect the outputs?", "The change of the distribution of each next token under another "
             "item's keyword, as total variation.", r"swap_.*"),
    Question("Are the contrasts still effective?", "For each contrast: masked, the share of items without it; of the "
             "others, the mean loss, and the share with a loss below 0.01 (vanished). Impostor: cosine of the output "
             "keyword to the impostor, and to its hardest and easiest parts.",
             r"({contrasts}|impostor)_.*"),
)
_TABLES = (
    AS_HCL,
    TableLayout(
        "Ordinary BLEU and rewriting", "Source BLEU compares an output with its own source: lower means more "
        "rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2.",
        (family("corpus_bleu"), family("sacrebleu"), family("rewriting"))),
    replace(CUMULATIVE, note="The same smoothing as in the first table, with even weights on orders 1 to n."),
    TableLayout(
        "ROUGE and BERTScore", "ROUGE is F1. Compare BERTScore with that of shuffled references.",
        (family("rouge"), family("py_rouge"), family("bertscore"))),
    VARIETY,
    TableLayout(
        "Likelihood of the target", "Comparable only between rows with the same word pieces.",
        (family("likelihood"),)),
)
_FULL = "hcl"
# Baselines as Table 1 prints them; a small form of a pretrained one, drawn from a configuration, is marked by its row.
_ARCHITECTURES = {"cvae": "CVAE", "seq2seq": "Seq2Seq", "transformer": "Transformer", "seq2seq_du": "Seq2Seq-DU",
                  "dialogpt": "DialoGPT", "t5": "T5", "group_wise": "Group-wise", "t5_claps": "T5-CLAPS"}
_FURTHER = {"simctg": "DialoGPT trained as SimCTG"}  # that Table 1 does not have
_PRETRAINED = {**{name: _ARCHITECTURES[name] for name in ("dialogpt", "t5", "t5_claps")}, **_FURTHER}
_NAMES = Names(
    {_FULL: "HCL", **_ARCHITECTURES, **_FURTHER, "seq2seq_du": "Seq2Seq-DU (adapted)"},
    {"graph": "the graph", "keyword": "the keyword with both its contrasts",
     "mahalanobis contrast": "the Mahalanobis contrast", "latent": "the latent variable and what depends on it"},
    rows={Row(_FULL, frozenset({"latent"})): "BERT-GEN", **{
        Row(architecture, frozenset({SCRATCH})): f"{name} (small, {SCRATCH})"
        for architecture, name in _PRETRAINED.items()}})
_PRINTED_TABLES = paper("hcl").tables
_PRINTED = {Row(_FULL): "Ours", **{Row(_FULL, frozenset({part})): name for part, name in (
    ("graph", "w/o graph"), ("keyword", "w/o keyword"), ("mahalanobis contrast", "w/o MA"), ("latent", "BERT-GEN"))}}
_CONTRASTS = ("instance", "keyword", "mahalanobis")
_OF_KEYWORDS = {"keyword contrast", "mahalanobis contrast"}
# The part of the graph that training items see, where it is not the default.
_SEEN = {"leaking": f"{ADDED}leaking graph", "item": "own edges of the item alone hidden"}
_WEIGHT = "cosine"     # of impostors, by default


def row(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> Row:
    """Return the row of a run; of a baseline, its architecture and the start of a pretrained one."""
    architecture = str(settings.get("architecture", _FULL))
    if architecture != _FULL:
        source = settings.get(architecture, {}).get("source", "")
        start = {SCRATCH if source is None else f"from {source}"} if source != "" else set()
        return Row(architecture, unusual(settings, decode) | start)
    keyword = decode.get("keyword", "own")
    other = set() if keyword == "own" else {f"keyword {keyword}"}
    if settings.get("keyword", {}).get("condition") == "target":
        other.add(f"{ADDED}target's keyword")
    if settings.get("latent", {}).get("enabled") is False and settings.get("decoder", {}).get("kw_memory"):
        other.add(f"{ADDED}keyword in the memory")
    return Row(architecture, removed_parts(settings) | _readings(settings) | unusual(settings, decode) | other)


def removed_parts(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the parts of HCL that ``settings`` remove, without those that are removed as a consequence."""
    def value(*names: str) -> Any:
        inner: Any = settings
        for name in names:
            inner = inner.get(name) if isinstance(inner, Mapping) else None
        return inner

    removed_names = {f"{name} contrast" for name in _CONTRASTS if value("contrasts", name, "weight") == 0}
    if value("latent", "enabled") is False:
        return frozenset({"latent"})
    if value("keyword", "condition") is False:
        # Without keywords there is neither a graph nor a contrast over them.
        return frozenset({"keyword"} | removed_names - _OF_KEYWORDS)
    if value("graph", "iterations") == 0:
        # The vectors that the contrast of keywords compares are then constant: its weight changes no other term.
        return frozenset({"graph"} | removed_names - {"keyword contrast"})
    return frozenset(removed_names)


def _readings(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return switches for what items see of the graph in training, and for weights of impostors; none of a preset."""
    removed, readings = removed_parts(settings), set()
    if settings.get("preset") or removed & {"keyword", "latent"}:
        return frozenset()
    seen = settings.get("graph", {}).get("own_edges")
    weight = settings.get("keyword", {}).get("impostor_weight", _WEIGHT)
    if seen == "leaking" and "graph" in removed:
        readings.add("own texts of the item seen in h0")
    elif seen in _SEEN:
        readings.add(_SEEN[seen])
    if weight != _WEIGHT and "graph" not in removed:
        readings.add(f"impostors by {weight}")
    return frozenset(readings)


def _printed(own: Row) -> list[str]:
    as_published = all(switch == SCRATCH or switch.startswith("from ") for switch in own.switches)
    name = _PRINTED.get(own, _ARCHITECTURES.get(own.architecture) if as_published else None)
    return [] if name is None else [name]


def _statistics(scores: pd.DataFrame, predicted: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, Statistic]:
    references = [list(texts) for texts in predicted["references"]]
    return item_statistics(scores) | corpus_statistics(scores["output"].tolist(), references,
                                                       predicted["source"].tolist())


HCL = TrackResults(
    **vars(registry.HCL), method="hierarchical contrastive learning over keywords and instances",
    names=_NAMES, row=row, full=Row(_FULL), layouts=_TABLES, reported=_PRINTED_TABLES["1a"].metrics,
    questions=_QUESTIONS, published=tuple(_PRINTED_TABLES.values()),
    printed_as=_printed, data="QQP, Douban and RocStories", baselines=BASELINES,
    compared=Compared("source", "references", "prediction", "output", _statistics),
    headline="HCL. B-n: BLEU of order n; Extr to Greed: vectors; src-B: against the source",
    differs="Data, encoder, vocabulary and word vectors",
    by_stratum=("bleu_1", "bleu_4", "bertscore", "ibleu"))
