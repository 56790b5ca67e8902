"""Artifacts of a small recipe for the report, with texts that try to break the page."""

import json
from pathlib import Path

import pandas as pd
import yaml

from pipeline.schemas import SCHEMAS
from stages.common.paths import COMPARISON, DatasetPaths, ModelPaths, RunPaths
from stages.common.tables import Provenance, read_frame, write_json, write_table

ATTACK = "<script>alert('x')</script>"
IMAGE = '<img src=x onerror="alert(1)">'
CLOSING = "</script><!-- <script> &amp; \"quoted\" 'too'"
SCRIPTS = "emoji 🦉 עברית \u2028 \u2029 减肥 e\u0301"
TEXTS = ["How do I lose belly fat?", "What helps against belly fat?", "Is belly fat useful?",
         f"Who wrote {ATTACK}?", "Who is the author?", "Who reads & writes?", f"Sleep {CLOSING} is good?",
         f"Why does {SCRIPTS} sleep {IMAGE} well?"]
KEYWORDS = ["belly fat", "belly fat", "belly fat", ATTACK, "author", "reads", "sleep", "עברית"]
NODES = sorted(set(KEYWORDS))
SHA256 = "ab" * 32
# Of the rows of HCL that have another than the project's.
SEEDS = {"plain": 99}
ITEMS = 30      # evaluated


def provenance(stage, **more):
    return Provenance(stage, "0" * 16, **more)


def node(keyword):
    return NODES.index(keyword)


def write_dataset():
    paths = DatasetPaths("tiny")
    count = 6 + ITEMS
    write_table(paths.table("examples"), SCHEMAS["examples"], pd.DataFrame({
        "example_id": range(count), "split": ["train"] * 6 + ["test"] * ITEMS,
        "source_id": [0, 3, 6, 7, 0, 5, *([0, 3, 6] * ITEMS)[:ITEMS]],
        "target_id": [1, 4, 7, 6, 7, 0, *([1, 4, 7] * ITEMS)[:ITEMS]],
        "negative_id": [2, 5, None, 0, 3, None, *([2, 5, None] * ITEMS)[:ITEMS]],
        "reference_ids": [[1]] * count, "group": range(count),
        "negative_origin": "given"}), provenance("ingest@tiny"))
    write_table(paths.table("texts"), SCHEMAS["texts"], pd.DataFrame({
        "text_id": range(len(TEXTS)), "text": TEXTS, "language": "en"}), provenance("ingest@tiny"))
    write_table(paths.table("keywords"), SCHEMAS["keywords"], pd.DataFrame({
        "text_id": range(len(TEXTS)), "keyword": KEYWORDS, "method": ["textrank"] * (len(TEXTS) - 1) + ["idf"],
        "score": 0.5}),
        provenance("keywords@tiny", fallbacks=["1 text has no ranked keyword: the word of highest IDF was taken"]))
    write_phrases(paths)
    write_table(paths.table("keyword_comparison"), SCHEMAS["keyword_comparison"], pd.DataFrame({
        "text_id": range(6), "textrank": [[keyword] for keyword in KEYWORDS[:6]], "idf": [["first", "second"]] * 6,
        "attribution": [["fat"], None, None, [ATTACK], [], None], "psi": [["lose"], None, None, ["wrote"], ["x"], None],
        "yake": [["belly"]] * 6}), provenance("keyword_comparison@tiny"))


def write_phrases(paths):
    """belly fat shares texts with sleep, the author and the attack; sleep with Hebrew, and the author with the attack.
    """
    edges = sorted((*sorted((node(one), node(other))), weight) for one, other, weight in (
        ("belly fat", "sleep", 3), ("belly fat", "author", 1), ("belly fat", ATTACK, 2), ("sleep", "עברית", 1),
        ("author", ATTACK, 5)))
    held = sorted((number, node(word)) for number, word in enumerate(KEYWORDS))
    ids, counts = range(len(NODES)), {"nodes": len(NODES), "edges": len(edges), "communities": 1}
    tables = {"phrase_nodes": {
        "node_id": ids, "keyword": NODES, "texts": [KEYWORDS.count(word) for word in NODES],
        "degree": [sum(one in edge[:2] for edge in edges) for one in ids], "centrality": [0.2] * len(ids),
        "component": [0] * len(ids), "community": [0] * len(ids)},
        "phrase_edges": dict(zip(("source", "target", "weight"), zip(*edges, strict=True), strict=True)),
        "phrase_texts": dict(zip(("text_id", "node_id"), zip(*held, strict=True), strict=True))}
    for kind, columns in tables.items():
        write_table(paths.table(kind), SCHEMAS[kind], {name: list(values) for name, values in columns.items()},
                    provenance("graph@tiny", counts=counts))


HISTORY = ("epoch,step,train_reconstruction,train_kl,train_keyword_vanished,validation_loss,validation_kl,best\n"
           "1,5,4.5,1.0,0,6.25,1.5,True\n2,10,4.0,2.0,0.5,5.75,2.5,True\n3,15,3.5,3.0,0.95,5.9,2.75,False\n")


def write_model(name, history=HISTORY, seed=None):
    paths = ModelPaths(name, seed or SEEDS.get(name, 13))
    paths.history.parent.mkdir(parents=True, exist_ok=True)
    paths.history.write_text(history)
    write_json(paths.metrics, {"best_epoch": 2})


def metrics_of(bleu_1, source_bleu, **more):
    values = {f"{prefix}_{order}": bleu_1 / order for prefix in ("bleu", "cumulative_m7", "corpus_bleu")
              for order in range(1, 5)}
    return {**values, "sacrebleu": 12.345, "extrema": 0.5, "average": 0.6, "greedy": 0.7, "distinct_1": 0.4,
            "distinct_2": 0.8, "source_bleu": source_bleu, "ibleu": 0.1, "mean_length": 9.5, "rouge_1": bleu_1,
            "rouge_2": 0.1, "rouge_l": 0.2, "bertscore": 0.85, "self_bleu": 0.33, "keyword_kept": 0.25, **more}


def write_run(name, bleu_1, source_bleu, output, **more):
    paths = RunPaths(name, SEEDS.get(name, 13))
    write_json(paths.metrics, {
        "run": metrics_of(bleu_1, source_bleu, **more), "counts": {"examples": ITEMS, "skipped_extrema_average": 1},
        "baselines": {"copy": metrics_of(0.9, 1.0), "nearest": metrics_of(0.2, 0.0)},
        "intervals": {"run": {"bleu_1": [bleu_1 - 0.05, bleu_1 + 0.05]}, "baselines": {"copy": {"bleu_1": [0.8, 1.0]}}},
        "settings": {"split": "test", "leading": ["bleu_1", "bleu_2"], "level": 0.9,
                     "emb": {"name": "tiny-encoder", "version": "1", "sha256": SHA256}, "sacrebleu": "tok:13a",
                     "tokens": "lower-cased BERT basic tokens"}})
    texts = [("lose Belly  Fat now", output, SCRIPTS)[place % 3] for place in range(ITEMS)]
    places = [(0, 1), (3, 4), (6, 7)] * ITEMS
    write_table(paths.predictions, SCHEMAS["predictions"], pd.DataFrame({
        "example_id": range(6, 6 + ITEMS), "sample": 0, "source": [TEXTS[places[place][0]] for place in range(ITEMS)],
        "keyword": [KEYWORDS[places[place][0]] for place in range(ITEMS)],
        "keyword_known": [place % 3 != 1 for place in range(ITEMS)], "prediction": texts,
        "references": [[TEXTS[places[place][1]]] for place in range(ITEMS)]}), provenance(f"generate_hcl@{name}"))


def over_seeds(rows, seeds=3):
    """Rows of table ``paired`` with what seeds say: as the items, if there are several; under two no verdict."""
    lacking = dict.fromkeys(("low_seeds", "high_seeds", "p_seeds", "detectable", "verdict"))
    return [{**row, "seeds": seeds} | (lacking if seeds == 1 else {
        "low_seeds": row["low"], "high_seeds": row["high"], "p_seeds": 0.01, "detectable": 0.03,
        "verdict": None if seeds < 3 else int(row["low"] > 0) - int(row["high"] < 0)}) for row in rows]


def paired_row(metric, first, second, difference, reach, p_value=0.002, value=0.5):
    """A row of table ``paired``, but for its data set."""
    return {"metric": metric, "first": first, "second": second, "first_value": value,
            "second_value": value - difference, "difference": difference, "low": difference - reach,
            "high": difference + reach, "p_value": p_value}


def add_comparison(dataset, items, groups, rows, **more):
    """Write a comparison beside those of other tracks."""
    metrics, paired = COMPARISON / "metrics.json", COMPARISON / "paired.parquet"
    content = json.loads(metrics.read_text()) if metrics.exists() else {}
    write_json(metrics, {**content, dataset: {"items": items, "groups": groups, **more}})
    rows = over_seeds([{"dataset": dataset, "items": items, **row} for row in rows])
    if paired.exists():
        before = read_frame(paired, SCHEMAS["paired"])
        rows += before[before["dataset"] != dataset].to_dict("records")
    write_table(paired, SCHEMAS["paired"], pd.DataFrame(rows), provenance("compare"))


def write_comparison():
    """Two runs of one family, a third run, and a baseline."""
    value = {"mean": 0.45, "sd": None, "low": 0.4, "high": 0.5}
    groups = {"full": {"runs": ["full"], "seeds": [13], "bleu_1": value},
              "plain": {"runs": ["plain"], "seeds": [99], "bleu_1": value},
              "baseline copy": {"runs": [], "seeds": [], "bleu_1": value}}
    add_comparison("tiny/test", ITEMS, groups, [
        paired_row("bleu_1", "full", "plain", 0.1, 0.05, 0.0004),
        paired_row("bleu_1", "full", "baseline copy", -0.4, 0.1, 0.0004),
        paired_row("source_bleu", "full", "plain", 0.1, 0.2, 0.4)], level=0.95, resamples=1000)


def write_params(**changes):
    models = {"full": {"dataset": "tiny"}, "plain": {"dataset": "tiny", "seeds": [SEEDS["plain"]],
                                                     "overrides": {"graph": {"iterations": 0}}}}
    runs = {"full": {"model": "full"}, "plain": {"model": "plain", "decode": {"num_beams": 1}}}
    content = {"recipe": "tiny-recipe", "seed": 13, "datasets": {"tiny": {"source": "data/tiny.tsv"}},
               **{name: {"datasets": ["tiny"]} for name in ("keywords", "graph", "node_vectors")},
               "models": {"hcl": models}, "runs": {"hcl": runs},
               "report": {"examples": 12}}
    Path("params.yaml").write_text(yaml.safe_dump({**content, **changes}))


def write_project():
    """Write params and every artifact that the report reads into the working folder."""
    write_params()
    write_dataset()
    write_model("full")
    write_model("plain")
    write_run("full", 0.5, 0.3, f"wrote {ATTACK} the author")
    write_run("plain", 0.4, 0.1, "")
    write_comparison()


# The PGKPR track, on a data set of its own.
QUESTIONS = ["what are good workouts to lose belly fat ?", f"who wrote {ATTACK} ?",
             "how do i learn to read and write and speak a language that nobody near me speaks at all today ?"]
TAGS = ["WP VBP JJ NNS TO VB NN NN .", "WP VBD NN .",
        "WRB VBP PRP VB TO VB CC VB CC VB DT NN WDT NN IN PRP VBZ IN DT NN ."]
REWRITERS = {
    "pgkpr": ({"dataset": "quora", "seeds": [13, 99]}, {"pgkpr": {}}),
    "again": ({"dataset": "quora"}, {"pgkpr-ref": {"keywords": "xy"}}),
    "w-o-con": ({"dataset": "quora", "overrides": {"contrast": {"weight": 0}}}, {"w-o-con": {"num_beams": 4}}),
    "psi": ({"dataset": "quora", "overrides": {"keywords": {"by": "psi"}}}, {"psi-s": {"keywords": "s_tagger"}}),
    "lbow": ({"dataset": "quora", "overrides": {"architecture": "latent_bow", "latent_bow": {"gumbel": True}}},
             {"lbow": {}})}
READ = 17       # words that a model reads


REWRITER_HISTORY = (
    "epoch,step,train_loss,train_generation,train_contrast,validation_loss,validation_generation,rate,best\n"
    "1,5,5.5,4.5,1.0,6.25,5.5,0.0001,True\n2,10,5.0,4.0,1.0,5.75,5.0,0.0001,True\n")


def rewriting_metrics(bleu, **more):
    """Metrics as PGKPR's runs have them, beside all that HCL's have."""
    own = {f"released_bleu_{order}": bleu / order + 0.01 for order in range(1, 5)}
    for prefix in ("py_rouge", "released_py_rouge"):
        own |= {f"{prefix}_{kind}": bleu / 2 for kind in ("1", "2", "l")}
    return metrics_of(bleu, 0.3, **own, keywords_kept=0.75, source_bleu_4=0.4, **more)


def write_rewriting_run(name, seed, model, chosen, bleu):
    """A run that was given the words of those parts of speech as keywords; None for none."""
    keywords = [None if chosen is None else " ".join(
        word for word, tag in zip(QUESTIONS[place % 3].split()[:READ], TAGS[place % 3].split(), strict=False)
        if tag.startswith(chosen)) for place in range(ITEMS)]
    texts = [("how do i lose belly fat ?", f"{ATTACK} who wrote", "")[place % 3] for place in range(ITEMS)]
    write_table(RunPaths(name, seed).predictions, SCHEMAS["predictions"], pd.DataFrame({
        "example_id": range(ITEMS), "sample": 0, "source": (QUESTIONS * ITEMS)[:ITEMS], "keyword": keywords,
        "keyword_known": True, "prediction": texts,
        "references": [[f"tell me {place}", f"or {IMAGE} {place}"] for place in range(ITEMS)]}),
        provenance(f"generate_pgkpr@{name}"))
    write_json(RunPaths(name, seed).metrics, {
        "run": rewriting_metrics(bleu), "baselines": {"copy": rewriting_metrics(0.7)}, "counts": {"examples": ITEMS},
        "intervals": {"run": {"released_bleu_1": [bleu - 0.05, bleu + 0.05]}, "baselines": {}},
        "settings": {"split": "test", "leading": ["released_bleu_1"], "level": 0.95, "model": model,
                     "sacrebleu": "tok:13a", "tokens": "lower-cased BERT basic tokens"}})


def write_rewriting_comparison():
    """Two seeds of PGKPR taken together, beside the comparison of the other track."""
    one = {"mean": 0.55, "sd": None, "low": 0.5, "high": 0.6}
    two = {metric: {"mean": 0.5432, "sd": 0.0123, "low": 0.5, "high": 0.6}
           for metric in ("released_bleu_1", "released_py_rouge_1")}
    runs = [run if "seeds" not in block else f"{run}/{seed}" for block, runs in REWRITERS.values()
            for seed in block.get("seeds", [13]) for run in runs]
    groups = {"pgkpr (2 seeds)": {"runs": ["pgkpr/13", "pgkpr/99"], "seeds": [13, 99], **two},
              **{run: {"runs": [run], "seeds": [int(run.partition("/")[2] or 13)], "released_bleu_1": one}
                 for run in runs},
              "baseline copy": {"runs": [], "seeds": [], "released_bleu_1": one}}
    add_comparison("quora/test", ITEMS, groups, [
        paired_row("released_bleu_1", "pgkpr (2 seeds)", second, 0.1, 0.05)
        for second in ("w-o-con", "lbow", "baseline copy")])


def write_rewriting(**changes):
    """Write params and artifacts of a recipe of PGKPR; with those of HCL there, both tracks are in the params."""
    for model, seed, runs in ((model, seed, runs) for model, (block, runs) in REWRITERS.items()
                              for seed in block.get("seeds", [13])):
        write_model(model, REWRITER_HISTORY, seed)
        for run, decode in runs.items():
            chosen = None if model == "lbow" else "V" if "keywords" in decode else ("V", "J", "N", "P", "R", "C", "I")
            bleu = 0.6 if model in ("pgkpr", "again") and seed == 13 else 0.5
            write_rewriting_run(run, seed, model, chosen, bleu)
    write_rewriting_comparison()
    content = yaml.safe_load(Path("params.yaml").read_text()) if Path("params.yaml").exists() else {
        "recipe": "tiny-pgkpr", "seed": 13, "datasets": {}, "models": {}, "runs": {}}
    content["datasets"]["quora"] = {"source": "data/quora.tsv"}
    for block in ("keywords", "attribution", "psi", "s_tagger"):
        content[block] = {"datasets": list(dict.fromkeys([*content.get(block, {}).get("datasets", ()), "quora"]))}
    content["paraphrase_items"] = {"datasets": {"quora": {
        table: DatasetPaths("quora").table(table).as_posix() for table in ("psi", "s_tags")}}}
    content["models"]["pgkpr"] = {name: model for name, (model, _) in REWRITERS.items()}
    content["runs"]["pgkpr"] = {run: {"model": name, "decode": decode} for name, (_, runs) in REWRITERS.items()
                                for run, decode in runs.items()}
    Path("params.yaml").write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
