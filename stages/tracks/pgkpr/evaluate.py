"""Score the outputs of a run of the PGKPR track, and of the baselines on the same examples, against the references.

Writes scores.parquet, one row per system and example, and metrics.json: ``run`` and ``baselines``, ``intervals``
(bootstrap percentile intervals in the same shape), ``counts`` and ``settings``. Texts are compared word by word, as the
language pipeline cut them, under two norms (docs/pgkpr.md): metrics named ``released_*`` compare texts as PGKPR's code
does, cut and with [unk] for words outside the vocabulary; all other metrics compare whole texts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.metrics import bleu
from stages.metrics.embeddings import WordVectors
from stages.metrics.resampling import mean_statistic
from stages.metrics.rouge import MEASURES, rouge
from stages.metrics.systems import ScoredItems, SystemScores
from stages.metrics.tokens import kept_shares
from stages.run.process import StageProcess, run_stage
from stages.tracks.common import evaluation as frame
from stages.tracks.common.schemas import PARAPHRASE_SCORES
from stages.tracks.pgkpr import items as pgkpr
from stages.tracks.pgkpr.items import UNKNOWN, Vocabulary, as_text, as_words

STAGE = "evaluate_pgkpr"
_ORDERS = range(1, bleu.ORDERS + 1)
LEADING = [f"released_bleu_{order}" for order in _ORDERS]


class WithoutUnk:
    """Word vectors without one for [unk], which a model may write."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (vectors (n, d), known (n,) bool) of ``words``."""
        vectors, known = self._vectors.lookup(words)
        return vectors, known & np.array([word != UNKNOWN for word in words], dtype=bool)


def run(given: frame.Evaluated, keywords: Mapping[int, Sequence[str]], known: Collection[str],
        limit: int) -> frame.Evaluation:
    """Return scores and metrics of a run and of each baseline on the same examples.

    ``keywords`` are those of each source by example id, the same for every run; ``known`` and ``limit`` are as in
    :func:`pgkpr.released_form`.
    """
    scored, split = frame.scored_predictions(given, "pgkpr")
    keyword = given.items.set_index("example_id")["keyword"].loc[scored["example_id"]]
    targets = ScoredItems([as_words(text) for text in scored["source"]],
                          [[as_words(text) for text in texts] for texts in scored["references"]],
                          [None if pd.isna(word) else str(word) for word in keyword], [None] * len(scored))
    if missing := [number for number in scored["example_id"] if number not in keywords]:
        raise InputError(f"paraphrase_items.parquet: example {missing[0]} was predicted and has no row, and "
                         f"{len(missing) - 1} more are missing. Run generate_pgkpr again.")
    own = [list(keywords[number]) for number in scored["example_id"]]
    outputs = [as_words(text) for text in scored["prediction"]]
    counts = {"empty_outputs": sum(not words for words in outputs),
              "unknown_words": sum(words.count(UNKNOWN) for words in outputs),
              "without_keywords": sum(not words for words in own)}
    systems = frame.score_systems(replace(given, vectors=WithoutUnk(given.vectors)), targets, outputs, counts, as_words,
                                  {"keyword": own})
    systems = {name: _released(system, targets, own, known, limit) for name, system in systems.items()}
    if not scored["keyword"].isna().all():  # the model reads keywords
        read = [[] if pd.isna(words) else as_words(words) for words in scored["keyword"]]
        shares = mean_statistic(kept_shares(scored["prediction"].tolist(), read))
        systems["run"] = frame.extended(systems["run"], {"given_keywords_kept": shares}, {})
    result = frame.evaluation(given, scored["example_id"], systems, counts, split,
                              "words of the language pipeline, in lower case")
    result.metrics["settings"] |= {"leading": LEADING, "reference_words": limit,
                                   "vocabulary_words": len(known), "released_weights": bleu.RELEASED_WEIGHTS,
                                   "bleu_batch": bleu.LBOW_BATCH}
    return result


def source_keywords(pairs: pd.DataFrame, seed: int, max_length: int) -> dict[int, list[str]]:
    """Return the keywords of each source by example id: by attribution from the source, with PGKPR's coins."""
    first = pairs[pairs["reference"] == 0]
    masks = pgkpr.fixed_masks(first, "xx", seed, max_length=max_length)
    return {int(example): pgkpr.marked_words(words, mask)
            for example, words, mask in zip(first["example_id"], first["source_words"], masks, strict=True)}


def _released(system: SystemScores, targets: ScoredItems, keywords: Sequence[Sequence[str]], known: Collection[str],
              limit: int) -> SystemScores:
    """Return ``system`` with the scores of the released norm and the kept keywords."""
    outputs = system.rows["output"]
    texts = [pgkpr.released_form(as_words(text), known, limit) for text in outputs]
    references = [[pgkpr.released_form(words, known, limit) for words in item] for item in targets.references]
    counts = bleu.count_matches(texts, references)
    statistics = {f"released_bleu_{order}": bleu.corpus_bleu_statistic(counts, order, bleu.RELEASED_WEIGHTS)
                  for order in _ORDERS}
    scores = rouge(texts, references, "py_rouge").T
    columns = {f"released_py_{name}": column for name, column in zip(MEASURES, scores, strict=True)}
    columns["keywords_kept"] = kept_shares(outputs, keywords)
    statistics |= {name: mean_statistic(column) for name, column in columns.items()}
    rows: dict[str, Any] = {f"py_{name}": system.per_item[f"py_{name}"] for name in MEASURES} | columns
    rows |= {"released_output": [as_text(words) for words in texts],
             "released_references": [[as_text(words) for words in item] for item in references]}
    released = frame.extended(system, statistics, rows)
    for metrics in (released.values, released.statistics):
        metrics.pop("target_keyword_kept", None)  # targets have no keyword scores
    for order, value in enumerate(bleu.batched_bleu(counts, bleu.RELEASED_WEIGHTS), 1):
        released.values[f"released_batch_bleu_{order}"] = float(value)  # no sum over items, so without intervals
    return released


def _scored(params: Params, given: frame.Evaluated, paths: ModelPaths, _run: RunPaths) -> frame.Evaluation:
    keywords = source_keywords(read_frame(paths.paraphrase_items, pgkpr.PARAPHRASE_ITEMS), params.seed,
                               params.paraphrase_items.max_length)
    vocabulary = Vocabulary.from_frame(read_frame(paths.vocabulary, pgkpr.VOCABULARY))
    return run(given, keywords, vocabulary.word_numbers, params.evaluate_pgkpr.reference_words)


def _work(process: StageProcess) -> None:
    frame.evaluate(process, PARAPHRASE_SCORES, _scored, lambda text: tuple(as_words(text)))


main = partial(run_stage, STAGE, _work, instance="RUN")
