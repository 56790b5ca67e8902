"""What a trained HCL model leaves behind: weights, history, items, metrics and a card."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from torch import nn
from transformers import AutoTokenizer

from models.hcl import HclModel
from models.hcl.alarms import find_alarms
from models.hcl.warm_start import InitReport
from models.training import History
from stages.artifacts.model_folder import write_history
from stages.artifacts.paths import ModelPaths
from stages.artifacts.tables import Provenance, atomic_folder, write_json, write_table
from stages.encoders import ResolvedEncoder
from stages.runtime.training import selection
from stages.tracks.hcl.lookup import TrainedOn, save_lookup

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
    """

    model: HclModel
    items: pd.DataFrame
    history: History
    start: InitReport | None = None


def training_metrics(trained: TrainedHcl) -> dict[str, Any]:
    """Return the ``metrics.json`` of a model: selection, alarms, and how many keywords the graph knows.

    ``keywords`` holds, for the validation and test splits, the share of inputs whose keyword is a node of the
    training graph; the prior reads the frozen embedding of the others.
    """
    history = trained.history
    known = trained.items["input_node"] >= 0
    shares = {split: float(known[trained.items["split"] == split].mean()) for split in ("validation", "test")
              if (trained.items["split"] == split).any()}
    alarms = find_alarms(history.rows, trained.model.config)
    return {**selection(history), "alarms": [asdict(alarm) for alarm in alarms], "keywords": shares}


def model_card(name: str, trained: TrainedHcl, on: TrainedOn, values: Mapping[str, Any], start: str | None) -> str:
    """Return the README of the saved model; ``start`` names the model that it was initialised from."""
    best = ", ".join(f"{key} {value:.4f}" for key, value in trained.history.best.items())
    counts = trained.items["split"].value_counts()
    metrics = training_metrics(trained)
    begun = "" if start is None or trained.start is None else (
        f"\n- Initialised from model {start}: {len(trained.start.copied)} parameters taken over, "
        f"{len(trained.start.left)} left as drawn")
    alarms = "\n".join(f"- **{alarm['name']}** (since epoch {alarm['epoch']}): {alarm['message']}. What to try: "
                       f"{alarm['advice']}." for alarm in metrics["alarms"]) or "- none"
    known = ", ".join(f"{share:.1%} of {split}" for split, share in metrics["keywords"].items())
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---
# HCL model {name}

Rewrites a sentence under the guidance of its keyword (Keywords and Instances, ACL 2022). Trained by Keycontrast on the
data set `{on.dataset}`: {counts.get("train", 0)} triples, {counts.get("validation", 0)} for selection.

- Encoder at the start: {on.encoder["name"]} (version {on.encoder["version"]}, sha256 {on.encoder["sha256"]}){begun}
- Best epoch {trained.history.best_epoch} of {values["training"]["epochs"]}: {best}
- Graph: {trained.model.graph.num_nodes} keywords, {trained.model.graph.num_edges} edges, self loops included; inputs \
whose keyword it knows: {known}
- `config.json` holds the settings, `keywords.json` the keyword of each node, `trained_on.json` where it came from

Alarms of the training:
{alarms}

Use it with `keycontrast predict RUN "a sentence"`, or `models.hcl.HclModel.from_pretrained(FOLDER).paraphrase(...)`.
"""


def write_trained(name: str, trained: TrainedHcl, card: str, on: TrainedOn, keywords: list[str],
                  encoder: ResolvedEncoder, provenance: Provenance) -> None:
    """Write the folder ``artifacts/models/NAME``.

    Args:
        name: of the model.
        trained: what :func:`stages.tracks.hcl.train.run` returned.
        card: from :func:`model_card`.
        on: where the model came from.
        keywords: keyword of each node.
        encoder: whose tokenizer goes with the weights.
        provenance: of the table of items.
    """
    paths = ModelPaths(name)
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(trained.model, "cpu")
        trained.model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(encoder.location).save_pretrained(folder)
        save_lookup(folder, keywords, on)
        (folder / "README.md").write_text(card, encoding="utf-8")
    write_history(paths.history, trained.history.rows)
    write_table(paths.items, "items", trained.items[_ITEM_COLUMNS], provenance)
    write_json(paths.metrics, training_metrics(trained))
