"""The case study of PGKPR: what a model reads of a few sources, and what every run makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.common.special import SEP
from stages.results.model import Run
from stages.results.page.examples import Segment, segments
from stages.results.page.material import PairsMaterial
from stages.tracks.pgkpr.keywords import fixed_mask
from stages.tracks.pgkpr.vocabulary import SPECIALS, bracketed

WHERE_FROM = {"xx": "attribution, from the source alone", "xy": "attribution, from source and reference",
              "psi_xx": "PSI, from the source alone", "psi_xy": "PSI, from source and reference",
              "s_tagger": "the S-Tagger", "textrank": "the best phrases of TextRank",
              "random": "chance, as many as by attribution", "none": "nothing: no word is one",
              "all": "nothing: every word is one"}


@dataclass(frozen=True)
class Token:
    """A token of the input: a word or a tag, and whether the word at its place is a keyword."""

    text: str
    is_tag: bool
    keyword: bool


@dataclass(frozen=True)
class CaseOutput:
    """What one run made of a source: its text, cut at the run's own keywords, and these (None without any)."""

    run: str
    text: list[Segment]
    keywords: str | None


@dataclass(frozen=True)
class Case:
    """One source.

    Attributes:
        source: its words, keywords marked.
        cut: words beyond those that a model reads.
        parts: the two parts of the input TS_s: words at keywords and tags elsewhere, then the other way round.
        references: reference texts.
        outputs: of all runs.
    """

    example_id: int
    source: list[Segment]
    cut: str
    parts: list[list[Token]]
    references: list[str]
    outputs: list[CaseOutput]


@dataclass(frozen=True)
class CaseStudy:
    """A few sources, with the input of one run (empty where none reads keywords), by where its keywords come from."""

    run: str
    where_from: str
    cases: list[Case]

    @property
    def has_inputs(self) -> bool:
        """Whether the run reads TS_s."""
        return any(case.parts for case in self.cases)

    @property
    def separator(self) -> str:
        """What stands between both parts."""
        return SPECIALS[SEP]


def case_study(runs: Sequence[Run], pairs: Mapping[str, PairsMaterial], seed: int) -> CaseStudy | None:
    """Return the case study of runs on the same items; None if the pairs of none of them are there.

    The input that is shown is that of the first run whose model reads TS_s; where there is none, the source is shown
    with the keywords of the first run that has some.

    Args:
        runs: in the order of the params.
        pairs: by run.
        seed: of the coin flips, as the runs were decoded with.
    """
    known = [run for run in runs if run.name in pairs]
    if not known:
        return None
    keyed = [run for run in known if run.keywords]
    shown = next((run for run in keyed if _reads_two_parts(run.settings)), next(iter(keyed), None))
    own = (shown or known[0])
    rows = {run.name: {row.example_id: row for row in run.predictions.itertuples()} for run in runs}
    cases = [_case(row, pairs[own.name].max_length, shown, own.settings, seed,
                   [(run.name, rows[run.name][row["example_id"]]) for run in runs])
             for row in pairs[own.name].rows.to_dict("records")]
    if shown is None or shown.keywords is None:
        return CaseStudy("", "", cases)
    return CaseStudy(shown.name, WHERE_FROM[shown.keywords], cases)


def _reads_two_parts(settings: Mapping[str, Any]) -> bool:
    return bool(settings["architecture"] == "pgkpr")


def _case(row: Mapping[Any, Any], length: int, shown: Run | None, settings: Mapping[str, Any], seed: int,
          outputs: Sequence[tuple[str, Any]]) -> Case:
    words, tags = list(row["source_words"][:length]), list(row["source_tags"][:length])
    mask = [False] * len(words)
    if shown is not None:
        mask = _keywords(row, shown.keywords, seed, bool(settings.get("keywords", {}).get("mark_all")), length)
    parts = two_parts(words, tags, mask) if shown is not None and _reads_two_parts(settings) else []
    return Case(int(row["example_id"]), _joined(words, mask), " ".join(row["source_words"][length:]), parts,
                [str(text) for text in outputs[0][1].references], [_output(run, found) for run, found in outputs])


def _keywords(row: Mapping[Any, Any], which: Any, seed: int, mark_all: bool, length: int) -> list[bool]:
    return [bool(keyword) for keyword in fixed_mask(row, which, seed, mark_all, length)]


def two_parts(words: Sequence[str], tags: Sequence[str], mask: Sequence[bool]) -> list[list[Token]]:
    """Return both parts of TS_s (METHODS C.3): at each place one has the word and the other the tag."""
    def token(word: str, tag: str, keyword: bool, is_word: bool) -> Token:
        return Token(word if is_word else bracketed(tag), not is_word, keyword)

    places = list(zip(words, tags, mask, strict=True))
    return [[token(word, tag, keyword, keyword == first) for word, tag, keyword in places] for first in (True, False)]


def _joined(words: Sequence[str], mask: Sequence[bool]) -> list[Segment]:
    """Return words with a space between them, each a piece of its own."""
    return [Segment(text, marked) for place, (word, keyword) in enumerate(zip(words, mask, strict=True))
            for text, marked in ((" ", False), (word, keyword)) if place or text != " "]


def _output(run: str, row: Any) -> CaseOutput:
    keywords = row.keyword if isinstance(row.keyword, str) else None
    return CaseOutput(run, segments(row.prediction, keywords.split() if keywords else []), keywords)
