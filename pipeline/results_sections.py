"""The sections of a results block as Markdown: what was run, what came out, what each part is worth, the monitors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.markdown import escaped, table
from pipeline.results_material import Evaluated, Material, System, Trained, Value
from stages.artifacts.schemas import SPLITS
from stages.reporting.labels import settings_text
from stages.reporting.published import DROPS, HEADINGS, METRICS, NOTES, PAPER_TRIPLES, PublishedRow

NOTHING = "–"
# (key, heading, decimals); what was not measured is left out.
_MAIN = tuple((key, HEADINGS[key], 4) for key in METRICS)
_ORDINARY = (
    *((f"corpus_bleu_{order}", f"BLEU-{order}", 4) for order in range(1, 5)), ("sacrebleu", "sacreBLEU", 2),
    ("rouge_1", "ROUGE-1", 4), ("rouge_2", "ROUGE-2", 4), ("rouge_l", "ROUGE-L", 4),
    ("bertscore", "BERTScore", 4),
    ("distinct_1", "distinct-1", 4), ("distinct_2", "distinct-2", 4), ("self_bleu", "self-BLEU", 4),
    ("source_bleu", "source BLEU", 4), ("ibleu", "iBLEU", 4), ("keyword_kept", "keyword kept", 4),
    ("target_keyword_kept", "target's keyword", 4), ("prior_keyword_kept", "prior's keyword", 4),
    ("mean_length", "tokens", 1))
_HEADING = {key: (heading if key in METRICS or not heading.startswith("BLEU") else f"corpus {heading}", digits)
            for key, heading, digits in (*_MAIN, *_ORDINARY)}
# One metric of each kind; others say the same in another guise.
_COMPARED = (*METRICS, "corpus_bleu_4", "sacrebleu", "rouge_1", "rouge_2", "rouge_l", "bertscore", "source_bleu",
             "ibleu", "keyword_kept", "target_keyword_kept")
_VERDICTS = ("helps", "hurts", "cannot be told")
_LESS_IS_BETTER = frozenset({"source_bleu"})
_PARTS = {"graph": "the graph", "keyword": "the keyword with both its contrasts", "instance": "the instance contrast",
          "keyword_contrast": "the keyword contrast", "mahalanobis": "the Mahalanobis contrast",
          "latent": "the latent variable with all that hangs on it"}
_BOUNDS = (("share_input_equals_output", "k_x = k_y+: nothing to pull together"),
           ("share_output_equals_negative", "k_y+ = k_y-: a negative about the same"),
           ("share_with_negative_neighbour", "output keyword with a negative neighbour in the graph"),
           ("share_own_negative_only", "only the item's own negative keyword"),
           ("share_masked", "neither: left out of both keyword contrasts"))


def what_was_run(material: Material) -> list[str]:
    """Return recipe, sizes, counts under every rule, bounds of the contrasts, settings, seeds and durations."""
    params, lines = material.params, []
    training = params.train_hcl.training
    frozen = (f"embeddings and lowest {training.freeze_layers} layers frozen" if training.freeze_layers
              else "trained as a whole")
    lines += [f"Recipe {escaped(params.recipe)}; encoder {escaped(params.encoder.source)}, {frozen}; "
              f"{params.train_hcl.decoder.layers} decoder layers; at most {training.epochs} epochs of batches of "
              f"{training.batch_size}, unless a row says otherwise.", ""]
    for evaluated in unique(material.evaluated):
        lines += [*_counts(material, evaluated), ""]
    lines += [*_rows_run(material), "", *_durations(material)]
    return lines


def unique(evaluated: Iterable[Evaluated]) -> list[Evaluated]:
    """Return the first of each data set."""
    return list({one.dataset: one for one in reversed(list(evaluated))}.values())[::-1]


def _counts(material: Material, evaluated: Evaluated) -> list[str]:
    name = evaluated.dataset
    ingest, graph, keywords = (material.counts[name].get(stage, {}) for stage in ("ingest", "graph", "keywords"))
    examples = ingest.get("examples", {})
    sizes = ", ".join(f"{examples[split]:,} {split}" for split in SPLITS if split in examples)
    lines = [f"**{escaped(name)}**: {sizes} items; negatives **{escaped(ingest.get('negative_source'))}**, split by "
             f"{escaped(ingest.get('split_by'))}.", "", *_triples(ingest, evaluated.kind)]
    shares = [[text, _percent(graph[key])] for key, text in _BOUNDS if key in graph]
    if shares:
        lines += ["", "What bounds the keyword contrasts: shares of the training items.", "",
                  *table(["", "share"], shares), ""]
    known = keywords.get("share_source_known", {}).get(evaluated.split)
    nodes, positive, negative = (graph.get(key, 0) for key in ("nodes", "edges_positive", "edges_negative"))
    said = f"The graph has {nodes:,} keywords, {positive:,} positive and {negative:,} negative edges."
    if known is not None:
        said += f" {_percent(known)} of the inputs of {evaluated.split} have a keyword that is a node."
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
    paper = kind == "qqp"
    heads = ["", "", "triples", *([f"of the paper's {PAPER_TRIPLES['samples']:,}"] if paper else [])]
    made = [[what, f"**{escaped(name)}** (taken)" if taken else escaped(name), f"{count:,}",
             *([_percent(count / PAPER_TRIPLES["samples"])] if paper else [])] for what, name, count, taken in rows]
    return table(heads, made, left=2)


def _rows_run(material: Material) -> list[str]:
    trained = {model.name: model for model in material.trained}
    rows = []
    for evaluated in material.evaluated:
        for system in evaluated.systems:
            models = list(dict.fromkeys(material.params.runs.hcl[run].model for run in system.runs))
            epochs = " ".join(f"{trained[name].metrics.get('best_epoch')}/{trained[name].metrics.get('epochs')}"
                              for name in models)
            starts = dict.fromkeys(material.params.models.hcl[name].init_from for name in models)
            changes = [settings_text(system.changes), *(f"starts from {name}" for name in starts if name)]
            rows.append([escaped(system.name), escaped("; ".join(filter(None, changes)) or "nothing"),
                         ", ".join(map(str, system.seeds)), epochs])
    return table(["row", "what differs from the recipe", "seeds", "epoch kept/run"], rows, left=2)


def _durations(material: Material) -> list[str]:
    """Return how long stages took, by what they do."""
    sums: dict[str, float] = {}
    for name, seconds in material.seconds.items():
        stage = name.partition("@")[0]
        kind = "training" if stage.startswith("train_") else "decoding" if stage.startswith("generate_") else (
            "evaluation" if stage.startswith(("evaluate_", "compare")) else "data, keywords and the rest")
        sums[kind] = sums.get(kind, 0.0) + seconds
    if not sums:
        return ["No durations were recorded here: the artifacts were made elsewhere."]
    missing = [model.name for model in material.trained if f"train_hcl@{model.name}" not in material.seconds]
    said = ", ".join(f"{kind} {duration(seconds)}" for kind, seconds in sorted(sums.items()))
    line = f"Durations of the stages, summed ({duration(sum(sums.values()))}; some ran side by side): {said}."
    if material.devices:
        line += f" Some of it was computed on another machine: {', '.join(map(escaped, material.devices))}."
    return [line + (f" Trained elsewhere: {', '.join(map(escaped, missing))}." if missing else "")]


def duration(seconds: float) -> str:
    """Return a duration for people: ``duration(4000) == "1 h 7 min"``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def main_table(evaluated: Evaluated, level: float) -> list[str]:
    """Return the table as HCL reports it, every row with its interval and the published row below it."""
    columns = _measured(_MAIN, evaluated)
    rows, flags, beside = [], [], set()
    for system in (*evaluated.floors, *evaluated.systems):
        rows += _system_rows(system, columns, level)
        # Two readings of one row of the paper stand beside it together.
        if system.published is not None and system.published.name not in beside:
            beside.add(system.published.name)
            row, found = _published_cells(system.published, columns)
            rows.append(row)
            flags += found
    lines = [f"Split {evaluated.split}, {evaluated.counts.get('examples', 0):,} items. BLEU-n is the mean of sentence "
             "BLEU of order n alone with smoothing 7, as HCL reports it: a copy of its reference scores 1.33, 1.11, "
             "1.04, 1.01. Never set it beside ordinary BLEU. Word vectors of Extrema, Average and Greedy: "
             f"{_described(evaluated.settings.get('emb'))}. Means over seeds ± their standard deviation; intervals are "
             "bootstrapped over items.", ""]
    if beside:
        lines += ["*Paper* rows are as published. **They are not comparable at this scale**: other training data and "
                  "amounts, another encoder, other word vectors, other test items.", ""]
    lines += table(["row", *(heading for _, heading, _ in columns)], rows)
    return lines + [line for flag in dict.fromkeys(flags) for line in ("", f"({flag}) {NOTES[flag]}")]


def _described(model: Any) -> str:
    """Return the name of an encoder or of word vectors, with the layer if there is one."""
    if not isinstance(model, Mapping):
        return escaped(model or "not named")
    layer = f", layer {model['layer']}" if "layer" in model else ""
    return escaped(f"{model.get('name') or settings_text(model)}{layer}")


def _system_rows(system: System, columns: Sequence[tuple[str, str, int]], level: float) -> list[list[str]]:
    floor = not system.runs
    name = f"*floor: {escaped(system.name)}*" if floor else f"**{escaped(system.name)}**"
    values = [system.values.get(key) for key, _, _ in columns]
    digits = [places for _, _, places in columns]
    rows = [[name, *(_text(value, places) for value, places in zip(values, digits, strict=True))]]
    if any(value and value.interval for value in values):
        rows.append([f"{100 * level:g} % interval", *(_range(value, places)
                                                      for value, places in zip(values, digits, strict=True))])
    return rows


def _text(value: Value | None, digits: int) -> str:
    if value is None:
        return NOTHING
    return f"{value.mean:.{digits}f}" + ("" if value.sd is None else f" ± {value.sd:.{digits}f}")


def _range(value: Value | None, digits: int) -> str:
    if value is None or value.interval is None:
        return NOTHING
    return f"{value.interval[0]:.{digits}f} to {value.interval[1]:.{digits}f}"


def _published_cells(row: PublishedRow, columns: Sequence[tuple[str, str, int]]) -> tuple[list[str], list[str]]:
    cells, flags = [f"*paper: {escaped(row.name)}*" + (f" ({row.flag})" if row.flag else "")], [row.flag]
    for key, _, _ in columns:
        cell = row.cells.get(key)
        flags.append(cell.flag if cell else "")
        cells.append(NOTHING if cell is None else cell.text + (f" ({cell.flag})" if cell.flag else ""))
    return cells, [flag for flag in flags if flag]


def ordinary_table(evaluated: Evaluated) -> list[str]:
    """Return ordinary BLEU, ROUGE, BERTScore, variety, rewriting and keyword retention."""
    columns = _measured(_ORDINARY, evaluated)
    rows = [[f"*floor: {escaped(system.name)}*" if not system.runs else f"**{escaped(system.name)}**",
             *(_text(system.values.get(key), digits) for key, _, digits in columns)]
            for system in (*evaluated.floors, *evaluated.systems)]
    scorer = evaluated.settings.get("bertscore")
    scored = f" BERTScore: F1 under {_described(scorer)}, raw." if scorer else ""
    return ["Corpus BLEU is cumulative and unsmoothed. Source BLEU compares an output with its own source: lower means "
            "more rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2."
            + scored, "", *table(["row", *(heading for _, heading, _ in columns)], rows)]


def _measured(columns: Sequence[tuple[str, str, int]], evaluated: Evaluated) -> list[tuple[str, str, int]]:
    systems = (*evaluated.floors, *evaluated.systems)
    return [one for one in columns if any(one[0] in system.values for system in systems)]


def worth(evaluated: Evaluated, level: float) -> list[str]:
    """Return what each row's difference from the full method says of the part that the row does without.

    A part helps on a metric if the interval of full method minus row lies above 0 (below, where less is better),
    it hurts if it lies on the other side, and otherwise that cannot be told at this size.
    """
    base = evaluated.base
    others = [system for system in evaluated.systems if system is not base]
    if base is None:
        return ["No row is the full method, so that there is nothing to compare the others with."]
    rows, details = [], []
    for system in others:
        part = " and ".join(_PARTS[name] for name in sorted(system.removed)) or "the setting of the full method"
        found = _differences(evaluated.paired, base.name, system.name)
        details += [_detail(system.name, row) for row in found]
        rows.append([escaped(system.name), part, *_said(found), _relative(system, base), _paper_relative(system)])
    lines = [*_rule(base, evaluated, level, len(details)), *_against_floors(evaluated, base)]
    if not rows:
        return lines
    heads = ["row", "what it leaves out", "helps on", "hurts on", "cannot be told at this size", "BLEU-1, relative",
             "in the paper"]
    detail_heads = ["row", "metric", escaped(base.name), "row", "difference", f"{100 * level:g} % interval", "p",
                    "what it leaves out"]
    return [*lines, "", *table(heads, rows, left=5), "",
            "<details><summary>Every difference, with its interval and p</summary>", "",
            *table(detail_heads, details, left=2), "", "</details>"]


def _rule(base: System, evaluated: Evaluated, level: float, intervals: int) -> list[str]:
    items = evaluated.counts.get("examples", 0)
    return [f"**{escaped(base.name)}** minus each row on the same {items:,} items, paired bootstrap. The rule: what a "
            f"row leaves out *helps* on a metric if the {100 * level:g} % interval of the difference excludes 0 in its "
            "favour, it *hurts* if the interval excludes 0 the other way, and otherwise it *cannot be told at this "
            f"size*. Of {intervals} intervals about {round((1 - level) * intervals)} would exclude 0 by chance alone. "
            "Source BLEU counts as better where it is lower. Items are resampled and trained models stay as they are: "
            "a difference within the standard deviation over seeds may be one of seeds."]


def _against_floors(evaluated: Evaluated, base: System) -> list[str]:
    """Return on which metrics the full method is better than outputs that need no model."""
    rows = [[f"*floor: {escaped(floor.name)}*", *_said(found)] for floor in evaluated.floors
            if (found := _differences(evaluated.paired, base.name, f"floor {floor.name}"))]
    heads = ["", f"{escaped(base.name)} is better on", "worse on", "cannot be told at this size"]
    return ["", *table(heads, rows, left=4)] if rows else []


def _said(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the metrics by verdict: for the first system, against it, and not to be told."""
    if not found:
        return [NOTHING, NOTHING, "(not compared)"]
    by_verdict = ([_HEADING[row["metric"]][0] for row in found if _verdict(row) == verdict] for verdict in _VERDICTS)
    return [", ".join(names) or NOTHING for names in by_verdict]


def _relative(system: System, base: System) -> str:
    """Return BLEU-1 of a row relative to the full method's, in per cent, as the paper gives its drops."""
    own, full = system.values.get("bleu_1"), base.values.get("bleu_1")
    return NOTHING if own is None or full is None or not full.mean else f"{100 * (own.mean / full.mean - 1):+.1f} %"


def _paper_relative(system: System) -> str:
    row = system.published
    drop = next((drop for drop in DROPS if row is not None and drop.row == row.name), None)
    return NOTHING if drop is None else f"{drop.percent:+.1f} %"


def _differences(paired: pd.DataFrame, base: str, other: str) -> list[dict[str, Any]]:
    """Return ``base`` minus ``other`` on each of :data:`_COMPARED` that was compared."""
    kept = {}
    for row in paired.to_dict("records"):
        if {row["first"], row["second"]} != {base, other}:
            continue
        if row["first"] == other:
            row |= {"first_value": row["second_value"], "second_value": row["first_value"],
                    "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
        kept[row["metric"]] = row
    return [kept[key] for key in _COMPARED if key in kept]


def _verdict(row: Mapping[str, Any]) -> str:
    if row["low"] > 0 or row["high"] < 0:
        return _VERDICTS[0] if (row["low"] > 0) != (row["metric"] in _LESS_IS_BETTER) else _VERDICTS[1]
    return _VERDICTS[2]


def _detail(name: str, row: Mapping[str, Any]) -> list[str]:
    heading, digits = _HEADING[row["metric"]]
    p = "< 0.001" if row["p_value"] < 0.001 else f"{row['p_value']:.3f}"
    return [escaped(name), heading, f"{row['first_value']:.{digits}f}", f"{row['second_value']:.{digits}f}",
            f"{row['difference']:+.{digits}f}", f"{row['low']:+.{digits}f} to {row['high']:+.{digits}f}", p,
            _verdict(row)]


def monitors(trained: Sequence[Trained]) -> list[str]:
    """Return what the trainings watched, at the epoch that was kept, and the alarms that they raised."""
    rows = [[escaped(model.name), *_watched(model)] for model in trained]
    heads = ["model", "validation loss", "KL (nats)", "active units", "from q", "from p", "from zero",
             *(f"{name} vanished" for name in ("instance", "keyword", "Mahalanobis"))]
    alarms = [[escaped(model.name), f"**{escaped(alarm.get('name'))}**", str(alarm.get("epoch")),
               escaped(alarm.get("message")), escaped(alarm.get("advice"))]
              for model in trained for alarm in model.metrics.get("alarms", [])]
    return ["On validation, at the epoch that was kept. *From q, p, zero*: reconstruction in nats per item with z from "
            "the posterior, from the prior, and 0; where all three are alike, z is not used. *Vanished*: share of the "
            "training samples for which a contrast is below 0.01, where it teaches nothing more.", "",
            *table(heads, rows), "",
            *(table(["model", "alarm", "epoch", "what was seen", "what to try"], alarms, left=5) if alarms
              else ["No alarm was raised."])]


def _watched(model: Trained) -> list[str]:
    values = model.metrics.get("validation", {})
    history, best = model.history, model.metrics.get("best_epoch")
    kept = history[history["epoch"] == best] if "epoch" in history else history.iloc[:0]
    last = kept.iloc[-1].to_dict() if len(kept) else {}

    def text(digits: int, *names: str) -> str:
        for found in (values, last):
            value = next((found[name] for name in names if isinstance(found.get(name), int | float)), None)
            if value is not None and value == value:
                return f"{value:.{digits}f}"
        return NOTHING

    shares = []
    for name in ("instance", "keyword", "mahalanobis"):
        share = last.get(f"train_{name}_vanished", values.get(f"{name}_vanished"))
        shares.append(NOTHING if share is None or share != share else _percent(share))
    return [text(4, "loss", "validation_loss"), text(2, "kl", "validation_kl"),
            text(0, "active_units", "validation_active_units"),
            *(text(2, name, f"validation_{name}") for name in ("reconstruction", "reconstruction_prior",
                                                               "reconstruction_zero")), *shares]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
