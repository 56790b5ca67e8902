"""The sections of a results block as Markdown: what was run, what came out, the monitors; see also results_worth."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline import results_clld as clld
from pipeline.markdown import escaped, table
from pipeline.results_material import Evaluated, Material, System, Trained, Value, own
from pipeline.results_tracks import CLLD, HCL, NOTHING, PGKPR, Column
from stages.artifacts.schemas import SPLITS
from stages.results.reporting.labels import settings_text
from stages.results.reporting.published import NOTES, PAPER_TRIPLES, PublishedRow
from stages.runtime.settings import Params
from stages.tracks.pgkpr.architectures import ARCHITECTURES

_BOUNDS = (("share_input_equals_output", "k_x = k_y+: nothing to pull together"),
           ("share_output_equals_negative", "k_y+ = k_y-: a negative about the same"),
           ("share_with_negative_neighbour", "output keyword with a negative neighbour in the graph"),
           ("share_own_negative_only", "only the item's own negative keyword"),
           ("share_masked", "neither: left out of both keyword contrasts"))


def what_was_run(material: Material) -> list[str]:
    """Return recipe, sizes, counts under every rule, bounds of the contrasts, settings, seeds and durations."""
    params, lines = material.params, []
    recipe = f"Recipe {escaped(params.recipe)}; "
    for number, track in enumerate(dict.fromkeys(evaluated.track for evaluated in material.evaluated)):
        settings = {HCL: _hcl_settings, PGKPR: _pgkpr_settings, CLLD: clld.settings}[track](params)
        lines += [f"{recipe if not number else f'{track.title}: '}{settings}, unless a row says otherwise.", ""]
    for evaluated in unique(material.evaluated):
        lines += [*{HCL: _counts, PGKPR: _pairs, CLLD: clld.texts}[evaluated.track](material, evaluated), ""]
    lines += [*_rows_run(material), "", *_durations(material)]
    return lines


def _hcl_settings(params: Params) -> str:
    training = params.train_hcl.training
    frozen = (f"embeddings and lowest {training.freeze_layers} layers frozen" if training.freeze_layers
              else "trained as a whole")
    return (f"encoder {escaped(params.encoder.source)}, {frozen}; {params.train_hcl.decoder.layers} decoder layers; at "
            f"most {training.epochs} epochs of batches of {training.batch_size}")


def _pgkpr_settings(params: Params) -> str:
    block, items = params.train_pgkpr, params.paraphrase_items
    sizes, training = block.sizes, block.training
    return (f"Transformers of {sizes.layers} + {sizes.layers} layers, {sizes.heads} heads and widths {sizes.width} and "
            f"{sizes.feed_forward}; keyword scores of training: {escaped(block.keywords.train_scores)}; at most "
            f"{items.vocabulary:,} words in the vocabulary, {items.max_length} words of a text read; at most "
            f"{training.epochs} epochs of batches of {training.batch_size}, {_rates(params)}")


def _rates(params: Params) -> str:
    """Return the learning rate of the recipe; where it leaves that open, those of the architectures that rows have."""
    rate = params.train_pgkpr.training.learning_rate
    if rate is not None:
        return f"learning rate {rate:g}"
    by_rate: dict[float, list[str]] = {}
    for architecture in dict.fromkeys(params.model(name).architecture for name in params.models.pgkpr):
        by_rate.setdefault(ARCHITECTURES[architecture].rate, []).append(escaped(architecture))
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(names)})" for rate, names in by_rate.items())


def unique(evaluated: Iterable[Evaluated]) -> list[Evaluated]:
    """Return the first of each data set and track."""
    return list({(one.dataset, one.track.key): one for one in reversed(list(evaluated))}.values())[::-1]


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


def _pairs(material: Material, evaluated: Evaluated) -> list[str]:
    """Return how many pairs and words there are, and how many words models cannot read."""
    ingest, items = (material.counts[evaluated.dataset].get(stage, {}) for stage in ("ingest", "paraphrase_items"))
    examples = ingest.get("examples", {})
    sizes = ", ".join(f"{examples[split]:,} {split}" for split in SPLITS if split in examples)
    own = items.get(evaluated.split, {})
    pairs = sum(items.get(split, {}).get("pairs", 0) for split in SPLITS)
    said = [f"{items['vocabulary']['words']:,} words and {items['vocabulary']['tags']:,} tags in the vocabulary"]
    said += [f"{_percent(own[side]['outside_vocabulary'])} of the words of its {side}s are outside of it, and "
             f"{_percent(own[side]['cut'])} are cut" for side in ("source", "target") if side in own]
    keywords = own.get("expected_keywords", {}).get("xx")
    if keywords is not None:
        said.append(f"{keywords:.1f} keywords of a source are expected by attribution")
    return [f"**{escaped(evaluated.dataset)}**: {sizes} items, each with its references {pairs:,} pairs; "
            f"{said[0]}. Of {evaluated.split}: {'; '.join(said[1:])}."]


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
            all_models, runs = own(material.params, evaluated.track)
            models = list(dict.fromkeys(runs[run].model for run in system.runs))
            epochs = " ".join(f"{trained[name].metrics.get('best_epoch')}/{trained[name].metrics.get('epochs')}"
                              for name in models)
            starts = dict.fromkeys(getattr(all_models[name], "init_from", None) for name in models)
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
    missing = [model.name for model in material.trained
               if f"train_{model.track}@{model.name}" not in material.seconds]
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
    """Return the table as the track's paper reports it, every row with its interval and the published row below it."""
    columns = _measured(evaluated.track.main, evaluated)
    rows, flags, beside = [], [], set()
    for system in (*evaluated.floors, *evaluated.systems):
        rows += _system_rows(system, columns, level)
        # Two readings of one row of the paper stand beside it together.
        if system.published is not None and system.published.name not in beside:
            beside.add(system.published.name)
            row, found = _published_cells(system.published, columns)
            rows.append(row)
            flags += found
    lines = [f"Split {evaluated.split}, {evaluated.counts.get('examples', 0):,} "
             f"{'texts' if evaluated.track is CLLD else 'items'}. "
             f"{_reading(evaluated)} Means over seeds ± their standard deviation; intervals are bootstrapped over "
             "items.", ""]
    if beside and evaluated.track is CLLD:
        lines += [clld.beside(evaluated), ""]
    elif beside:
        lines += [f"*Paper* rows are as published. **They are not comparable at this scale**: {_other(evaluated)}, "
                  "other test items.", ""]
    lines += table(["row", *(column.heading for column in columns)], rows)
    return lines + [line for flag in dict.fromkeys(flags) for line in ("", f"({flag}) {NOTES[flag]}")]


def _reading(evaluated: Evaluated) -> str:
    """Return what the main metrics are."""
    settings = evaluated.settings
    if evaluated.track is CLLD:
        return clld.READING
    if evaluated.track is HCL:
        return ("BLEU-n is the mean of sentence BLEU of order n alone with smoothing 7, as HCL reports it: a copy of "
                "its reference scores 1.33, 1.11, 1.04, 1.01. Never set it beside ordinary BLEU. Word vectors of "
                f"Extrema, Average and Greedy: {_described(settings.get('emb'))}.")
    return ("All times 100. BLEU-n is cumulative corpus BLEU without smoothing, ROUGE is F1 as py-rouge counts it; "
            f"both under the released normalisation: references are cut to {settings.get('reference_words', '?')} "
            "words, and words outside the vocabulary become [unk], which counts as a match (the next table has them "
            "raw). Source BLEU compares an output with its own source; iBLEU weighs BLEU with 0.8 and source BLEU with "
            "-0.2, both raw. Keywords kept: share of the source's keywords, by attribution from the source alone, that "
            "the output shows.")


def _other(evaluated: Evaluated) -> str:
    """Return what differs from the paper."""
    if evaluated.track is HCL:
        return "other training data and amounts, another encoder, other word vectors"
    return "other amounts of training data, smaller models, less training, other tokens"


def _described(model: Any) -> str:
    """Return the name of an encoder or of word vectors, with the layer if there is one."""
    if not isinstance(model, Mapping):
        return escaped(model or "not named")
    layer = f", layer {model['layer']}" if "layer" in model else ""
    return escaped(f"{model.get('name') or settings_text(model)}{layer}")


def _system_rows(system: System, columns: Sequence[Column], level: float) -> list[list[str]]:
    values = [system.values.get(column.key) for column in columns]
    rows = [[_name(system), *(_text(value, column) for value, column in zip(values, columns, strict=True))]]
    if any(value and value.interval for value in values):
        rows.append([f"{100 * level:g} % interval", *(_range(value, column)
                                                      for value, column in zip(values, columns, strict=True))])
    return rows


def _name(system: System) -> str:
    return f"**{escaped(system.name)}**" if system.runs else f"*floor: {escaped(system.name)}*"


def _text(value: Value | None, column: Column) -> str:
    if value is None:
        return NOTHING
    mean, sd = (None if one is None else f"{column.scale * one:.{column.digits}f}" for one in (value.mean, value.sd))
    return f"{mean}" + ("" if sd is None else f" ± {sd}")


def _range(value: Value | None, column: Column) -> str:
    if value is None or value.interval is None:
        return NOTHING
    low, high = (f"{column.scale * end:.{column.digits}f}" for end in value.interval)
    return f"{low} to {high}"


def _published_cells(row: PublishedRow, columns: Sequence[Column]) -> tuple[list[str], list[str]]:
    cells, flags = [f"*paper: {escaped(row.name)}*" + (f" ({row.flag})" if row.flag else "")], [row.flag]
    for column in columns:
        cell = row.cells.get(column.key)
        flags.append(cell.flag if cell else "")
        cells.append(NOTHING if cell is None else cell.text + (f" ({cell.flag})" if cell.flag else ""))
    return cells, [flag for flag in flags if flag]


def ordinary_table(evaluated: Evaluated) -> list[str]:
    """Return ordinary BLEU, ROUGE, BERTScore, variety, rewriting and keyword retention."""
    columns = _measured(evaluated.track.ordinary, evaluated)
    rows = [[_name(system), *(_text(system.values.get(column.key), column) for column in columns)]
            for system in (*evaluated.floors, *evaluated.systems)]
    scorer = evaluated.settings.get("bertscore")
    scored = f" BERTScore: F1 under {_described(scorer)}, raw." if scorer else ""
    said = ("Corpus BLEU is cumulative and unsmoothed. Source BLEU compares an output with its own source: lower means "
            "more rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2."
            if evaluated.track is HCL else
            "Of whole references and real words. Corpus BLEU is cumulative and unsmoothed. py-rouge pools counts over "
            "the references, ROUGE without a name beside it is rouge_score's, with the best reference.")
    return [said + scored, "", *table(["row", *(column.heading for column in columns)], rows)]


def _measured(columns: Sequence[Column], evaluated: Evaluated) -> list[Column]:
    systems = (*evaluated.floors, *evaluated.systems)
    return [one for one in columns if any(one.key in system.values for system in systems)]


def monitors(trained: Sequence[Trained]) -> list[str]:
    """Return what the trainings of HCL watched, at the epoch that was kept, and the alarms that they raised."""
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
    values, last = model.metrics.get("validation", {}), _kept_epoch(model)

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


def losses(trained: Sequence[Trained]) -> list[str]:
    """Return the parts of the validation loss of models of PGKPR, at the epoch that was kept; they raise no alarms."""
    parts = ("loss", "generation", "reconstruction", "contrast", "bow")
    rows = [[escaped(model.name), *_at_best(model, parts)] for model in trained]
    return ["On validation, at the epoch that was kept, in nats: generation per word of the target, reconstruction per "
            "token of the two-part input, contrast and bag of words per pair; the loss is their weighted sum.", "",
            *table(["model", *parts], rows)]


def _at_best(model: Trained, parts: Sequence[str]) -> list[str]:
    kept = _kept_epoch(model)
    values = [kept.get(f"validation_{part}") for part in parts]
    return [NOTHING if value is None or value != value else f"{value:.4f}" for value in values]


def _kept_epoch(model: Trained) -> dict[str, Any]:
    """Return the row of the history whose weights were kept; nothing if it is not there."""
    history, best = model.history, model.metrics.get("best_epoch")
    kept = history[history["epoch"] == best] if "epoch" in history else history.iloc[:0]
    return {str(name): value for name, value in kept.iloc[-1].to_dict().items()} if len(kept) else {}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
