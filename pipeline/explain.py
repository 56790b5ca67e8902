"""Why a text has its keyword: tokens, candidate graph, scores, phrases and the choice, printed and drawn."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from keycontrast.candidates import listed_words, with_candidates
from keycontrast.cells import printable
from keycontrast.choice import Choice
from keycontrast.errors import InputError
from keycontrast.explain import Explanation, explain, print_explanation
from keycontrast.picture import shortened, width_of, xml_text
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.annotators import load_annotator
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import token_table
from pipeline.datasets import dataset_with, datasets_with
from pipeline.neighbourhood import DRAWINGS, slug, write_drawing
from pipeline.predict import ranking_of, training_idf
from pipeline.schemas import SCHEMAS
from stages.common.device import computing
from stages.common.methods import FOR_ANY_TEXT, METHODS, NAMING, KeywordMethod
from stages.common.paths import PARAMS, DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.settings import read_params
from stages.common.tables import check_columns, read_table, row_count
from stages.keywords.choice import choose_keywords
from stages.keywords.params import TextRank
from stages.params import Params, load_params, parse_params
from stages.params.problems import problem_lines

_TOP = 5
_ROW = 28     # pixels from one word of the drawing to the next


@dataclass(frozen=True)
class Subject:
    """The text to explain, with its row of table ``tokens``."""

    text: str
    tokens: pa.Table
    language: str   # ISO 639-1
    dataset: DatasetPaths | None    # whose artifacts are used
    text_id: int | None     # None for a new text
    origin: list[str]   # sentences that say where tokens and IDF come from

    @property
    def name(self) -> str:
        """How the text is called in headings."""
        if self.text_id is not None and self.dataset is not None:
            return f"Text {self.text_id} of {self.dataset.name}"
        return "New text"

    @property
    def file(self) -> str:
        """Name of the drawing."""
        if self.text_id is not None and self.dataset is not None:
            return f"{self.dataset.name}-text-{self.text_id}.svg"
        return f"text-{slug(' '.join(self.text.split()[:6]))}.svg"


def show(argument: str, dataset: str | None, method: str | None, as_text: bool, svg: Path | None,
         console: Console, threshold: float | None = None, stop_words: Sequence[str] = ()) -> None:
    """Print and draw why a text has its keyword; arguments as of the command.

    Raises:
        InputError: params or artifacts are missing or wrong, or there is no such text.
    """
    # Outside a project a text is read with the defaults; what a file there says, though it be wrong, is never left out.
    inside = PARAMS.exists()
    params = load_params() if inside else parse_params({"recipe": "defaults", "datasets": {}}, "defaults")
    if dataset in params.datasets and dataset not in params.keywords.datasets:
        raise InputError(f"--dataset {dataset}: keywords.datasets does not name it, so its texts have none to explain. "
                         f"Name it there, or leave out --dataset.")
    is_id = not as_text and re.fullmatch(r"[0-9]{1,18}", argument) is not None
    subject = stored_text(int(argument), dataset) if is_id else new_text(argument, dataset, params)
    if not inside:
        subject.origin.append(f"No {PARAMS} here: the pipeline and the settings are the defaults.")
    named_by = METHODS[params.keywords.method]
    by, settings = ranking_settings(params, method, named_by)
    idf = training_idf(subject.dataset) if subject.dataset is not None else None
    stops = frozenset(map(normal_form, listed_words("stop_words", stop_words)))
    ranking: Any = by.module.ranking(settings, subject.language)
    tokens = subject.tokens
    if stops:
        tokens = with_candidates(tokens, subject.language, stops, None)
        ranking = replace(ranking, chunks="annotated") if hasattr(ranking, "chunks") else ranking
    found = explain(tokens, ranking, settings.phrases, method=by.name, idf=idf, kw_lemma=params.keywords.kw_lemma,
                    choice=Choice(threshold=threshold, stop_words=stops))
    console.print(Text(printable(subject.name), style="bold"))
    console.print(Text(printable(subject.text)))
    for sentence in subject.origin:
        console.print(Text(sentence, style="dim"))
    print_explanation(found, console)
    if subject.text_id is not None:
        _print_stored(subject, found, named_by, by, method, console)
    elif method is None and idf is not None and named_by.needs_pairs:
        _print_scored(subject, named_by, idf, console)
    if not found.nodes:
        console.print(Text("No drawing: without candidates there is no graph."))
        return
    path = svg or DRAWINGS / subject.file
    write_drawing(path, drawing_of(subject, found))
    console.print(Text(f"Drawing: {path}"), soft_wrap=True)


def ranking_settings(params: Params, method: str | None, named_by: KeywordMethod) -> tuple[KeywordMethod, Any]:
    """Return the keyword method that ranks, and its block of the params.

    Without ``method`` it is ``named_by``, or TextRank where that one ranks no phrases.
    """
    chosen = named_by.name if method is None else method
    if chosen in FOR_ANY_TEXT:
        return METHODS[chosen], getattr(params, chosen)
    changes = {} if method is None else {"method": method}
    try:
        return METHODS["textrank"], TextRank.model_validate({**params.textrank.model_dump(), **changes})
    except ValidationError as error:
        raise InputError("--method: " + "; ".join(problem_lines(error, "textrank", TextRank))) from error


def stored_text(text_id: int, dataset: str | None) -> Subject:
    """Return the text of an id, with its tokens as table ``tokens`` holds them.

    Raises:
        InputError: artifacts are missing, or no text has that id.
    """
    paths = dataset_with("tokens", dataset)
    texts, tokens = _row(paths, "texts", text_id), _row(paths, "tokens", text_id)
    if not texts.num_rows or not tokens.num_rows:
        rows = row_count(paths.table("tokens"))
        raise InputError(f"{paths.table('tokens')}: no text has id {text_id}; it has {rows:,} texts, numbered from 0. "
                         f"For a number that is a text, add --text.")
    return Subject(texts["text"][0].as_py(), tokens, texts["language"][0].as_py(), paths, text_id,
                   [f"Tokens of {paths.table('tokens')}; IDF over the training texts of {paths.name}."])


def new_text(text: str, dataset: str | None, params: Params) -> Subject:
    """Return a text that is in no artifact, annotated by the pipeline of the params.

    Raises:
        InputError: the pipeline cannot be used, the data set does not exist, or one has to be chosen.
    """
    known = dataset is None and not datasets_with("tokens")
    paths = None if known else dataset_with("tokens", dataset)
    languages = {dataset.language for dataset in params.datasets.values()}
    language = languages.pop() if len(languages) == 1 else "en"
    if paths is not None and paths.name in params.datasets:
        language = params.datasets[paths.name].language
    annotator = load_annotator(params.annotate.pipeline, language)
    about = annotator.describe()
    origin = [f"Tokens by {about['name']} {about['version']}; "
              + (f"IDF over the training texts of {paths.name}." if paths is not None else
                 "no data set has tokens, so no IDF: ties of scores fall to the earliest position.")]
    tokens = token_table(annotator.columns([0], [text], params.annotate.clean))
    return Subject(text, tokens, language, paths, None, origin)


def _row(paths: DatasetPaths, kind: str, text_id: int) -> pa.Table:
    check_columns(paths.table(kind), SCHEMAS[kind])
    return read_table(paths.table(kind), filters=pc.field("text_id") == text_id)


def _print_scored(subject: Subject, named_by: KeywordMethod, idf: InverseFrequency, console: Console) -> None:
    """Print the keyword of a new text by a method that scores its words, with the best of these."""
    assert subject.dataset is not None
    params = read_params()
    with computing(params.runtime) as device:
        texts = pa.table({"text_id": subject.tokens["text_id"], "text": [subject.text]})
        rows = ranking_of(params, subject.dataset, idf, device)(texts, subject.tokens)
    chosen = choose_keywords(subject.tokens, rows, named_by.name, idf, params.keywords.kw_lemma).table.to_pylist()[0]
    console.print(Text(f"\nKeywords of {subject.dataset.name} are by {named_by.title}, not by the ranking above: "
                       f"{_chosen(chosen)}. {_best_words(rows.to_pylist())}"), soft_wrap=True)


def _chosen(row: Mapping[str, Any]) -> str:
    """Return a row of table ``keywords`` in words."""
    score = "" if row["score"] is None else f", score {row['score']:.6g}"
    return f"{printable(row['keyword'])} (by {row['method']}{score})"


def _print_stored(subject: Subject, found: Explanation, named_by: KeywordMethod, by: KeywordMethod,
                  method: str | None, console: Console) -> None:
    """Print what table ``keywords`` holds of the text, and why that may be another keyword."""
    assert subject.dataset is not None and subject.text_id is not None
    path = subject.dataset.table("keywords")
    if not path.exists():
        console.print(Text(f"\n{path}: not made yet; `keycontrast stage keywords@{subject.dataset.name}` makes it."))
        return
    row = _row(subject.dataset, "keywords", subject.text_id)
    if not row.num_rows:
        raise InputError(f"{path}: no row of text {subject.text_id}; the tables are of different runs. Run "
                         f"`keycontrast run`.")
    stored = row.to_pylist()[0]
    console.print(Text(f"\n{path}: {_chosen(stored)}"), soft_wrap=True)
    kind = stored["method"]
    if kind in NAMING and kind != by.name:
        scores = f" {_scores(subject, kind)}" if METHODS[kind].needs_pairs else ""
        said = f"That keyword comes from {kind}, not from {by.title}: the ranking above did not choose it.{scores}"
    elif kind == "idf":
        missing = "no phrase was ranked" if named_by.ranks_phrases else f"{named_by.name} says nothing of this text"
        said = f"That is a fall-back: {missing}, so the word of highest IDF was taken."
    elif kind == "none":
        said = f"That is a fall-back: the text has no word to choose, and {NO_KEYWORD} forms no cluster."
    elif stored["keyword"] == found.keyword:
        return
    elif method is not None:
        said = "It differs from the choice above, which was ranked by another method (--method)."
    else:
        said = ("It differs from the choice above: the table was made with other params or tokens. Run `keycontrast "
                "run`.")
    console.print(Text(said))


def _scores(subject: Subject, kind: str) -> str:
    """Return a sentence with the best words of a text in the table of method ``kind``, paired with itself."""
    assert subject.dataset is not None and subject.text_id is not None
    path = subject.dataset.table(kind)
    if not path.exists():
        return f"{path} is not there any more."
    rows = [row for row in _row(subject.dataset, kind, subject.text_id).to_pylist() if row["mode"] == "xx"]
    return _best_words(rows) if rows else f"{path} has no scores of this text."


def _best_words(rows: Sequence[Mapping[str, Any]]) -> str:
    ranked = sorted(zip(rows[0]["score"], rows[0]["word"], strict=True), key=lambda item: -item[0])[:_TOP]
    return "Its best words: " + ", ".join(f"{printable(word)} {score:.3f}" for score, word in ranked) + "."


def drawing_of(subject: Subject, found: Explanation) -> str:
    """Return the candidate graph as SVG: words from top to bottom with their scores, co-occurrence as arcs."""
    span = _chosen_tokens(found)
    title = f"{subject.name}: “{found.keyword}” by {found.method}"
    head = [title, *textwrap.wrap(" ".join(subject.text.split()), 76, max_lines=3, placeholder=" …")]
    labels = [shortened(node.word) for node in found.nodes]
    top, left = 24 * len(head) + 20, max(map(width_of, labels), default=0.0) + 90
    highest = max([node.score for node in found.nodes], default=0.0)
    heights = [top + _ROW * (place + 0.5) for place in range(len(found.nodes))]
    lines, wide = list[str](), max(left + 120, *(width_of(line) + 20 for line in head))
    for edge in found.edges:
        first, second = heights[edge.first], heights[edge.second]
        reach = 35 * sqrt(abs(edge.second - edge.first))
        wide = max(wide, left + reach + 40)
        lines.append(f'<path d="M{left:.1f} {first:.1f}Q{left + 2 * reach:.1f} {(first + second) / 2:.1f} {left:.1f} '
                     f'{second:.1f}" stroke-width="{min(1 + edge.weight, 7):.1f}"><title>'
                     f'{xml_text(found.nodes[edge.first].word)} and {xml_text(found.nodes[edge.second].word)}: '
                     f'{edge.weight:g}</title></path>')
    words = []
    for node, label, y in zip(found.nodes, labels, heights, strict=True):
        radius = 3 + 9 * sqrt(max(node.score, 0.0) / highest) if highest > 0 else 3.0
        chosen = bool(span & set(node.tokens))
        if chosen:
            words.append(f'<circle class="chosen" cx="{left:.1f}" cy="{y:.1f}" r="{radius + 3:.1f}" fill="#fdfdfc" '
                         f'stroke="#b4531f"/>')
        words.append(f'<circle cx="{left:.1f}" cy="{y:.1f}" r="{radius:.1f}" stroke="#1f6f94" '
                     f'fill="{"#1f6f94" if node.kept else "#fdfdfc"}"/>'
                     f'<text x="{left - 20:.1f}" y="{y + 4:.1f}" text-anchor="end" '
                     f'font-weight="{"bold" if chosen else "normal"}">{xml_text(label)}</text>'
                     f'<text x="10" y="{y + 4:.1f}" font-size="11">{node.score:.4g}</text>')
    texts = [f'<text x="10" y="{24 * place}" font-weight="{"normal" if place > 1 else "bold"}">{xml_text(line)}</text>'
             for place, line in enumerate(head, 1)]
    note = "Area and number: score. Filled: kept for phrases. Ring: keyword. Arcs: words that stand near each other."
    high = top + _ROW * len(found.nodes) + 40
    wide = ceil(max(wide, width_of(note) + 20))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="#1b1f24">',
        '<rect width="100%" height="100%" fill="#fdfdfc"/>', '<g stroke="#dfe3e8" fill="none">', *lines, "</g>",
        *words, *texts, f'<text x="10" y="{high - 14}" font-size="11">{note}</text>', "</svg>"])


def _chosen_tokens(found: Explanation) -> set[int]:
    """Return the places of the tokens behind the choice; none for a fall-back.

    The choice is looked up by its score too, because with ``keywords.kw_lemma`` it is not written as the phrase is.
    """
    if found.keyword_method not in FOR_ANY_TEXT or found.keyword_score is None:
        return set()
    tied = [phrase for phrase in found.phrases if abs(phrase.score - found.keyword_score) < 1e-9]
    named = [phrase for phrase in tied if phrase.keyword == found.keyword]
    return {place for phrase in (named or tied)[:1] for place in range(phrase.token_start, phrase.token_end)}
