"""Results of the PGKPR track."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from stages.metrics.bleu import ORDERS, RELEASED_WEIGHTS, corpus_bleu_statistic, count_matches
from stages.metrics.registered import family
from stages.metrics.resampling import Statistic
from stages.metrics.systems import corpus_statistics
from stages.results.published import paper
from stages.results.track import Compared, Names, Question, Row, TableLayout, TrackResults, unusual
from stages.results.tracks.texts import AS_HCL, CUMULATIVE, VARIETY, item_statistics
from stages.tracks import registry
from stages.tracks.common.schemas import BASELINES
from stages.tracks.pgkpr.items import USED, as_words, keyword_rule

_QUESTIONS = (
    Question("The loss and its parts", "What is minimised, in nats: generation per word of the target; reconstruction "
             "per token of the two-part input; contrast per pair; bow, the bag of words of the latent-bow models, per "
             "pair. Generation on validation chooses the weights.", r"loss|generation|reconstruction|contrast|bow"),
)
# The paper's metrics under the normalisation of its code come first, each with its raw reading beside it.
_TABLES = (
    TableLayout(
        "As PGKPR reports them", "Released: as in the published code, references are cut and words outside the "
        "vocabulary become [unk], which counts as a match; that lifts scores. Raw: whole references, real words. The "
        "paper prints BLEU and ROUGE times 100.",
        (family("released_bleu"), family("corpus_bleu", "Corpus BLEU, raw"), family("released_py_rouge"),
         family("py_rouge", "ROUGE of py-rouge, raw"), family("rouge", "ROUGE of rouge_score, raw"),
         family("rewriting"), family("keywords"))),
    replace(AS_HCL, brief=False),
    CUMULATIVE,
    TableLayout(
        "BERTScore and others", "Compare BERTScore with that of shuffled references.",
        (family("bertscore"), family("sacrebleu"), family("released_batch_bleu"))),
    VARIETY,
)
_NAMES = Names(
    {"pgkpr": "PGKPR", "transformer": "Transformer", "residual_lstm": "Residual-LSTM", "latent_bow": "LBOW",
     "ianet": "IANet"},
    {"contrast": "the contrast of pairs", "reconstruction": "the reconstruction of tags and keywords"},
    {"psi": "keywords by PSI", "xx": "given keywords by attribution, from the source alone",
     "xy": "given keywords of the reference too, an oracle", "psi_xx": "given keywords by PSI, from the source alone",
     "psi_xy": "given keywords by PSI, of the reference too, an oracle",
     "s_tagger": "given keywords as the S-Tagger sees them", "textrank": "given keywords by TextRank",
     "random": "given random words as keywords", "none": "given no keyword", "all": "given every word as a keyword",
     "by textrank": "trained with keywords by TextRank", "by random": "trained with random words as keywords",
     "by none": "trained without a keyword", "by all": "trained with every word as a keyword",
     "gumbel": "words of the bag drawn by Gumbel-softmax"})
_PRINTED_TABLES = paper("pgkpr").tables
_PRINTED = {
    ("pgkpr", ""): "PGKPR", ("pgkpr", "xy"): "PGKPR-ref", ("pgkpr", "psi"): "PGKPR-PSI+X",
    ("pgkpr", "psi s_tagger"): "PGKPR-PSI+S", ("pgkpr", "contrast"): "w/o L_con",
    ("pgkpr", "reconstruction"): "w/o L_rec", ("pgkpr", "contrast reconstruction"): "w/o L_con and L_rec",
    ("residual_lstm", ""): "Residual-LSTM", ("transformer", ""): "Transformer", ("latent_bow", ""): "LBOW-Topk",
    ("latent_bow", "gumbel"): "LBOW-gumbel", ("ianet", ""): "IANet+X", ("ianet", "s_tagger"): "IANet+S"}
_ROWS = {Row(architecture, frozenset(switches.split())): name for (architecture, switches), name in _PRINTED.items()}


def row(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> Row:
    """Return the row of a run: its architecture, the removed parts, and the source of its keywords."""
    architecture = str(settings.get("architecture", "pgkpr"))
    given, rule, switches = keywords_of(settings, decode), _rule(settings), set()
    if architecture == "pgkpr":
        switches = {part for part in _NAMES.parts if settings.get(part, {}).get("weight") == 0}
    if rule not in (None, keyword_rule(architecture, "attribution")):
        switches |= {rule if rule == "psi" else f"by {rule}"}
    if architecture == "latent_bow" and settings.get("latent_bow", {}).get("gumbel"):
        switches = {"gumbel"}
    switches |= {given} - {keywords_of(settings, {})} if given else set()
    return Row(architecture, unusual(settings, decode) | switches)


def keywords_of(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> str | None:
    """Return the source of a run's keywords, a value of ``generate_pgkpr.keywords``; None for a model without any."""
    rule = _rule(settings)
    return None if rule is None else str(decode.get("keywords") or USED[rule])


def _rule(settings: Mapping[str, Any]) -> str | None:
    return keyword_rule(settings.get("architecture", "pgkpr"), settings.get("keywords", {}).get("by", "attribution"))


def _statistics(scores: pd.DataFrame, predicted: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, Statistic]:
    counts = count_matches(_words(scores["released_output"]),
                           [_words(texts) for texts in scores["released_references"]])
    released = {f"released_bleu_{order}": corpus_bleu_statistic(counts, order, RELEASED_WEIGHTS)
                for order in range(1, ORDERS + 1)}
    return item_statistics(scores) | released | corpus_statistics(
        _words(scores["output"]), [_words(texts) for texts in predicted["references"]], _words(predicted["source"]),
        range(1, ORDERS + 1))


def _words(texts: Iterable[str]) -> list[list[str]]:
    return [as_words(text) for text in texts]


PGKPR = TrackResults(
    **vars(registry.PGKPR),
    method="paraphrasing with reconstruction of keywords and parts of speech, its ablations and baselines",
    names=_NAMES, row=row, full=Row("pgkpr"), layouts=_TABLES,
    reported=(*_PRINTED_TABLES["2a"].metrics, "source_bleu", "ibleu", "keywords_kept"), questions=_QUESTIONS,
    published=tuple(_PRINTED_TABLES.values()), printed_as=lambda own: [_ROWS[own]] if own in _ROWS else [],
    data="Quora and MSCOCO", baselines=BASELINES,
    compared=Compared("source", "references", "prediction", "output", _statistics),
    headline="PGKPR, released norm. B: corpus BLEU; R: py-rouge; src-B: against the source",
    differs="Data, sizes of the models, time of training and tokens",
    remark="They are divided by 100.",
    judged_by=("validation_generation", "validation generation loss"), many_keywords=True, curve_names="pgkpr")
