"""Training curves: a plot per quantity with all models, in groups that answer one question each."""

import re
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from stages.common.figures import PALETTE, SERIES, Plot, drawing, file_name, finished
from stages.results.model import Model
from stages.results.page.tables import number
from stages.results.track import Question

_WORDS = {"kl": "KL", "ce": "cross-entropy", "f1": "F1"}
_SPLITS = (("validation", "-", 1.7, 1.0), ("train", (0, (3.5, 1.8)), 1.1, 0.75))
_MARKED = 60        # points of a line up to which each is marked
_MONITORED = "_vanished"     # ends the name of a quantity that is recorded of contrasts only


def curve_groups(models: Sequence[Model], questions: Sequence[Question],
                 track: str = "") -> list[tuple[Question, list[Plot]]]:
    """Return a plot for each quantity of two epochs or more that answers a question; ``track`` names their files."""
    known = [model for model in models if model.history is not None and len(model.history) > 1]
    quantities: dict[str, None] = {}
    for model in known:
        quantities.update(dict.fromkeys(history_quantities(model.history)))
    places = {model.name: place for place, model in enumerate(models)}
    members: dict[str, list[Plot]] = {question.title: [] for question in questions}
    contrasts = "|".join(re.escape(name.removesuffix(_MONITORED)) for name in quantities if name.endswith(_MONITORED))
    patterns = {group.title: group.pattern.replace("{contrasts}", contrasts or "(?!)") for group in questions}
    for quantity in quantities:
        title = next((title for title, pattern in patterns.items() if re.fullmatch(pattern, quantity)), None)
        if title is not None:
            members[title].append(_plot(quantity, known, places, track))
    return [(group, members[group.title]) for group in questions if members[group.title]]


def history_quantities(history: pd.DataFrame | None) -> dict[str, dict[str, str]]:
    """Group numeric columns by quantity: ``{"loss": {"train": "train_loss", "validation": "validation_loss"}}``.

    A column without either prefix counts as training. Quantities of the validation split come first.
    """
    quantities: dict[str, dict[str, str]] = {}
    if history is None:
        return quantities
    for column in history.select_dtypes("number").columns:
        if column in ("epoch", "step") or history[column].isna().all():
            continue
        match = re.fullmatch(r"(train|validation)_(.+)", column)
        split, quantity = (match[1], match[2]) if match else ("train", column)
        quantities.setdefault(quantity, {})[split] = column
    return dict(sorted(quantities.items(), key=lambda item: "validation" not in item[1]))


def best_epoch(history: pd.DataFrame | None) -> int:
    """Return the epoch whose weights were kept, the last one with the flag ``best``; 0 if none has it."""
    if history is None or "best" not in history or not history["best"].any():
        return 0
    return int(history.loc[history["best"].astype(bool), "epoch"].iloc[-1])


def series_colour(place: int) -> str:
    """Return the palette's colour of the model at ``place`` in the params."""
    return SERIES[place % len(SERIES)]


def quantity_label(quantity: str) -> str:
    """Return a short readable name of a column of a training history."""
    return " ".join(_WORDS.get(word, word) for word in quantity.split("_"))


def _plot(quantity: str, models: Sequence[Model], places: dict[str, int], track: str) -> Plot:
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


def _draw(axes: Axes, model: Model, columns: dict[str, str], place: int) -> str:
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
