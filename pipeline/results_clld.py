"""What the results document says of CLLD alone: its settings and texts, what each step adds, what is confused."""

from collections.abc import Mapping, Sequence

from pipeline.markdown import escaped, table
from pipeline.results_pgkpr import at_best
from pipeline.results_run import Material, sizes
from pipeline.results_tables import NOTHING, p_text
from stages.metrics.registered import metric
from stages.results.classifiers import QUESTIONS, Classifier, Step, steps
from stages.results.model import BETTER, HELPS, Block, Difference, Model
from stages.results.published import paper
from stages.runtime.settings import Params
from stages.tracks.clld.distances import moved_pairs

_PAPER_TEXTS = paper("clld").facts["texts"]     # of the training and the test split
TRAININGS = "validation of CLLD's models"
_PAIRS = 3


def settings(params: Params) -> str:
    """Return what all classifiers share."""
    block = params.train_clld
    training, distance = block.training, block.distance
    stopped = f", ended after {training.patience} without a better validation accuracy" if training.patience else ""
    return (f"at most {block.max_length} tokens of a text, at most {training.epochs} epochs of batches of "
            f"{training.batch_size}{stopped}; lambda {block.contrast.weight:g}, tau {distance.tau:g}, count "
            f"{escaped(distance.ald_count)}")


def counts(material: Material, block: Block) -> list[str]:
    """Return how many texts and classes there are, beside those of the paper, and what the linear floor is."""
    linear = material.counts[block.dataset].get("linear_floor", {})
    said = f"**{escaped(block.dataset)}**: {sizes(material, block)} texts"
    if linear.get("classes"):
        said += f" in {linear['classes']} classes"
    if block.kind in _PAPER_TEXTS:
        train, test = _PAPER_TEXTS[block.kind]
        said += f" (in the paper {train:,} train, of which it validates on some, and {test:,} test)"
    if "strength" in linear:
        said += f". Linear floor: C = {linear['strength']:g} by validation, {linear.get('features', 0):,} features"
    return [said + "."]


def reading(block: Block) -> str:
    """Return what the main metrics are."""
    return ("Accuracy and F1 in per cent. Macro F1 counts every class alike, weighted F1 by its texts. NLL: mean "
            "surprise in nats; Brier: mean squared error of the probabilities, 0 to 2; ECE: how far the probability of "
            "the named class is from how often it is right. *Majority* says the most frequent class of training, "
            "*linear* is a logistic regression on TF-IDF.")


def beside(block: Block) -> str:
    """Return how far the published rows may be compared with ours."""
    known = _PAPER_TEXTS.get(str(block.kind))
    same = known is not None and block.counts.get("examples") == known[1]
    return (f"*Paper* rows are as published, {'on the same test texts' if same else 'on other test texts'}. The "
            "validation split, the epochs and the length of texts are not the paper's, and the bundled encoder, which "
            "stands beside BERT, has 6 layers of width 384.")


def sections(material: Material, block: Block) -> list[tuple[str, list[str]]]:
    """Return the sections after the main table: title and lines."""
    known = {run.name: run.classifier for run in material.results.runs if run.classifier is not None}
    return [("what each step adds", steps_table(block, material.params.compare.level)),
            ("what is confused", confusions(block, known))]


def steps_table(block: Block, level: float) -> list[str]:
    """Return whether the contrast helps, whether the label distance helps beyond it, and who beats the linear floor."""
    found = steps(block)
    answers = [_answer(question, [step for step in found if step.question == question]) for question, *_ in QUESTIONS]
    floors = (block.difference(system.name, "floor linear", block.lead) for system in block.systems)
    lines = [f"Differences of accuracy in points on the same {block.counts.get('examples', 0):,} texts, of systems "
             f"with the same encoder and settings. A step *helps* if the {100 * level:g} % bootstrap interval lies "
             "above 0, it *hurts* if it lies below, and else that *cannot be told* on these texts. Exact p: McNemar's "
             "test, seed by seed. Texts are resampled and trained models stay as they are: a difference within the "
             "standard deviation over seeds may be one of seeds.", "",
             *(f"- {line}" for line in (*filter(None, answers), *_over_floor([one for one in floors if one])))]
    if not found:
        return lines
    heads = ["step", "encoder", "question", "verdict", "accuracy", "difference", f"{100 * level:g} % interval", "p",
             "exact p", "macro F1"]
    return [*lines, "", *table(heads, [_row(step, block.track.scale) for step in found], left=4)]


def _answer(question: str, found: Sequence[Step]) -> str:
    """Return in one line how often a step helped; empty where it was not tried."""
    if not found:
        return ""
    verdicts = [step.accuracy.verdict for step in found]
    told = ", ".join(f"{word} in {verdicts.count(verdict)}" for verdict, word in HELPS.items() if verdict in verdicts)
    return f"**{question}** Of {len(found)} {'comparison' if len(found) == 1 else 'comparisons'} it {told}."


def _over_floor(found: Sequence[Difference]) -> list[str]:
    by_verdict = {word: [escaped(one.name) for one in found if one.verdict == verdict]
                  for verdict, word in BETTER.items()}
    said = [f"{word}: {', '.join(names)}" for word, names in by_verdict.items() if names]
    return [f"**Against the linear floor** {'; '.join(said)}."] if said else []


def _row(step: Step, scale: int) -> list[str]:
    one, column = step.accuracy, metric("accuracy")
    difference, low, high = (column.text(value, scale, "+") for value in (one.difference, one.low, one.high))
    return [f"{escaped(step.name)} − {escaped(step.base_name)}", escaped(step.encoder),
            f"{escaped(step.row)} − {escaped(step.base)}", HELPS[one.verdict], column.text(one.value, scale),
            difference, f"{low} to {high}", p_text(one.p_value), ", ".join(map(p_text, one.exact)) or NOTHING,
            NOTHING if step.macro_f1 is None else column.text(step.macro_f1.difference, scale, "+")]


def confusions(block: Block, known: Mapping[str, Classifier]) -> list[str]:
    """Return the most confused pairs of classes of each row, and the pairs whose label distance moved most."""
    rows = []
    for system in block.systems:
        found = known[system.runs[0]]
        pairs = [f"{escaped(found.names[one])} / {escaped(found.names[other])} ({found.confusion[one, other]} + "
                 f"{found.confusion[other, one]})" for one, other in found.confused(_PAIRS)]
        moved = [f"{escaped(row['class'])} / {escaped(row['other'])} ({row['first']:.2f} to {row['last']:.2f})"
                 for row in moved_pairs(found.distances, _PAIRS).to_dict("records")]
        rows.append([escaped(system.name), "; ".join(pairs) or NOTHING, "; ".join(moved) or NOTHING])
    return ["Of the first seed of each row: the pairs of classes that it takes for each other most often on the test "
            "texts (texts of the first class + of the second), and those whose label distance moved most in training.",
            "", *table(["row", "most confused", "moved most"], rows, left=3)]


def trainings(models: Sequence[Model]) -> list[str]:
    """Return what the validation split said of each model at the epoch that was kept."""
    rows = [[escaped(model.name), *at_best(model, ("accuracy", "macro_f1", "loss")),
             str(model.metrics.get("updates", NOTHING))] for model in models]
    return ["On validation, at the epoch that was kept, which accuracy chooses. The loss is the cross-entropy in nats; "
            "updates are those of an adaptive label distance.", "",
            *table(["model", "accuracy", "macro F1", "loss", "updates"], rows)]
