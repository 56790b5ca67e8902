"""What a trained HCL model tells of itself: metrics, card and items."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from models.common.training import History
from models.hcl.model import HclModel, InitReport
from models.hcl.monitors import find_alarms, leak_of_graph
from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.common.trained import Table, best_values, model_card
from stages.tracks.hcl.lookup import TrainedOn
from stages.tracks.hcl.sight import Sight, leaks

_ITEM_COLUMNS = ["example_id", "split", "source", "target", "negatives", "keyword", "target_keyword",
                 "negative_keyword", "references"]


@dataclass(frozen=True)
class TrainedHcl:
    """What a training makes.

    Attributes:
        model: with the weights of the best epoch.
        items: rows of ``joined_items``, all splits.
        history: of the training.
        start: what the model took over from the one that it was initialised with; None for a fresh start.
        sight: what the training items saw of the graph; None for the whole.
    """

    model: HclModel
    items: pd.DataFrame
    history: History
    start: InitReport | None = None
    sight: Sight | None = None


def training_metrics(trained: TrainedHcl) -> dict[str, Any]:
    """Return what ``metrics.json`` says of a model: alarms, and how many keywords the graph knows.

    ``keywords`` holds, for the validation and test splits, the share of inputs whose keyword is a node of the
    training graph; the prior reads the frozen embedding of the others. ``graph`` holds, by split, what the graph tells
    of the target (:func:`stages.tracks.hcl.sight.leaks`), and the share of training items that lost their keyword.
    """
    history = trained.history
    known = trained.items["input_node"] >= 0
    shares = {split: float(known[trained.items["split"] == split].mean()) for split in ("validation", "test")
              if (trained.items["split"] == split).any()}
    alarms, config = find_alarms(history.rows, trained.model.config), trained.model.config
    dropout = trained.sight.dropout if trained.sight is not None else 0.0
    told = leaks(trained.items, trained.model.graph.structure(), trained.sight)
    leak = leak_of_graph(told["train"]["target_is_neighbour"], told["validation"]["target_is_neighbour"], config)
    if leak is not None and all(alarm.name != leak.name for alarm in alarms):
        alarms.append(leak)
    return {"alarms": [asdict(alarm) for alarm in alarms], "keywords": shares,
            "graph": {**told, "kw_dropout": round(dropout, 6)}}


def training_card(name: str, trained: TrainedHcl, on: TrainedOn, values: Mapping[str, Any], start: str | None) -> str:
    """Return the README of the saved model; ``start`` names the model that it was initialised from."""
    counts, metrics, graph = trained.items["split"].value_counts(), training_metrics(trained), trained.model.graph
    begun = [] if start is None or trained.start is None else [
        f"Initialised from model {start}: {len(trained.start.copied)} parameters taken over, "
        f"{len(trained.start.left)} left as drawn"]
    alarms = "\n".join(f"- **{alarm['name']}** (since epoch {alarm['epoch']}): {alarm['message']}. What to try: "
                       f"{alarm['advice']}." for alarm in metrics["alarms"]) or "- none"
    known = ", ".join(f"{share:.1%} of {split}" for split, share in metrics["keywords"].items())
    return model_card(
        f"HCL model {name}", "text-generation",
        f"Rewrites a sentence under the guidance of its keyword (Keywords and Instances, ACL 2022). Trained by "
        f"Keycontrast on the\ndata set `{on.dataset}`: {counts.get('train', 0)} triples, {counts.get('validation', 0)} "
        f"for selection.",
        [f"Encoder at the start: {on.encoder['name']} (version {on.encoder['version']}, sha256 {on.encoder['sha256']})",
         *begun,
         f"Best epoch {trained.history.best_epoch} of {values['training']['epochs']}: {best_values(trained.history)}",
         f"Graph: {graph.num_nodes} keywords, {graph.num_edges} edges, self loops included; inputs whose keyword it "
         f"knows: {known}",
         *_found_by(on),
         "`config.json` holds the settings, `keywords.json` the keyword of each node, `trained_on.json` where it came "
         "from"],
        '`keycontrast predict RUN "a sentence"`, or '
        '`models.hcl.model.HclModel.from_pretrained(FOLDER).paraphrase(...)`',
        f"Alarms of the training:\n{alarms}")


def _found_by(on: TrainedOn) -> list[str]:
    """Return what a new text's keyword is found by, of which there may be nothing to say."""
    named = [f"{kind.replace('_', ' ')} {about['name']} (sha256 {about['sha256']})"
             for kind, about in on.keywords.items() if "sha256" in about]
    by = ", ".join(named)
    return [f"Keywords were found by {by}; prediction finds those of new texts by the same"] if by else []


def items_table(items: pd.DataFrame) -> Table:
    """Return table ``items`` of a model that was trained on rows of ``joined_items``."""
    return Table("items", items[_ITEM_COLUMNS], ITEMS)
