"""Choose the keywords of a piece of texts: best candidate, else best content word, else none."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.ranking.blocks import Spans, TokenBlock
from keycontrast.ranking.selection import InverseFrequency, choose, content_words, normal_forms, phrase_candidates
from stages.common.lookup import Following
from stages.common.methods import KEYWORDS, METHODS, Holds
from stages.common.schemas import NO_KEYWORD
from stages.common.text_tables import METHOD_TABLES

STALE = "the tables are of different runs. Run `keycontrast run`."
# Columns that choosing reads of table ``tokens``, and of a method's table by what it holds.
TOKEN_COLUMNS = ["text_id", "token", "lemma", "is_stop"]
_COLUMNS: dict[Holds, list[str]] = {
    "phrases": ["text_id", "keyword", "score", "token_start", "token_end"],
    "scores": ["text_id", "mode", "score"],
    "primary words": ["text_id", "mode", "score", "primary"],
}


def ranking_columns(method: str) -> list[str]:
    """Return the columns that choosing reads of the table of ``method``."""
    return _COLUMNS[METHODS[method].holds]


def choose_keywords(tokens: pa.Table, ranking: pa.Table, method: str, idf: InverseFrequency,
                    lemmatize: bool = False) -> pa.Table:
    """Return table ``keywords`` of the texts in ``tokens``, given the rows of table ``method`` for these texts.

    Candidates are the phrases of the method, or the content words of the texts that it scores, under ``psi`` the
    primary ones. The highest score wins; ties go to the higher IDF over training texts, then to the earliest position.
    Phrases without a positive score are no candidates, nor are words of a text in which no word has one. If no
    candidate is left, the content word (alphabetic, no stop word) with the highest IDF is taken, else ``<nokw>``.
    ``lemmatize`` replaces the last word of a keyword, its head, by its lemma.
    """
    block = TokenBlock(tokens)
    candidates = _phrases if METHODS[method].holds == "phrases" else _words
    chosen = choose(block, *candidates(block, ranking, method), method, idf, lemmatize)
    columns = {**{name: chosen[name] for name in chosen.column_names},
               "keyword": pc.fill_null(chosen["keyword"], NO_KEYWORD)}
    return pa.table(columns, schema=KEYWORDS.arrow())


def with_ranking(tokens: Iterable[pa.Table], ranking: Iterable[pa.Table],
                 name: str) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield each piece of ``tokens`` with the rows of ``ranking`` for its texts; both come by text id."""
    rows = Following(ranking, METHOD_TABLES[name].arrow().empty_table().select(ranking_columns(name)))
    for piece in tokens:
        yield piece, rows.up_to(piece["text_id"][-1].as_py() if piece.num_rows else -1)
    rest = rows.rest()
    if len(rest):
        raise InputError(_not_in_both(name, rest))


# Spans that may become the keyword of a text, their scores and their normal forms.
Candidates = tuple[Spans, np.ndarray, pa.Array]


def _phrases(block: TokenBlock, ranking: pa.Table, name: str) -> Candidates:
    """Return the ranked phrases; a text with a status alone has none."""
    named = np.unique(ranking["text_id"].to_numpy())
    strange = np.setxor1d(named, block.text_ids)
    if len(strange):
        raise InputError(_not_in_both(name, strange))
    spans, score, keyword = phrase_candidates(block, ranking)
    late = np.flatnonzero(spans.end > block.offsets[spans.text + 1])
    if len(late):
        first = spans.text[late[0]]
        raise InputError(f"table {name}: a phrase of text {block.text_ids[first]} ends after its "
                         f"{np.diff(block.offsets)[first]} tokens; {STALE}")
    return spans, score, keyword


def _words(block: TokenBlock, ranking: pa.Table, name: str) -> Candidates:
    """Return the content words of scored texts, under PSI the primary ones."""
    rows, text = scored_alone(block, ranking, name)
    scored = np.zeros(len(block.text_ids), dtype=bool)
    scored[text] = True
    score = np.zeros(len(block.text))
    score[scored[block.text]] = pc.list_flatten(rows["score"]).to_numpy()
    if "primary" in rows.column_names:
        eligible = np.zeros(len(score), dtype=bool)
        eligible[scored[block.text]] = pc.list_flatten(rows["primary"]).to_numpy().astype(bool)
        eligible &= score > 0
    else:  # the weakest word of a scored text may have a score of 0
        best = np.zeros(len(block.text_ids))
        np.maximum.at(best, block.text, score)
        eligible = best[block.text] > 0
    words = content_words(block)
    words = words.take(eligible[words.start] & scored[words.text])
    return words, score[words.start], normal_forms(block, words)


def scored_alone(block: TokenBlock, ranking: pa.Table, name: str) -> tuple[pa.Table, np.ndarray]:
    """Return the rows of mode xx, by text id, and the place of each one's text in ``block``."""
    rows = ranking.filter(pc.equal(ranking["mode"], "xx")).sort_by("text_id")
    ids = rows["text_id"].to_numpy()
    lengths = np.zeros(len(ids), dtype=np.int64)
    known = np.isin(ids, block.text_ids)
    text = np.searchsorted(block.text_ids, ids[known])
    lengths[known] = np.diff(block.offsets)[text]
    given = pc.list_value_length(rows["score"]).to_numpy()
    wrong = np.flatnonzero(~known | (given != lengths))
    if len(wrong):
        raise InputError(f"table {name}: text {ids[wrong[0]]} has {given[wrong[0]]} scores for "
                         f"{lengths[wrong[0]]} tokens; {STALE}")
    return rows, text


def _not_in_both(name: str, ids: np.ndarray) -> str:
    return f"table {name}: {len(ids)} texts, the first of them {ids[0]}, are not in both tables; {STALE}"
