"""Score the outputs of an HCL run, and of the baselines on the same examples, against the references."""

from dataclasses import replace
from functools import partial

import pandas as pd

from stages.common.paths import ModelPaths, RunPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.metrics.bleu import intra_distinct
from stages.metrics.resampling import mean_statistic
from stages.metrics.systems import ScoredItems
from stages.metrics.tokens import basic_tokens, keyword_retention
from stages.run.process import run_stage
from stages.tracks.common import evaluation as frame
from stages.tracks.common.schemas import LIKELIHOODS, SCORES, keyword_columns

LEADING = [f"bleu_{order}" for order in range(1, 5)]  # the variant that fits the paper's table; others are reported too


def run(given: frame.Evaluated, likelihoods: pd.DataFrame) -> frame.Evaluation:
    """Return scores and metrics of a run and of each baseline on the same examples, whatever their order."""
    scored, split = frame.scored_predictions(given, "hcl")
    rows = given.items.set_index("example_id").loc[scored["example_id"]]
    targets = ScoredItems(scored["source"].tolist(), [list(texts) for texts in scored["references"]],
                          _keywords(rows["keyword"]), _keywords(rows["target_keyword"]))
    counts = {"empty_outputs": sum(not basic_tokens(text) for text in scored["prediction"])}
    systems = frame.score_systems(given, targets, scored["prediction"].tolist(), counts)
    likely = likelihoods.set_index("example_id").loc[scored["example_id"]]
    token_nll = (likely["nll"] / likely["tokens"]).to_numpy()
    systems["run"] = frame.extended(systems["run"], {"token_nll": mean_statistic(token_nll)}, {"token_nll": token_nll})
    result = frame.evaluation(given, scored["example_id"], systems, counts, split, "lower-cased BERT basic tokens")
    result.metrics["run"] |= _within_items(given.predictions) | _prior_keyword(scored, targets)
    return replace(result, scores=result.scores.assign(**keyword_columns(given.items, result.scores["example_id"])))


def _keywords(column: pd.Series) -> list[str | None]:
    return [None if pd.isna(keyword) or keyword == NO_KEYWORD else keyword for keyword in column]


def _within_items(predictions: pd.DataFrame) -> dict[str, float]:
    """Return the variety among the outputs drawn for one item; nothing where none were drawn."""
    drawn = predictions[predictions["sample"] > 0].sort_values(["example_id", "sample"])
    if drawn.empty:
        return {}
    samples = [texts.tolist() for _, texts in drawn.groupby("example_id")["prediction"]]
    return {f"intra_distinct_{n}": intra_distinct(samples, n) for n in (1, 2)}


def _prior_keyword(scored: pd.DataFrame, targets: ScoredItems) -> dict[str, float]:
    """Return the share of outputs with their conditioning keyword, if that was not the source's own."""
    given = _keywords(scored["keyword"])
    if not any(keyword is not None and keyword != own for keyword, own in zip(given, targets.keywords, strict=True)):
        return {}
    kept = [shown for shown in keyword_retention(scored["prediction"].tolist(), given) if shown is not None]
    return {"prior_keyword_kept": sum(kept) / len(kept)} if kept else {}


def _scored(_params: Params, given: frame.Evaluated, _model: ModelPaths, paths: RunPaths) -> frame.Evaluation:
    result = run(given, read_frame(paths.generated("likelihoods"), LIKELIHOODS))
    result.metrics["settings"] |= {"leading": LEADING}
    return result


main = partial(run_stage, "evaluate_hcl", lambda process: frame.evaluate(process, SCORES, _scored), instance="RUN")
