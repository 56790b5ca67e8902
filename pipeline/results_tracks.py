"""What differs from track to track in the results document: columns, what is compared, what rows do without."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stages.results.reporting.published import DROPS, HEADINGS, METRICS, PGKPR_METRICS

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """A metric: its key in metrics.json, heading, decimals, and what it is multiplied by."""

    key: str
    heading: str
    digits: int = 4
    scale: int = 1


@dataclass(frozen=True, eq=False)
class Track:
    """One method with its ablations and baselines.

    Attributes:
        key: as in the params.
        title: short name.
        main: columns of the main table; what was not measured is left out.
        ordinary: columns of the table of ordinary metrics.
        compared: metrics that say what a part is worth: one of each kind, others say the same in another guise.
        relative: the metric by which rows are set in relation to the full method.
        told: published rows whose relation to the published full method the paper speaks of; None for all.
        parts: what a row does without, in words, by the part that it removes.
    """

    key: str
    title: str
    main: tuple[Column, ...]
    ordinary: tuple[Column, ...]
    compared: tuple[str, ...]
    relative: Column
    told: Collection[str] | None
    parts: Mapping[str, str]

    def heading(self, key: str) -> Column:
        """Return the column of a compared metric, under a heading that needs no table around it."""
        column = next(one for one in (*self.main, *self.ordinary) if one.key == key)
        plain_bleu = column.heading.startswith("BLEU") and column not in self.main
        return Column(key, f"corpus {column.heading}" if plain_bleu else column.heading, column.digits, column.scale)


_CORPUS = tuple(Column(f"corpus_bleu_{order}", f"BLEU-{order}") for order in range(1, 5))
_SACREBLEU = Column("sacrebleu", "sacreBLEU", 2)
_ROUGE = tuple(Column(f"rouge_{kind.lower()}", f"ROUGE-{kind}") for kind in ("1", "2", "L"))
_BERTSCORE = Column("bertscore", "BERTScore")
_VARIETY = (Column("distinct_1", "distinct-1"), Column("distinct_2", "distinct-2"), Column("self_bleu", "self-BLEU"))
_REWRITING = (Column("source_bleu", "source BLEU"), Column("ibleu", "iBLEU"))
_LENGTH = Column("mean_length", "tokens", 1)

HCL = Track(
    "hcl", "HCL", tuple(Column(key, HEADINGS[key]) for key in METRICS),
    (*_CORPUS, _SACREBLEU, *_ROUGE, _BERTSCORE, *_VARIETY, *_REWRITING, Column("keyword_kept", "keyword kept"),
     Column("target_keyword_kept", "target's keyword"), Column("prior_keyword_kept", "prior's keyword"), _LENGTH),
    (*METRICS, "corpus_bleu_4", "sacrebleu", "rouge_1", "rouge_2", "rouge_l", "bertscore", "source_bleu", "ibleu",
     "keyword_kept", "target_keyword_kept"),
    Column("bleu_1", "BLEU-1"), tuple(drop.row for drop in DROPS),
    {"graph": "the graph", "keyword": "the keyword with both its contrasts", "instance": "the instance contrast",
     "keyword_contrast": "the keyword contrast", "mahalanobis": "the Mahalanobis contrast",
     "latent": "the latent variable with all that hangs on it"})
PGKPR = Track(
    "pgkpr", "PGKPR",
    (*(Column(key, HEADINGS[key], 2, 100) for key in PGKPR_METRICS),
     *(Column(column.key, column.heading, 2, 100) for column in _REWRITING),
     Column("keywords_kept", "keywords kept", 2, 100)),
    (*_CORPUS, _SACREBLEU, *(Column(f"py_{column.key}", f"{column.heading} (py-rouge)") for column in _ROUGE), *_ROUGE,
     _BERTSCORE, *_VARIETY, Column("given_keywords_kept", "given keywords kept"),
     Column("keyword_kept", "best keyword kept"), _LENGTH),
    (*PGKPR_METRICS, "source_bleu", "ibleu", "keywords_kept", "corpus_bleu_4", "sacrebleu", "bertscore"),
    Column("released_bleu_1", "BLEU-1"), None,
    {"contrast": "the contrast of pairs", "reconstruction": "the reconstruction of tags and keywords"})
CLLD = Track(
    "clld", "CLLD", (Column("accuracy", "accuracy", 2, 100), Column("macro_f1", "macro F1", 2, 100),
                     Column("weighted_f1", "weighted F1", 2, 100), Column("nll", "NLL"), Column("brier", "Brier"),
                     Column("ece", "ECE")),
    (), ("accuracy", "macro_f1", "weighted_f1", "nll", "brier", "ece"), Column("accuracy", "accuracy", 2, 100), None,
    {})
TRACKS = (HCL, PGKPR, CLLD)
