"""Why a text has its keyword: tokens, candidate graph, scores, phrases and the choice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from keycontrast.cells import printable
from keycontrast.choice import Choice
from keycontrast.errors import InputError, nearest
from keycontrast.explain import Explanation, explain, print_explanation
from keycontrast.ranking.chunks import listed_words, with_candidates
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.reading import is_unicode
from keycontrast.text.annotate import load_annotator
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import token_table
from pipeline.datasets import dataset_with, datasets_with
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

_TOP = 5


@dataclass(frozen=True)
class Subject:
    """The text to explain, with its row of table ``tokens``."""

    text: str
    tokens: pa.Table
    language: str   # ISO 639-1
    dataset: DatasetPaths | None    # whose artifacts are used
    text_id: int | None     # None for a new text
    origin: list[str]   # sentences that say where tokens and IDF come from


def show(argument: str, dataset: str | None, method: str | None, as_text: bool, console: Console,
         threshold: float | None = None, stop_words: Sequence[str] = ()) -> None:
    """Print why a text has its keyword; arguments as of the command."""
    # Outside a project a text is read with the defaults; an existing params.yaml is always read.
    inside = PARAMS.exists()
    params = load_params() if inside else parse_params({"recipe": "defaults", "datasets": {}}, "defaults")
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
    explanation = explain(tokens, ranking, settings.phrases, method=by.name, idf=idf,
                          lemmatize=params.keywords.lemmatize, choice=Choice(threshold=threshold, stop_words=stops))
    stored = subject.text_id is not None and subject.dataset is not None
    name = f"Text {subject.text_id} of {subject.dataset.name}" if stored else "New text"  # type: ignore[union-attr]
    console.print(Text(printable(name), style="bold"))
    console.print(Text(printable(subject.text)))
    for sentence in subject.origin:
        console.print(Text(sentence, style="dim"))
    print_explanation(explanation, console)
    if stored:
        _print_stored(subject, explanation, by, console, changed=bool(method or threshold is not None or stop_words))
    elif method is None and idf is not None and named_by.needs_pairs:
        _print_scored(subject, named_by, idf, console)


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
        named = (*FOR_ANY_TEXT, *get_args(TextRank.model_fields["method"].annotation))
        raise InputError(f"--method: no ranking is called {method!r}; {nearest(str(method), named)}") from error


def stored_text(text_id: int, dataset: str | None) -> Subject:
    """Return the text of an id, with its tokens as table ``tokens`` holds them."""
    paths = dataset_with("tokens", dataset)
    texts, tokens = _row(paths, "texts", text_id), _row(paths, "tokens", text_id)
    if not texts.num_rows or not tokens.num_rows:
        rows = row_count(paths.table("tokens"))
        raise InputError(f"{paths.table('tokens')}: no text has id {text_id}; it has {rows:,} texts, numbered from 0. "
                         f"For a number that is a text, add --text.")
    return Subject(texts["text"][0].as_py(), tokens, texts["language"][0].as_py(), paths, text_id,
                   [f"Tokens of {paths.table('tokens')}; IDF over the training texts of {paths.name}."])


def new_text(text: str, dataset: str | None, params: Params) -> Subject:
    """Return a text that is in no artifact, annotated by the pipeline of the params."""
    if not is_unicode(text):
        raise InputError(f"{text}: not valid in the encoding of this terminal.")
    without_idf = dataset is None and not datasets_with("tokens")
    paths = None if without_idf else dataset_with("tokens", dataset)
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
    chosen = choose_keywords(subject.tokens, rows, named_by.name, idf, params.keywords.lemmatize).to_pylist()[0]
    console.print(Text(f"\nKeywords of {subject.dataset.name} are by {named_by.title}, not by the ranking above: "
                       f"{_chosen(chosen)}. {_best_words(rows.to_pylist())}"), soft_wrap=True)


def _chosen(row: Mapping[str, Any]) -> str:
    """Return a row of table ``keywords`` in words."""
    score = "" if row["score"] is None else f", score {row['score']:.6g}"
    return f"{printable(row['keyword'])} (by {row['method']}{score})"


def _print_stored(subject: Subject, explanation: Explanation, by: KeywordMethod, console: Console,
                  changed: bool) -> None:
    """Print what table ``keywords`` holds of the text, and why that may be another keyword."""
    assert subject.dataset is not None and subject.text_id is not None
    path = subject.dataset.table("keywords")
    if not path.exists():
        console.print(Text(f"\n{path}: not made yet; `keycontrast run keywords@{subject.dataset.name}` makes it."))
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
        note = f"That keyword comes from {kind}, not from {by.title}: the ranking above did not choose it.{scores}"
    elif kind == "idf":
        note = "That is a fall-back: the method chose none, so the word of highest IDF was taken."
    elif kind == "none":
        note = f"That is a fall-back: the text has no word to choose, and {NO_KEYWORD} forms no cluster."
    elif stored["keyword"] == explanation.keyword:
        return
    else:
        note = ("It differs from the choice above, which was made with options of this command." if changed else
                "It differs from the choice above: the table was made with other params or tokens. Run `keycontrast "
                "run`.")
    console.print(Text(note))


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

