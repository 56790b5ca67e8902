"""Training curves: one plot per quantity with all models in it, in groups that answer one question each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from stages.figures import PALETTE, SERIES, Plot, drawing, file_name, finished
from stages.results.reporting.gather import ModelMaterial
from stages.results.reporting.labels import number, quantity_label

_SPLITS = (("validation", "-", 1.7, 1.0), ("train", (0, (3.5, 1.8)), 1.1, 0.75))
_MARKED = 60        # points of a line up to which each is marked
_MONITORED = "_vanished"     # what is recorded of a contrast, and of nothing else


@dataclass(frozen=True)
class Question:
    """What several plots answer together, a note, and a pattern of the quantities that they show.

    In the pattern, ``{contrasts}`` stands for the names of the contrasts of which anything was recorded.
    """

    title: str
    note: str
    pattern: str


HCL_QUESTIONS = (
    Question("The loss and its parts", "What is minimised. The validation loss, without the contrasts, chooses the "
             "weights.", r"loss|reconstruction|kl|bow|{contrasts}"),
    Question("Does the latent variable carry anything?", "Posterior collapse shows in a KL near zero, in few active "
             "units, and in a reconstruction that is as good with z from the prior, or with z = 0, as from the "
             "posterior. KL negative is that of the negative's posterior: the instance contrast wants it above the KL.",
             r"active_units|(mean_log_)?sigma|kl_.*|reconstruction_.*"),
    Question("Do the contrasts still teach?", "Of each contrast: masked, the share of items that take no part; of the "
             "others, the mean loss; vanished, the share with a loss below 0.01; ahead, the share in which the right "
             "candidate is ahead; gap, how far apart the candidates are, in units of the temperature.",
             r"({contrasts})_.*"),
    Question("Optimiser", "Rates, the weight of the KL term, and the size of the gradient.", r".*"),
)
PGKPR_QUESTIONS = (
    Question("The loss and its parts", "What is minimised, in nats: generation per word of the target; reconstruction "
             "per token of the two-part input; contrast per pair; bow, the bag of words of the latent-bow models, per "
             "pair. The validation loss chooses the weights.", r"loss|generation|reconstruction|contrast|bow"),
    Question("Optimiser and the rest", "Rates, the size of the gradient, and what else was recorded.", r".*"),
)
CLLD_QUESTIONS = (
    Question("How well are classes told apart?", "Share of texts that are classified rightly, and mean F1 over "
             "classes. The accuracy on the validation split chooses the weights. In training it is that of the first "
             "view, under dropout.", r"accuracy|macro_f1"),
    Question("The loss and its parts", "What is minimised: the weighted sum of cross-entropy and contrast, in nats per "
             "text. The validation loss is the cross-entropy alone.", r"loss|ce|contrast"),
    Question("Optimiser and the rest", "Rates, the size of the gradient, and what else was recorded.", r".*"),
)


@dataclass(frozen=True)
class CurveGroup:
    """Plots that answer one question."""

    title: str
    note: str
    plots: list[Plot]


def curve_groups(models: Sequence[ModelMaterial], questions: Sequence[Question] = HCL_QUESTIONS,
                 track: str = "") -> list[CurveGroup]:
    """Return the plots of all quantities that any model has kept, by the question they answer.

    Args:
        models: of one track, in the order of the params.
        questions: a quantity goes to the first whose pattern it matches.
        track: put into the plots' names, where another track has plots of the same quantities.
    """
    known = [model for model in models if model.history is not None and not model.history.empty]
    quantities: dict[str, None] = {}
    for model in known:
        quantities.update(dict.fromkeys(history_quantities(model.history)))
    places = {model.name: place for place, model in enumerate(models)}
    members: dict[str, list[Plot]] = {question.title: [] for question in questions}
    contrasts = "|".join(re.escape(name.removesuffix(_MONITORED)) for name in quantities if name.endswith(_MONITORED))
    patterns = {one.title: one.pattern.replace("{contrasts}", contrasts or "(?!)") for one in questions}
    for quantity in quantities:
        title = next(title for title, pattern in patterns.items() if re.fullmatch(pattern, quantity))
        members[title].append(_plot(quantity, known, places, track))
    return [CurveGroup(one.title, one.note, members[one.title]) for one in questions if members[one.title]]


def history_quantities(history: pd.DataFrame | None) -> dict[str, dict[str, str]]:
    """Group numeric columns by quantity: ``{"loss": {"train": "train_loss", "validation": "validation_loss"}}``.

    A column without either prefix counts as training. Columns without any value are left out. What validation
    knows comes first.
    """
    quantities: dict[str, dict[str, str]] = {}
    if history is None:
        return quantities
    for column in history.select_dtypes("number").columns:
        if column in ("epoch", "step") or history[column].isna().all():
            continue
        found = re.fullmatch(r"(train|validation)_(.+)", column)
        split, quantity = (found[1], found[2]) if found else ("train", column)
        quantities.setdefault(quantity, {})[split] = column
    return dict(sorted(quantities.items(), key=lambda item: "validation" not in item[1]))


def best_epoch(history: pd.DataFrame | None) -> int:
    """Return the epoch whose weights were kept: the last one flagged ``best``; 0 if none is."""
    if history is None or "best" not in history or not history["best"].any():
        return 0
    return int(history.loc[history["best"].astype(bool), "epoch"].iloc[-1])


def series_colour(place: int) -> str:
    """Return the palette's name for the model that stands at ``place`` in the params."""
    return SERIES[place % len(SERIES)]


def _plot(quantity: str, models: Sequence[ModelMaterial], places: dict[str, int], track: str) -> Plot:
    notes, ends = {}, []
    with drawing(3.1, 2.0) as figure:
        axes = figure.add_subplot()
        for model in models:
            columns = history_quantities(model.history).get(quantity)
            if columns:
                place = places[model.name]
                text = _draw(axes, model, columns, place)
                notes[f"series-{place}"] = f"{model.name}: {text}"
                ends.append(f"{model.name} {text}")
        axes.set_title(quantity_label(quantity))
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.legend(fontsize=6.5).set_gid("legend")
        name = file_name("history", *([track] if track else []), quantity)
        return finished(figure, name, quantity_label(quantity), "; ".join(ends), notes)


def _draw(axes: Axes, model: ModelMaterial, columns: dict[str, str], place: int) -> str:
    """Draw one model's lines, and return them in words."""
    history = model.history
    assert history is not None      # only models with a history are drawn
    colour, texts, named = PALETTE[series_colour(place)], [], False
    marker = "o" if len(history) <= _MARKED else ""
    for split, line, width, opacity in _SPLITS:
        if split not in columns:
            continue
        values = history[columns[split]]
        axes.plot(history["epoch"], values, linestyle=line, color=colour, linewidth=width, alpha=opacity,
                  marker=marker, markersize=2.6, label=None if named else model.name, gid=f"series-{place}")
        named = True
        known = values.dropna()
        texts.append(f"{split} from {number(float(known.iloc[0]))} to {number(float(known.iloc[-1]))}")
        kept = history["epoch"] == best_epoch(history)
        if kept.any() and split == next(iter(split for split, *_ in _SPLITS if split in columns)):
            axes.plot(history["epoch"][kept], values[kept], marker="o", markersize=6.5, markerfacecolor="none",
                      markeredgecolor=colour, linestyle="none", gid=f"series-{place}")
    return f"{', '.join(texts)} over {len(history)} epochs"
