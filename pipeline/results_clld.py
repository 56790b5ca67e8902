"""What the results document tells of CLLD alone: its settings and texts, what each step adds, what is confused."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.markdown import escaped, table
from pipeline.results_material import Evaluated, Material, System, Trained
from pipeline.results_tracks import NOTHING
from stages.artifacts.schemas import SPLITS
from stages.results.reporting.classifiers import confused_pairs
from stages.results.reporting.published_clld import PAPER_TEXTS
from stages.results.reporting.steps import QUESTIONS, Step, exact_values, steps
from stages.runtime.settings import Params
from stages.tracks.clld.distances import moved_pairs

READING = ("Accuracy and F1 in per cent. Macro F1 counts every class alike, weighted F1 by its texts. NLL: mean "
           "surprise in nats; Brier: mean squared error of the probabilities, 0 to 2; ECE: how far the probability of "
           "the named class is from how often it is right. *Majority* says the most frequent class of training, "
           "*linear* is a logistic regression on TF-IDF.")
_VERDICTS = ("helps", "hurts", "cannot be told")
_PAIRS = 3


def settings(params: Params) -> str:
    """Return what all classifiers share."""
    block = params.train_clld
    training, distance = block.training, block.distance
    stopped = f", ended after {training.patience} without a better validation accuracy" if training.patience else ""
    return (f"at most {block.max_length} tokens of a text, at most {training.epochs} epochs of batches of "
            f"{training.batch_size}{stopped}; lambda {block.contrast.weight:g}, tau {distance.tau:g}, count "
            f"{escaped(distance.ald_count)}")


def texts(material: Material, evaluated: Evaluated) -> list[str]:
    """Return how many texts and classes there are, beside those of the paper, and what the linear floor is."""
    ingest, linear = (material.counts[evaluated.dataset].get(stage, {}) for stage in ("ingest", "linear_floor"))
    examples = ingest.get("examples", {})
    sizes = ", ".join(f"{examples[split]:,} {split}" for split in SPLITS if split in examples)
    said = f"**{escaped(evaluated.dataset)}**: {sizes} texts"
    if linear.get("classes"):
        said += f" in {linear['classes']} classes"
    if evaluated.kind in PAPER_TEXTS:
        train, test = PAPER_TEXTS[evaluated.kind]
        said += f" (in the paper {train:,} train, of which it validates on some, and {test:,} test)"
    if "strength" in linear:
        said += f". Linear floor: C = {linear['strength']:g} by validation, {linear.get('features', 0):,} features"
    return [said + "."]


def beside(evaluated: Evaluated) -> str:
    """Return how far the published rows may be compared with ours."""
    known = PAPER_TEXTS.get(str(evaluated.kind))
    same = known is not None and evaluated.counts.get("examples") == known[1]
    return (f"*Paper* rows are as published, {'on the same test texts' if same else 'on other test texts'}. The "
            "validation split, the epochs and the length of texts are not the paper's, and the bundled encoder, which "
            "stands beside BERT, has 6 layers of width 384.")


def steps_table(evaluated: Evaluated, level: float) -> list[str]:
    """Return whether the contrast helps, whether the label distance helps beyond it, and who beats the linear floor."""
    systems = {system.name: system for system in evaluated.systems}
    kinds = {name: system.kind for name, system in systems.items() if system.kind is not None}
    found = [(step, row) for step in steps(kinds) if (row := _difference(evaluated, step.name, step.base_name))]
    floors = [(system, row) for system in evaluated.systems
              if (row := _difference(evaluated, system.name, "floor linear"))]
    answers = [_answer(question, [row for step, row in found if step.question == question])
               for question, *_ in QUESTIONS]
    lines = [f"Differences of accuracy in points on the same {evaluated.counts.get('examples', 0):,} texts, of systems "
             f"with the same encoder and settings. A step *helps* if the {100 * level:g} % bootstrap interval lies "
             "above 0, it *hurts* if it lies below, and else that *cannot be told* on these texts. Exact p: McNemar's "
             "test, seed by seed. Texts are resampled and trained models stay as they are: a difference within the "
             "standard deviation over seeds may be one of seeds.", "",
             *(f"- {line}" for line in (*filter(None, answers), *_over_floor(floors)))]
    if not found:
        return lines
    heads = ["step", "encoder", "question", "verdict", "accuracy", "difference", f"{100 * level:g} % interval", "p",
             "exact p", "macro F1"]
    return [*lines, "", *table(heads, [_row(evaluated, systems, step, row) for step, row in found], left=4)]


def _answer(question: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return in one line how often a step helped; empty where it was not tried."""
    if not rows:
        return ""
    counts = [sum(_verdict(row) == verdict for row in rows) for verdict in _VERDICTS]
    told = ", ".join(f"{verdict} in {count}" for verdict, count in zip(_VERDICTS, counts, strict=True) if count)
    return f"**{question}** Of {len(rows)} {'comparison' if len(rows) == 1 else 'comparisons'} it {told}."


def _over_floor(rows: Sequence[tuple[System, Mapping[str, Any]]]) -> list[str]:
    by_verdict = [[escaped(system.name) for system, row in rows if _verdict(row) == verdict] for verdict in _VERDICTS]
    said = [f"{what}: {', '.join(names)}" for what, names in zip(("better", "worse", "cannot be told"), by_verdict,
                                                                 strict=True) if names]
    return [f"**Against the linear floor** {'; '.join(said)}."] if said else []


def _row(evaluated: Evaluated, systems: Mapping[str, System], step: Step, row: Mapping[str, Any]) -> list[str]:
    one, other = systems[step.name], systems[step.base_name]
    exact = exact_values({"runs": one.runs, "seeds": one.seeds}, {"runs": other.runs, "seeds": other.seeds},
                         (one.name, other.name), evaluated.exact)
    macro = _difference(evaluated, step.name, step.base_name, "macro_f1")
    return [f"{escaped(step.name)} − {escaped(step.base_name)}", escaped(step.encoder),
            f"{escaped(step.row)} − {escaped(step.base)}", _verdict(row),
            f"{100 * row['first_value']:.2f}", f"{100 * row['difference']:+.2f}",
            f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}", _p(row["p_value"]),
            ", ".join(map(_p, exact)) or NOTHING, NOTHING if macro is None else f"{100 * macro['difference']:+.2f}"]


def _difference(evaluated: Evaluated, name: str, base: str, metric: str = "accuracy") -> Mapping[str, Any] | None:
    """Return ``name`` minus ``base`` on a metric; None if that was not compared."""
    for row in evaluated.paired.to_dict("records"):
        if row["metric"] == metric and {row["first"], row["second"]} == {name, base}:
            if row["first"] == name:
                return row
            return row | {"first_value": row["second_value"], "second_value": row["first_value"],
                          "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
    return None


def _verdict(row: Mapping[str, Any]) -> str:
    return _VERDICTS[0] if row["low"] > 0 else _VERDICTS[1] if row["high"] < 0 else _VERDICTS[2]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def confusions(material: Material, evaluated: Evaluated) -> list[str]:
    """Return the most confused pairs of classes of each row, and the pairs whose label distance moved most."""
    rows = []
    for system in evaluated.systems:
        one = material.classifiers[system.runs[0]]
        pairs = [f"{escaped(pair.one)} / {escaped(pair.other)} ({pair.as_other} + {pair.as_one})"
                 for pair in confused_pairs(one, _PAIRS)]
        moved = [f"{escaped(row['class'])} / {escaped(row['other'])} ({row['first']:.2f} to {row['last']:.2f})"
                 for row in moved_pairs(one.distances, _PAIRS).to_dict("records")]
        rows.append([escaped(system.name), "; ".join(pairs) or NOTHING, "; ".join(moved) or NOTHING])
    return ["Of the first seed of each row: the pairs of classes that it takes for each other most often on the test "
            "texts (texts of the first class + of the second), and those whose label distance moved most in training.",
            "", *table(["row", "most confused", "moved most"], rows, left=3)]


def validations(trained: Sequence[Trained]) -> list[str]:
    """Return what the validation split said of each model at the epoch that was kept."""
    names = ("accuracy", "macro_f1", "loss")
    rows = []
    for model in trained:
        kept = model.history[model.history["epoch"] == model.metrics.get("best_epoch")]
        values = kept.iloc[-1].to_dict() if len(kept) else {}
        found = [values.get(f"validation_{name}") for name in names]
        rows.append([escaped(model.name), *(NOTHING if value is None or value != value else f"{value:.4f}"
                                            for value in found), str(model.metrics.get("updates", NOTHING))])
    return ["On validation, at the epoch that was kept, which accuracy chooses. The loss is the cross-entropy in nats; "
            "updates are those of an adaptive label distance.", "",
            *table(["model", "accuracy", "macro F1", "loss", "updates"], rows)]
