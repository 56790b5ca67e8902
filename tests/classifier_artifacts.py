"""Artifacts of a small recipe of classifiers, with texts and classes that try to break the page."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from report_artifacts import ATTACK, IMAGE, add_comparison, paired_row, provenance, write_model
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from pipeline.schemas import SCHEMAS
from stages.common.paths import ModelPaths, RunPaths, row_name
from stages.common.tables import write_json, write_table
from stages.tracks.clld.evaluate import brier, nll
from stages.tracks.clld.tables import class_table, confusion_table

# One without any text, one that tries to break the page, one in another script, one with a long name.
CLASSES = sorted(["alt.atheism", ATTACK, "nothing.in.it", "talk.religion.misc", "עברית",
                  "a.class.whose.name.does.not.come.to.an.end.before.the.edge.of.any.telephone"])
EMPTY = CLASSES.index("nothing.in.it")
ATHEISM, RELIGION = CLASSES.index("alt.atheism"), CLASSES.index("talk.religion.misc")
TEXTS = 60
BINS = 5
# Model, as results call it: its block in the params, and the share of texts that it has right.
CLASSIFIERS = {
    "ct/13": ({"encoder": "textcnn", "seeds": [13, 99]}, 0.6), "ct/99": ({}, 0.65),
    "cl/13": ({"encoder": "textcnn", "contrast": "uniform", "seeds": [13, 99]}, 0.7), "cl/99": ({}, 0.75),
    "clsled": ({"encoder": "textcnn", "contrast": "static_tau_pairs",
                "pairs_of": "artifacts/confusing_pairs/ct"}, 0.75),
    "clald": ({"encoder": "textcnn", "contrast": "adaptive"}, 0.8),
    "mini": ({"encoder": "bundled"}, 0.85), "mini-cl": ({"encoder": "bundled", "contrast": "uniform"}, 0.9),
    "simcse": ({"encoder": "bundled", "contrast": "simcse", "overrides": {"contrast": {"temperature": 0.1}}}, 0.8)}
ROWS = {row_name(name): block for name, (block, _) in CLASSIFIERS.items() if block}


def seed_of(name):
    """The seed of what results call ``name``: 13 where they do not say."""
    return int(name.partition("/")[2] or 13)


def texts_of(count=TEXTS):
    """Texts with their classes, of which one class has none and another one text alone."""
    labels = [(ATHEISM, RELIGION, CLASSES.index(ATTACK), CLASSES.index("עברית"))[place % 4] for place in range(count)]
    labels[-1] = next(place for place, name in enumerate(CLASSES) if name.startswith("a.class"))
    texts = [f"{'God ' * (place % 7)}text {place} {ATTACK if place % 5 == 0 else IMAGE} \u2028 & more"
             for place in range(count)]
    texts[2] = "A long text. " * 200
    return np.array(labels), texts


def answers(seed, right, labels):
    """Probabilities (n, N) of a classifier that is right in about that share of texts, else takes neighbours."""
    random = np.random.default_rng(seed)
    wrong = np.where(labels == ATHEISM, RELIGION, np.where(labels == RELIGION, ATHEISM, (labels + 1) % len(CLASSES)))
    said = np.where(random.random(len(labels)) < right, labels, wrong)
    said = np.where(said == EMPTY, ATHEISM, said)
    logits = random.normal(size=(len(labels), len(CLASSES)))
    logits[np.arange(len(labels)), said] = logits.max(1) + random.exponential(1.5, len(labels))
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def class_predictions(labels, texts, probabilities):
    said = probabilities.argmax(1)
    return pd.DataFrame({
        "example_id": np.arange(100, 100 + len(labels)), "text_id": np.arange(len(labels)), "text": texts,
        "label": [CLASSES[place] for place in labels], "predicted": [CLASSES[place] for place in said],
        "probability": probabilities.max(1), "probabilities": list(probabilities)})


def class_scores(system, labels, probabilities):
    said = probabilities.argmax(1)
    return pd.DataFrame({
        "system": system, "example_id": np.arange(len(labels)) + 100, "label": [CLASSES[place] for place in labels],
        "predicted": [CLASSES[place] for place in said], "correct": labels == said, "probability": probabilities.max(1),
        "nll": nll(labels, probabilities), "brier": brier(labels, probabilities)})


def majority_scores(labels):
    said = np.full(len(labels), np.bincount(labels).argmax())
    return class_scores("majority", labels, np.eye(len(CLASSES))[said]).assign(probability=None, nll=None, brier=None)


def metrics_of(scores):
    names, predicted = scores["label"], scores["predicted"]
    found = {"accuracy": accuracy_score(names, predicted), "macro_f1": f1_score(names, predicted, average="macro"),
             "weighted_f1": f1_score(names, predicted, average="weighted")}
    if scores["nll"].notna().all():
        found |= {"nll": float(scores["nll"].mean()), "brier": float(scores["brier"].mean()), "ece": 0.05}
    return {name: float(value) for name, value in found.items()}


@cache
def evaluated(seed, right, count):
    """Tables of a run by name, its metrics and those of the baselines; only read, for many tests write the same."""
    labels, texts = texts_of(count)
    probabilities = answers(seed, right, labels)
    said, scores = probabilities.argmax(1), class_scores("run", labels, probabilities)
    counts = confusion_matrix(labels, said, labels=range(len(CLASSES)))
    baselines = {"majority": majority_scores(labels), "linear": class_scores("linear", labels, answers(1, 0.5, labels))}
    tables = {"class_predictions": class_predictions(labels, texts, probabilities),
              "class_scores": pd.concat([scores, *baselines.values()], ignore_index=True),
              "classes": class_table(counts, CLASSES), "confusion": confusion_table(counts, CLASSES)}
    return tables, metrics_of(scores), {baseline: metrics_of(rows) for baseline, rows in baselines.items()}


def write_classifier_run(name, seed, right, split="test", count=TEXTS):
    paths = RunPaths(row_name(name), seed_of(name))
    tables, own, baselines = evaluated(seed, right, count)
    made = provenance(f"evaluate_clld@{paths.name}")
    places = {"class_predictions": paths.predictions, "class_scores": paths.scores}
    for kind, rows in tables.items():
        write_table(places.get(kind) or paths.table(kind), SCHEMAS[kind], rows, made)
    write_json(paths.metrics, {
        "run": own, "baselines": baselines,
        "intervals": {"run": {"accuracy": [own["accuracy"] - 0.05, own["accuracy"] + 0.05]}, "baselines": {}},
        "counts": {"examples": count}, "settings": {"split": split, "leading": ["accuracy", "macro_f1"], "level": 0.95,
                                                    "bins": BINS, "model": paths.name}})


def distance_rows(moves):
    """Rows of table ``label_distance``: one matrix per evaluation, from distances of pairs, both ways."""
    rows = []
    for number, (epoch, step, strength, pairs) in enumerate(moves):
        for one in range(len(CLASSES)):
            for other in range(len(CLASSES)):
                rows.append({"evaluation": 10 * number, "epoch": epoch, "step": step, "strength": strength,
                             "class": CLASSES[one], "other": CLASSES[other],
                             "distance": pairs.get((one, other), pairs.get((other, one), 1.0))})
    return pd.DataFrame(rows, columns=["evaluation", "epoch", "step", "strength", "class", "other", "distance"])


def write_classifier(name):
    paths = ModelPaths(row_name(name), seed_of(name))
    contrast = ROWS[paths.name].get("contrast", "none")
    own = ",train_contrast" if contrast != "none" else ""
    rows = [f"{epoch},{10 * epoch},{1.5 - epoch / 10},{1.5 - epoch / 10},{0.5 + epoch / 20}"
            f"{',0.25' if own else ''},{1.25 - epoch / 20},{0.55 + epoch / 20},{0.5 + epoch / 20},0.001,{epoch == 2}"
            for epoch in (1, 2, 3)]
    heads = f"epoch,step,train_loss,train_ce,train_accuracy{own},validation_loss,validation_accuracy"
    write_model(paths.name, "\n".join([f"{heads},validation_macro_f1,rate,best", *rows, ""]), paths.seed)
    pair, other = (ATHEISM, RELIGION), (CLASSES.index(ATTACK), CLASSES.index("עברית"))
    moves = {"uniform": [(0, 0, None, {})], "static_tau_pairs": [(0, 0, None, {pair: 5.0})],
             "adaptive": [(0, 0, None, {}), (2, 10, 0.66, {pair: 4.2, other: 1.5}), (3, 20, 0.33, {pair: 3.1})]}
    write_table(paths.table("label_distance"), SCHEMAS["label_distance"], distance_rows(moves.get(contrast, [])),
                provenance(f"train_clld@{paths.name}"))


def write_class_comparison():
    """Two seeds of CT and of CT+CL taken together, beside the comparisons of other tracks."""
    two = {metric: {"mean": 0.7123, "sd": 0.0123, "low": 0.6, "high": 0.8} for metric in ("accuracy", "macro_f1")}
    one = {"mean": 0.75, "sd": None, "low": 0.7, "high": 0.8}
    groups = {"ct (2 seeds)": {"runs": ["ct/13", "ct/99"], "seeds": [13, 99], **two},
              "cl (2 seeds)": {"runs": ["cl/13", "cl/99"], "seeds": [13, 99], **two},
              **{name: {"runs": [name], "seeds": [seed_of(name)], "accuracy": one, "macro_f1": one}
                 for name in CLASSIFIERS},
              **{f"baseline {name}": {"runs": [], "seeds": [], "accuracy": one} for name in ("majority", "linear")}}
    pairs = (("ct (2 seeds)", "cl (2 seeds)", -0.05), ("ct (2 seeds)", "clsled", -0.06),
             ("cl (2 seeds)", "clsled", -0.01), ("cl (2 seeds)", "clald", 0.04), ("mini", "mini-cl", -0.02),
             ("ct (2 seeds)", "clald", 0.02), ("ct (2 seeds)", "baseline linear", 0.08))
    add_comparison("20ng/test", TEXTS, groups, [paired_row(metric, *pair, 0.03, value=0.7)
                                                for metric in ("accuracy", "macro_f1") for pair in pairs])


def write_classifiers(**changes):
    """Write params and artifacts of a recipe of CLLD; with those of other tracks there, all are in the params."""
    for place, (name, (_, right)) in enumerate(CLASSIFIERS.items()):
        write_classifier(name)
        write_classifier_run(name, place, right)
    write_class_comparison()
    content = yaml.safe_load(Path("params.yaml").read_text()) if Path("params.yaml").exists() else {
        "recipe": "tiny-clld", "seed": 13, "datasets": {}, "models": {}, "runs": {}}
    content["datasets"]["20ng"] = {"source": "data/20ng.jsonl", "layout": "labelled",
                                   "columns": {"label": "label"}}
    content["models"]["clld"] = {name: {"dataset": "20ng", **block} for name, block in ROWS.items()}
    content["linear_baseline"] = {"datasets": ["20ng"]}
    content["confusing_pairs"] = {"models": ["ct"]}
    Path("params.yaml").write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
