"""A tiny data set of the PGKPR track: vocabulary, pairs with tags and scores, settings, and a project of them."""

from collections import Counter

import numpy as np
import pandas as pd
import torch
import yaml

from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import rewriter_of
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, write_table
from stages.common.training import save_notes
from stages.tracks.pgkpr.export import TrainedOn, notes_of
from stages.tracks.pgkpr.items import Vocabulary, fixed_masks, keyword_rule
from stages.tracks.pgkpr.params import TrainPgkpr

SPECIALS = ("[pad]", "[unk]", "<s>", "</s>", "<sep>", "[NOK]", "[MASK]")
DATASET, MAX_LENGTH = "tiny", 8
TAGS = {"what": "WP", "is": "VBZ", "the": "DT", "best": "JJS", "good": "JJ", "a": "DT", "way": "NN", "to": "TO",
        "learn": "VB", "how": "WRB", "do": "VBP", "i": "PRP", "you": "PRP", "run": "VB", "fast": "RB", "why": "WRB",
        "dog": "NN", "cat": "NN", "school": "NN", "food": "NN", "find": "VB", "eat": "VB", "can": "MD", "me": "PRP",
        "tell": "VB", "about": "IN", "where": "WRB", "language": "NN", "play": "VB", "with": "IN", "who": "WP",
        "zebra": "NN", "?": "."}
# (split, source, targets): the fifth training example and the second test example have two targets each.
EXAMPLES = (
    ("train", "what is the best way to learn a language ?", ["how do i learn a language ?"]),
    ("train", "how do i find a good school ?", ["what is a good school ?"]),
    ("train", "can you tell me about the dog ?", ["tell me about a dog"]),
    ("train", "why do you run fast ?", ["why run fast ?"]),
    ("train", "the dog can play with the cat", ["a cat can play with a dog", "the cat and the dog play"]),
    ("train", "where can i eat good food ?", ["where is good food ?"]),
    ("train", "how do you learn fast ?", ["how can you learn ?"]),
    ("validation", "what is a good way to run ?", ["how do i run ?"]),
    ("validation", "tell me how to find the dog", ["where is the dog ?"]),
    ("test", "is the school good ?", ["what is the best school ?"]),
    ("test", "who can eat with the zebra ?", ["who can play with the cat ?", "can i eat with a dog ?"]),
)


def items():
    """Table ``paraphrase_items``: a row per example and reference; scores are drawn, primary words by rule."""
    rows = []
    random = np.random.default_rng(0)
    for example, (split, source, targets) in enumerate(EXAMPLES):
        words = source.split()
        score_xx, primary_xx = _scores(random, len(words)), [word in _nouns() for word in words]
        for reference, target in enumerate(targets):
            others = target.split()
            rows.append({
                "example_id": example, "reference": reference, "split": split, "group": example, "source": source,
                "target": target, "source_words": words, "source_tags": _tags(words), "target_words": others,
                "target_tags": _tags(others), "score_xx": score_xx, "score_xy": _scores(random, len(words)),
                "primary_xx": primary_xx, "primary_xy": [word in others and word != "?" for word in words],
                "primary_s": [TAGS.get(word, "").startswith(("NN", "VB")) for word in words],
                "primary_textrank": [word in _nouns() or TAGS.get(word) == "JJ" for word in words]})
    frame = pd.DataFrame(rows)
    return frame.astype({"reference": "int32"})


def vocabulary_frame():
    """Table ``vocabulary``: words of the training split alone, so ``zebra`` of a test source is unknown."""
    frame = items()
    tags = sorted({tag for side in ("source_tags", "target_tags") for row in frame[side] for tag in row})
    train = frame[frame["split"] == "train"]
    first = train[train["reference"] == 0]
    counts = Counter(word for rows in (first["source_words"], train["target_words"]) for row in rows for word in row)
    words = sorted(counts, key=lambda word: (-counts[word], word))
    tokens = [*SPECIALS, *(f"[{tag}]" for tag in tags), *words]
    kinds = ["special"] * len(SPECIALS) + ["tag"] * len(tags) + ["word"] * len(words)
    frame = pd.DataFrame({"token_id": range(len(tokens)), "token": tokens, "kind": kinds,
                          "count": [counts.get(token, 0) for token in tokens]})
    return frame.astype({"token_id": "int32", "count": "int64"})


def settings(architecture="pgkpr", **blocks):
    """Plain values of the block ``train_pgkpr`` for a model of width 16; ``blocks`` are laid over theirs.

    >>> settings("ianet", training={"epochs": 1})["training"]["epochs"]
    1
    """
    values = {"architecture": architecture,
              "sizes": {"layers": 1, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.1},
              "residual_lstm": {"width": 16},
              "latent_bow": {"width": 16, "memory": 4, "dropout": 0.1},
              "ianet": {"encoder_layers": 1, "decoder_layers": 1},
              "training": {"epochs": 2, "batch_size": 4, "micro_batch": 2, "learning_rate": 1e-2}}
    for name, block in blocks.items():
        values[name] = {**values.get(name, {}), **block}
    return TrainPgkpr.model_validate(values).model_dump()


def save_model(folder, architecture="pgkpr", rule="attribution", mark_all=False, **blocks):
    """Save an untrained model of width 16, far from its initial values, with all that stage train_pgkpr leaves beside.

    ``rule`` is what it takes keywords by, for those that read some.
    """
    torch.manual_seed(5)
    vocabulary = Vocabulary.from_frame(vocabulary_frame())
    model = rewriter_of(RewriterConfig.from_params(settings(architecture, **blocks), vocabulary.size))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.5)
    model.save_pretrained(folder)
    on = TrainedOn(DATASET, keyword_rule(architecture, rule), mark_all, MAX_LENGTH)
    save_notes(folder, notes_of(vocabulary, on))
    return folder


def write_params(folder, models=None, runs=None, runtime=None, **blocks):
    """Write ``params.yaml``: ``models`` and ``runs`` by name, ``blocks`` laid over the settings of training."""
    params = {"recipe": "test",
              "runtime": {"device": "cpu", "checkpoint_minutes": 0, **(runtime or {})},
              "datasets": {DATASET: {"source": "x"}},
              **{name: {"datasets": [DATASET]} for name in ("keywords", "attribution", "psi", "s_tagger")},
              "paraphrase_items": {"max_length": MAX_LENGTH, "datasets": {DATASET: {
                  name: DatasetPaths(DATASET).table(name).as_posix() for name in ("psi", "s_tags", "textrank")}}},
              "train_pgkpr": settings(**blocks),
              "generate_pgkpr": {"max_length": MAX_LENGTH},
              "models": {"pgkpr": models or {"pgkpr": {"dataset": DATASET}}}, "runs": {"pgkpr": runs or {}}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def write_project(folder, models=None, **params):
    """Write params and the data set's tables into ``folder``, which must be the working folder."""
    write_params(folder, models, **params)
    for kind, content in (("paraphrase_items", items()), ("vocabulary", vocabulary_frame())):
        write_table(DatasetPaths(DATASET).table(kind), SCHEMAS[kind], content, Provenance("test", "0"))


def fixed_mask(row, *rest, **more):
    """Which words of one row of ``items`` are keywords."""
    return fixed_masks(pd.DataFrame([dict(row)]), *rest, **more)[0]


def _tags(words):
    return [TAGS.get(word, "CC") for word in words]


def _nouns():
    return {word for word, tag in TAGS.items() if tag.startswith("NN")}


def _scores(random, length):
    """Min-max normalised: the strongest word has 1, the weakest 0."""
    drawn = random.random(length)
    return ((drawn - drawn.min()) / (drawn.max() - drawn.min())).astype("f4").tolist()
