"""What the templates of the results document show of single tracks: triples, monitors, losses, steps, confusions."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pipeline.markdown import escaped, table
from pipeline.results_run import Material, percent
from pipeline.results_tables import NOTHING, over_seeds, p_text
from stages.common.schemas import SPLITS
from stages.common.settings import Params
from stages.metrics.registered import metric
from stages.results.classifiers import QUESTIONS, Step, steps
from stages.results.model import BETTER, HELPS, ONE_SEED, Block, Model, Results
from stages.results.page.labels import settings_text
from stages.results.published import paper
from stages.results.track import TrackResults
from stages.tracks.clld.tables import moved_pairs
from stages.tracks.pgkpr.train import RATES

_BOUNDS = (("share_input_equals_output", "k_x = k_y+: nothing to pull together"),
           ("share_output_equals_negative", "k_y+ = k_y-: a negative about the same"),
           ("share_with_negative_neighbour", "output keyword with a negative neighbour in the graph"),
           ("share_own_negative_only", "only the item's own negative keyword"),
           ("share_masked", "neither: left out of both keyword contrasts"))
# Digits after the point of what HCL's trainings watch.
_WATCHED = {"loss": 4, "kl": 2, "kl_train": 2, "under_floor": 2, "active_units": 0, "reconstruction": 2,
            "reconstruction_prior": 2, "reconstruction_mean": 2, "reconstruction_zero": 2, "swap_prior": 2,
            "swap_outputs": 4}
_PAIRS = 3


def triples(ingest: Mapping[str, Any], kind: str | None) -> list[str]:
    """Return the triples that each rule and each source of negatives would give, the one taken marked."""
    rows = [("negatives", source, count, source == ingest.get("negative_source"))
            for source, count in ingest.get("triples_by_negative_source", {}).items()]
    rows += [("rule, labelled negatives", rule, count,
              rule == ingest.get("rule") and ingest.get("negative_source") == "labelled")
             for rule, count in ingest.get("labelled_triples_by_rule", {}).items()]
    if not rows:
        return []
    samples, printed = paper("hcl").facts["triples"]["samples"], kind == "qqp"
    heads = ["", "", "triples", *([f"of the paper's {samples:,}"] if printed else [])]
    return table(heads, [[what, f"**{escaped(name)}** (taken)" if taken else escaped(name), f"{count:,}",
                          *([percent(count / samples)] if printed else [])] for what, name, count, taken in rows],
                 left=2)


def bounds(graph: Mapping[str, Any]) -> list[str]:
    """Return the shares of items that bound what the keyword contrasts can do."""
    shares = [[text, percent(graph[key])] for key, text in _BOUNDS if key in graph]
    return table(["", "share"], shares) if shares else []


def described(model: Any) -> str:
    """Return the name of an encoder or of word vectors, with the layer if there is one."""
    if not isinstance(model, Mapping):
        return escaped(model or "not named")
    layer = f", layer {model['layer']}" if "layer" in model else ""
    return escaped(f"{model.get('name') or settings_text(model)}{layer}")


def monitors(models: Sequence[Model]) -> list[str]:
    """Return what the trainings of HCL watched, at the epoch that was kept."""
    contrasts = list(dict.fromkeys(name.removeprefix("train_").removesuffix("_vanished") for model in models
                                   if model.history is not None for name in model.history
                                   if name.startswith("train_") and name.endswith("_vanished")))
    heads = ["model", "validation loss", "KL (nats)", "KL, training", "under floor", "active units", "from q",
             "from p", "from its mean", "from zero", "swap: prior", "swap: outputs",
             *(f"{escaped(name)} vanished" for name in contrasts)]
    return table(heads, [[escaped(model.name), *_watched(model, contrasts)] for model in models])


def _watched(model: Model, contrasts: Sequence[str]) -> list[str]:
    values, kept = model.metrics.get("validation", {}), model.kept
    found = (next((one for one in (values.get(name), kept.get(f"validation_{name}"))
                   if isinstance(one, int | float) and one == one), None) for name in _WATCHED)
    shares = [kept.get(f"train_{name}_vanished", values.get(f"{name}_vanished")) for name in contrasts]
    return [*(NOTHING if value is None else f"{value:.{digits}f}"
              for value, digits in zip(found, _WATCHED.values(), strict=True)),
            *(NOTHING if share is None or share != share else percent(share) for share in shares)]


_SWAPS = (("share_changed", "output changed"), ("edit_distance", "edit distance"),
          ("share_shows_keyword", "shows this keyword"), ("share_shows_unasked", "shows it under its own"))
_CHOICES = {"textrank": "its own", "random": "another node at random", "given": "a given one, or a negative neighbour"}
_SPACES = {"positive": "to mu_q of the target", "negative": "to mu_q of the negative",
           "output_keyword": "to the target's keyword", "impostor_keyword": "to the impostor keyword",
           "share_positive_nearer": "target nearer than negative", "share_positive_nearer_kl": "the same by KL",
           "share_output_keyword_nearer": "target's keyword nearer to q than the impostor, by Mahalanobis"}
_CHANCES = {"share_same_kind": "neighbours of a point that are of its kind",
            "share_own_target": "inputs whose nearest target is their own"}


def swaps(metrics: Mapping[str, Any]) -> list[str]:
    """Return what other keywords do to outputs (Table 4), by choice of keyword; nothing without swaps."""
    found = metrics.get("keyword_swap", {})
    rows = [[name, str(found[choice]["items"]), *(_with_interval(found[choice], key, key.startswith("share"))
                                                  for key, _ in _SWAPS)]
            for choice, name in _CHOICES.items() if found.get(choice, {}).get("items")]
    return table(["keyword", "items", *(name for _, name in _SWAPS)], rows) if rows else []


def latent_space(metrics: Mapping[str, Any]) -> list[str]:
    """Return how points of the latent space lie (Figure 3): distances from mu_p, and shares of items."""
    found = metrics.get("latent", {})
    values = {**found.get("distance_from_input", {}), **found, "intervals": found.get("intervals", {})}
    rows = [[name, _with_interval(values, key, key.startswith("share"))] for key, name in _SPACES.items()
            if values.get(key) is not None]
    rows += [[name, f"{percent(found[key])} (by chance {percent(found[f'{key}_by_chance'])})"]
             for key, name in _CHANCES.items() if found.get(key) is not None]
    return table(["", "mean (interval over items)"], rows) if rows else []


def _with_interval(values: Mapping[str, Any], key: str, share: bool) -> str:
    if values.get(key) is None:
        return NOTHING
    text = percent if share else "{:.2f}".format
    within = values["intervals"].get(key)
    return text(values[key]) + (f" ({text(within[0])} to {text(within[1])})" if within else "")


def shares_of(results: Results, track: TrackResults) -> list[tuple[str, str, list[str]]]:
    """Return title, note and lines of each table of shares that the trainings of a track report, means over seeds."""
    evaluated = {block.split for block in results.blocks_of(track)}
    splits = [split for split in SPLITS if split == "train" or split in evaluated]
    found = []
    for layout in track.shares:
        columns = {f"{heading}, {split}": (split, key)
                   for key, heading in layout.by_split.items() for split in splits}
        of_training = {f"{heading}, train": key for key, heading in layout.of_training.items()}
        models = [one for one in results.models_of(track) if layout.under in one.metrics
                  and layout.concerns(one.settings)]
        rows = []
        for name, seeds in groupby(models, lambda model: model.paths.name):
            shares = [one.metrics[layout.under] for one in seeds]
            cells = [[one.get(split, {}).get(key) for one in shares] for split, key in columns.values()]
            cells += [[one.get(key) for one in shares] for key in of_training.values()]
            rows.append([escaped(name), *(NOTHING if None in cell else percent(sum(cell) / len(cell))
                                          for cell in cells)])
        if rows:
            found.append((f"{layout.title[0].lower()}{layout.title[1:]}", layout.note,
                          table(["model", *columns, *of_training], rows)))
    return found


def alarms(models: Sequence[Model], remark: str | None) -> list[str]:
    """Return the alarms that trainings raised, below the recipe's ``remark`` on them; nothing without any."""
    rows = [[escaped(model.name), f"**{escaped(alarm.get('name'))}**", str(alarm.get("epoch")),
             escaped(alarm.get("message")), escaped(alarm.get("advice"))]
            for model in models for alarm in model.metrics.get("alarms", [])]
    found = table(["model", "alarm", "epoch", "what was seen", "what to try"], rows, left=5) if rows else []
    return [*([escaped(remark), ""] if found and remark else []), *found]


def validation(models: Sequence[Model], names: Sequence[str], further: str = "") -> list[str]:
    """Return what validation said of each model at the epoch that was kept, and a ``further`` one of its metrics."""
    rows = []
    for model in models:
        values = (model.kept.get(f"validation_{name}") for name in names)
        rows.append([escaped(model.name), *(NOTHING if value is None or value != value else f"{value:.4f}"
                                            for value in values),
                     *([str(model.metrics.get(further, NOTHING))] if further else [])])
    return table(["model", *(name.replace("macro_f1", "macro F1") for name in names), *filter(None, [further])], rows)


def learning_rates(params: Params) -> str:
    """Return the learning rate of PGKPR's recipe; where it leaves that open, those of the rows' architectures."""
    rate = params.train_pgkpr.training.learning_rate
    if rate is not None:
        return f"learning rate {rate:g}"
    by_rate: dict[float, list[str]] = {}
    for architecture in dict.fromkeys(params.model(name).architecture for name in params.models.pgkpr):
        by_rate.setdefault(RATES[architecture], []).append(escaped(architecture))
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(names)})" for rate, names in by_rate.items())


def pairs(items: Mapping[str, Any]) -> int:
    """Return how many pairs a data set of PGKPR has in all."""
    return sum(items.get(split, {}).get("pairs", 0) for split in SPLITS)


def answers(block: Block) -> list[str]:
    """Return whether the contrast helps, whether the label distance helps beyond it, and who beats the linear floor."""
    found, said = steps(block), []
    for question, *_ in QUESTIONS:
        verdicts = [step.accuracy.said(HELPS) for step in found if step.question == question]
        words = (*HELPS.values(), ONE_SEED)
        told = ", ".join(f"{word} in {verdicts.count(word)}" for word in words if word in verdicts)
        if verdicts:
            comparisons = "comparison" if len(verdicts) == 1 else "comparisons"
            said.append(f"**{question}** Of {len(verdicts)} {comparisons} it {told}.")
    floors = [one for system in block.systems
              if (one := block.difference(system.name, "floor linear", block.lead)) is not None]
    names = {word: [escaped(one.name) for one in floors if one.said(BETTER) == word]
             for word in (*BETTER.values(), ONE_SEED)}
    told = "; ".join(f"{word}: {', '.join(those)}" for word, those in names.items() if those)
    return [*said, *([f"**Against the linear floor** {told}."] if told else [])]


def steps_table(block: Block, level: str) -> list[str]:
    """Return what each step from one row to another adds; nothing where none was compared."""
    heads = ["step", "encoder", "question", "verdict", "accuracy", "difference", f"{level} % interval", "p",
             "p over seeds", "could be seen", "exact p", "macro F1"]
    rows = [_step(step, block.track.scale) for step in steps(block)]
    return table(heads, rows, left=4) if rows else []


def _step(step: Step, scale: int) -> list[str]:
    one, column = step.accuracy, metric("accuracy")
    difference, low, high = (column.text(value, scale, "+") for value in (one.difference, *one.ends))
    return [f"{escaped(step.name)} − {escaped(step.base_name)}", escaped(step.encoder),
            f"{escaped(step.row)} − {escaped(step.base)}", one.said(HELPS), column.text(one.value, scale),
            difference, f"{low} to {high}", p_text(one.p_value), *over_seeds(one, column, scale),
            ", ".join(map(p_text, one.exact)) or NOTHING,
            NOTHING if step.macro_f1 is None else column.text(step.macro_f1.difference, scale, "+")]


def confusions(material: Material, block: Block) -> list[str]:
    """Return the most confused pairs of classes of each row, and the pairs whose label distance moved most."""
    known = {run.name: run.classifier for run in material.results.runs}
    rows = []
    for system in block.systems:
        found = known[system.runs[0]]
        assert found is not None    # of a block of classifiers
        confused = [f"{escaped(found.names[one])} / {escaped(found.names[other])} ({found.confusion[one, other]} + "
                    f"{found.confusion[other, one]})" for one, other in found.confused(_PAIRS)]
        moved = [f"{escaped(row['class'])} / {escaped(row['other'])} ({row['first']:.2f} to {row['last']:.2f})"
                 for row in moved_pairs(found.distances, _PAIRS).to_dict("records")]
        rows.append([escaped(system.name), "; ".join(confused) or NOTHING, "; ".join(moved) or NOTHING])
    return table(["row", "most confused", "moved most"], rows, left=3)
