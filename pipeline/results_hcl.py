"""What the results document says of HCL alone: settings, triples and graph, monitors and alarms."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.markdown import escaped, table
from pipeline.results_run import Material, percent, sizes
from pipeline.results_tables import NOTHING, ordinary_table, worth
from stages.results.model import Block, Model
from stages.results.page.labels import settings_text
from stages.results.published import paper
from stages.runtime.settings import Params

TRAININGS = "monitors and alarms"
_BOUNDS = (("share_input_equals_output", "k_x = k_y+: nothing to pull together"),
           ("share_output_equals_negative", "k_y+ = k_y-: a negative about the same"),
           ("share_with_negative_neighbour", "output keyword with a negative neighbour in the graph"),
           ("share_own_negative_only", "only the item's own negative keyword"),
           ("share_masked", "neither: left out of both keyword contrasts"))
_ORDINARY = ("Corpus BLEU is cumulative and unsmoothed. Source BLEU compares an output with its own source: lower "
             "means more rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2.")


def settings(params: Params) -> str:
    """Return what all models share."""
    training = params.train_hcl.training
    frozen = (f"embeddings and lowest {training.freeze_layers} layers frozen" if training.freeze_layers
              else "trained as a whole")
    return (f"encoder {escaped(params.encoder.source)}, {frozen}; {params.train_hcl.decoder.layers} decoder layers; at "
            f"most {training.epochs} epochs of batches of {training.batch_size}")


def counts(material: Material, block: Block) -> list[str]:
    """Return the sizes of a data set, its triples under every rule, the bounds of the contrasts, and its graph."""
    found = material.counts[block.dataset]
    ingest, graph, keywords = (found.get(stage, {}) for stage in ("ingest", "graph", "keywords"))
    lines = [f"**{escaped(block.dataset)}**: {sizes(material, block)} items; negatives "
             f"**{escaped(ingest.get('negative_source'))}**, split by {escaped(ingest.get('split_by'))}.", "",
             *_triples(ingest, block.kind)]
    shares = [[text, percent(graph[key])] for key, text in _BOUNDS if key in graph]
    if shares:
        lines += ["", "What bounds the keyword contrasts: shares of the training items.", "",
                  *table(["", "share"], shares), ""]
    known = keywords.get("share_source_known", {}).get(block.split)
    nodes, positive, negative = (graph.get(key, 0) for key in ("nodes", "edges_positive", "edges_negative"))
    said = f"The graph has {nodes:,} keywords, {positive:,} positive and {negative:,} negative edges."
    if known is not None:
        said += f" {percent(known)} of the inputs of {block.split} have a keyword that is a node."
    return [*lines, said]


def _triples(ingest: Mapping[str, Any], kind: str | None) -> list[str]:
    """Return the triples that each rule and each source of negatives would give, the one taken marked."""
    rows = [("negatives", source, count, source == ingest.get("negative_source"))
            for source, count in ingest.get("triples_by_negative_source", {}).items()]
    rows += [("rule, labelled negatives", rule, count,
              rule == ingest.get("rule") and ingest.get("negative_source") == "labelled")
             for rule, count in ingest.get("labelled_triples_by_rule", {}).items()]
    if not rows:
        return []
    known = kind == "qqp"
    samples = paper("hcl").facts["triples"]["samples"]
    heads = ["", "", "triples", *([f"of the paper's {samples:,}"] if known else [])]
    made = [[what, f"**{escaped(name)}** (taken)" if taken else escaped(name), f"{count:,}",
             *([percent(count / samples)] if known else [])] for what, name, count, taken in rows]
    return table(heads, made, left=2)


def reading(block: Block) -> str:
    """Return what the main metrics are."""
    return ("BLEU-n is the mean of sentence BLEU of order n alone with smoothing 7, as HCL reports it: a copy of "
            "its reference scores 1.33, 1.11, 1.04, 1.01. Never set it beside ordinary BLEU. Word vectors of "
            f"Extrema, Average and Greedy: {described(block.settings.get('emb'))}.")


def beside(block: Block) -> str:
    """Return how far the published rows may be compared with ours."""
    return ("*Paper* rows are as published. **They are not comparable at this scale**: other training data and "
            "amounts, another encoder, other word vectors, other test items.")


def sections(material: Material, block: Block) -> list[tuple[str, list[str]]]:
    """Return the sections after the main table: title and lines."""
    return [("ordinary metrics", ordinary(block, _ORDINARY)),
            ("what each part is worth", worth(block, material.params.compare.level))]


def ordinary(block: Block, said: str) -> list[str]:
    """Return the ordinary metrics of a block after what is said of them."""
    scorer = block.settings.get("bertscore")
    scored = f" BERTScore: F1 under {described(scorer)}, raw." if scorer else ""
    return [said + scored, "", *ordinary_table(block)]


def described(model: Any) -> str:
    """Return the name of an encoder or of word vectors, with the layer if there is one."""
    if not isinstance(model, Mapping):
        return escaped(model or "not named")
    layer = f", layer {model['layer']}" if "layer" in model else ""
    return escaped(f"{model.get('name') or settings_text(model)}{layer}")


def trainings(models: Sequence[Model]) -> list[str]:
    """Return what the trainings watched, at the epoch that was kept, and the alarms that they raised."""
    contrasts = list(dict.fromkeys(name.removeprefix("train_").removesuffix("_vanished") for model in models
                                   if model.history is not None for name in model.history
                                   if name.startswith("train_") and name.endswith("_vanished")))
    rows = [[escaped(model.name), *_watched(model, contrasts)] for model in models]
    heads = ["model", "validation loss", "KL (nats)", "active units", "from q", "from p", "from zero",
             *(f"{escaped(name)} vanished" for name in contrasts)]
    alarms = [[escaped(model.name), f"**{escaped(alarm.get('name'))}**", str(alarm.get("epoch")),
               escaped(alarm.get("message")), escaped(alarm.get("advice"))]
              for model in models for alarm in model.metrics.get("alarms", [])]
    return ["On validation, at the epoch that was kept. *From q, p, zero*: reconstruction in nats per item with z from "
            "the posterior, from the prior, and 0; where all three are alike, z is not used. *Vanished*: share of the "
            "training samples for which a contrast is below 0.01, where it teaches nothing more.", "",
            *table(heads, rows), "",
            *(table(["model", "alarm", "epoch", "what was seen", "what to try"], alarms, left=5) if alarms
              else ["No alarm was raised."])]


def _watched(model: Model, contrasts: Sequence[str]) -> list[str]:
    values, kept = model.metrics.get("validation", {}), model.kept

    def text(digits: int, name: str) -> str:
        value = next((found for found in (values.get(name), kept.get(f"validation_{name}"))
                      if isinstance(found, int | float) and found == found), None)
        return NOTHING if value is None else f"{value:.{digits}f}"

    shares = [kept.get(f"train_{name}_vanished", values.get(f"{name}_vanished")) for name in contrasts]
    return [text(4, "loss"), text(2, "kl"), text(0, "active_units"),
            *(text(2, name) for name in ("reconstruction", "reconstruction_prior", "reconstruction_zero")),
            *(NOTHING if share is None or share != share else percent(share) for share in shares)]
