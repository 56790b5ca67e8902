"""``keycontrast predict``: rewrite or classify new texts, whose keywords are found as the stages find them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keycontrast.cells import printable
from keycontrast.errors import InputError
from stages.common.device import computing
from stages.common.paths import DatasetPaths, RunPaths
from stages.common.schemas import WORD_VECTORS
from stages.common.seeds import seed_everything
from stages.common.settings import Params, Values
from stages.common.tables import read_table
from stages.run.log import logger
from stages.tracks.common.track import Asked, Marker, Track
from stages.tracks.registry import seed_of, track_of_run

if TYPE_CHECKING:
    from keycontrast.ranking.selection import InverseFrequency

_LOG = logger("predict")
# Metrics in which a run should be better than copying the source, and their names.
_AHEAD = {"corpus_bleu_4": "corpus BLEU-4", "ibleu": "iBLEU"}
_FEW_DISTINCT = 0.5     # share of distinct outputs; with less, a model writes the same for many texts
_REMARKS = {"cut_words": "cut off, since the text is too long", "unknown_words": "not in the model's vocabulary"}
_FIRST = 3      # texts with a warning of their own


def predict(params: Params, run: str, texts: Iterable[str], keyword: str | None = None, samples: int | None = None,
            batch_size: int | None = None, seed: int | None = None, n: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield a dictionary per text: source, keyword and prediction(s), or of a classifier label and probabilities.

    The model is loaded once. A warning names a rewriting run that is poor on its own items, and texts that its model
    cannot read whole. None stands for the run's setting, or the first seed of its model.
    """
    track = track_of_run(params, run)
    for name, value in (("keyword", keyword), ("samples", samples), ("n", n)):
        if name in track.unread and value is not None:
            raise InputError(f"--{name}: run {run} is of the {track.title} track, whose models {track.unread[name]}; "
                             f"leave it out.")
    seed = seed_of(run, params.run_seeds(run), seed)
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    with computing(params.runtime) as device:
        loaded = track.predictor(Asked(params, run, seed, keyword, samples, n), StageFinding(params), device)
    if not track.classifies and (poor := standing(track, run, seed)) is not None:
        _LOG.warning("%s", poor)
    source, warned = iter(texts), 0
    while batch := list(islice(source, batch_size or loaded.batch_size)):
        with computing(params.runtime):  # left before each yield, for what the caller computes in between
            lines = loaded.lines(batch)
        for line in lines:
            if warnings := [f"{text}: {printable(' '.join(line[name]))}" for name, text in _REMARKS.items()
                            if line.get(name)]:
                warned += 1
                if warned <= _FIRST:
                    _LOG.warning("%r: %s", line["source"], "; ".join(warnings))
            yield line
    if warned > _FIRST:
        _LOG.warning("%d texts are cut or have unknown words; see cut_words and unknown_words of each line", warned)


def standing(track: Track, run: str, seed: int) -> str | None:
    """Return a warning if a rewriting run is not evaluated, scores below copying the source, or repeats itself."""
    paths = RunPaths(run, seed)
    if not (paths.metrics.exists() and paths.predictions.exists()):
        return f"run {run} is not evaluated; `keycontrast run {track.evaluated_by}@{run}` evaluates it."
    metrics = json.loads(paths.metrics.read_text(encoding="utf-8"))
    own, copy = metrics["run"], metrics.get("baselines", {}).get("copy", {})
    problems = [f"{title} {100 * own[name]:.1f}, copying the source {100 * copy[name]:.1f}"
                for name, title in _AHEAD.items() if name in own and name in copy and own[name] < copy[name]]
    outputs = read_table(paths.predictions, track.schemas["predictions"], ["sample", "prediction"]).to_pandas()
    outputs = outputs.loc[outputs["sample"] == 0, "prediction"]
    distinct = outputs.nunique() / max(1, len(outputs))
    problems += [f"{100 * distinct:.0f} % of its outputs are distinct"] if distinct < _FEW_DISTINCT else []
    return f"run {run} is poor on its {len(outputs)} evaluated items: {'; '.join(problems)}." if problems else None


class StageFinding:
    """Computes for new texts what the stages compute; see :class:`stages.tracks.common.track.Finding`."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def annotated(self, dataset: str) -> Callable[[pa.Table], pa.Table]:
        """Return a function from texts to tokens, as in stage annotate."""
        from keycontrast.text.annotate import annotator

        settings = self.params.annotate
        return annotator(settings.pipeline, self.params.datasets[dataset].language, settings.clean)

    def keywords(self, dataset: str, device: str) -> Callable[[Sequence[str]], list[tuple[str, str]]]:
        """Return a function from texts to keywords and their methods, as in stage keywords; IDF of training texts
        breaks ties.
        """
        from stages.keywords.choice import choose_keywords

        params, method, paths = self.params, self.params.keywords.method, DatasetPaths(dataset)
        annotated, idf = self.annotated(dataset), training_idf(paths)
        try:
            rank = ranking_of(params, paths, idf, device)
        except InputError as error:
            raise InputError(f"{error} New texts get their keywords by {method}, as those of {dataset} did. Or give a "
                             f"keyword with --keyword.") from error

        def keywords_of(texts: Sequence[str]) -> list[tuple[str, str]]:
            given = pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)})
            tokens = annotated(given)
            ranking = rank(given, tokens)
            chosen = choose_keywords(tokens, ranking, method, idf, params.keywords.lemmatize).sort_by("text_id")
            return list(zip(chosen["keyword"].to_pylist(), chosen["method"].to_pylist(), strict=True))

        return keywords_of

    def written(self, dataset: str) -> Mapping[str, str]:
        """Return the words that training texts of ``dataset`` write with capitals; nothing if they are missing."""
        from stages.common.examples import read_examples, training_text_ids
        from stages.common.tables import read_batches
        from stages.common.text_tables import TOKENS
        from stages.tracks.common.readable import written_forms

        paths = DatasetPaths(dataset)
        tokens, examples = paths.table("tokens"), paths.table("examples")
        if not (tokens.exists() and examples.exists()):
            _LOG.warning("%s: not found, so capitals are taken from each text alone", tokens)
            return {}
        return written_forms(read_batches(tokens, TOKENS, ["text_id", "token", "sentence_start"]),
                             training_text_ids(read_examples(examples)))

    def marks(self, dataset: str, which: str, device: str) -> Marker:
        """Return a function that scores or marks words by attribution (``xx``), PSI (``psi_xx``), TextRank or the
        S-Tagger; for ``random`` words attribution decides how many.
        """
        paths = DatasetPaths(dataset)
        if which == "s_tagger":
            return _tags(self.params, paths, device)
        if which == "textrank":
            return self._phrase_words(paths, device)
        method, column = ("attribution", "score") if which in ("xx", "random") else ("psi", "primary")
        ranked = _SCORED_BY[method](self.params, paths, device)
        return lambda texts, tokens: ranked(texts, tokens)[column]

    def _phrase_words(self, paths: DatasetPaths, device: str) -> Marker:
        from stages.keywords.ranking_stage import ranker_of
        from stages.tracks.pgkpr.items import phrase_words, read_words

        params, read = self.params, self.params.paraphrase_items.max_length
        language = params.datasets[paths.name].language
        rank = ranker_of("textrank", params.textrank, language, training_idf(paths))
        scored = _attribution(params, paths, device)

        def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
            words, scores = read_words(tokens), scored(texts, tokens).sort_by("text_id")
            lists = words.aligned("table attribution", scores["text_id"].to_numpy(), scores["score"]).to_pylist()
            expected = np.array([sum(row[:read]) for row in lists])
            return pa.chunked_array([phrase_words(rank(tokens).table, words, expected, read)])

        return marks


def training_idf(paths: DatasetPaths) -> "InverseFrequency":
    """Return the IDF over the texts of training examples."""
    from stages.keywords.ranking_stage import training_frequency

    return training_frequency(paths.table("tokens"), paths.table("examples"))


# Given texts and their tokens, returns the table of a keyword method for them.
Ranks = Callable[[pa.Table, pa.Table], pa.Table]


def ranking_of(params: Params, paths: DatasetPaths, idf: "InverseFrequency", device: str) -> Ranks:
    """Return the ranking of new texts by the keyword method of the params; ``idf`` breaks ties."""
    from stages.common.methods import METHODS
    from stages.keywords.ranking_stage import ranker_of

    method = METHODS[params.keywords.method]
    if not method.ranks_phrases:
        return _SCORED_BY[method.name](params, paths, device)
    rank = ranker_of(method.name, getattr(params, method.name), params.datasets[paths.name].language, idf)
    return lambda texts, tokens: rank(tokens).table


def _attribution(params: Params, paths: DatasetPaths, device: str) -> Ranks:
    from stages.attribution.attribution import load_scorer, run
    from stages.common.lookup import Lookup

    values = params.attribution.plain()

    def ranks(texts: pa.Table, tokens: pa.Table) -> pa.Table:
        # A forward pass is filled up with repeated rows.
        scorer.size = min(size, texts.num_rows)
        return pa.concat_tables(list(run(_alone(texts), Lookup.of_table("texts", texts),
                                         Lookup.of_table("tokens", tokens), scorer, ["xx"])))

    scorer = load_scorer(values, paths.pair_classifier, device)
    size = scorer.size
    return ranks


def _importance(params: Params, paths: DatasetPaths, device: str) -> Ranks:
    from stages.psi.psi import run
    from stages.psi.texts import VectorTable

    vectors = VectorTable.from_arrow(read_table(paths.table("word_vectors"), WORD_VECTORS))
    settings: Any = Values({**dict(params.psi), "modes": ["xx"]})
    return lambda texts, tokens: pa.concat_tables(list(run(lambda: [tokens], _alone(texts), vectors, settings)))


_SCORED_BY: dict[str, Callable[[Params, DatasetPaths, str], Ranks]] = {
    "attribution": _attribution, "psi": _importance}


def _tags(params: Params, paths: DatasetPaths, device: str) -> Marker:
    from torch import nn

    from stages.psi.s_tagger import load_tagger, tag, word_ids

    tagger, words = load_tagger(paths.s_tagger)
    nn.Module.to(tagger, device)

    def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
        rows = [word_ids([token.lower() for token in row], words) for row in tokens["token"].to_pylist()]
        size = min(params.s_tagger.batch_size, len(rows))
        return pa.chunked_array([[probability > 0.5 for probability in tag(tagger, rows, size)]], pa.list_(pa.bool_()))

    return marks


def _alone(texts: pa.Table) -> pa.Table:
    """Return examples whose source is each text, beside itself."""
    ids = texts["text_id"].to_pylist()
    return pa.table({"source_id": ids, "reference_ids": [[number] for number in ids]})
