"""The recipe of the embedded English pipeline: train it, write it, score it.

    python -m stages.treebank.training --treebank DIR --out data/language/en_ewt
    python -m stages.treebank.training --treebank DIR --evaluate data/language/en_ewt

``DIR`` holds ``en_ewt-ud-{train,dev,test}.conllu`` (or ``.conllu.gz``) of UD English EWT. Beside its training set the
networks learn from ``data/language/questions.tagged``, sentences of our own without lemmas. Every setting is in
``data/language/en_ewt.cfg``; equal settings, sentences and versions give equal weights on one type of processor.
"""

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

import spacy
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.util import fix_random_seed, load_config, load_model_from_config, registry
from thinc.api import Config

from stages.common.tables import atomic_folder
from stages.run.errors import InputError
from stages.run.log import configure, logger
from stages.treebank.conllu import (
    Sentence,
    Shape,
    build_doc,
    documents,
    hide_words,
    read_sentences,
    sample_docs,
    treebank_file,
    without_annotation,
)
from stages.treebank.lemma_tables import learn_lemma_tables
from stages.treebank.scoring import evaluate_part
from stages.treebank.tagged import read_tagged
from stages.treebank.tokenizer_rules import add_treebank_rules

FOLDER = Path(__file__).resolve().parents[2] / "data" / "language"
RECIPE, TAGGED = FOLDER / "en_ewt.cfg", FOLDER / "questions.tagged"
WITHOUT_WEIGHTS = ["lemmatizer"]  # its tables are learnt apart
RECIPE_KEYS = {"largest_group", "lower_share", "wrap_share", "wrap_width", "spaced_share", "run_on_share",
               "hidden_share"}
META = {
    "name": "ewt",
    "version": "1.1.0",
    "description": "Tags, parts of speech, lemmas and sentence starts for English, trained on UD English EWT",
    "author": "The Keycontrast authors; treebank by the authors of UD English EWT",
    "license": "CC BY-SA 4.0",
    "sources": [{"name": "UD English EWT", "url": "https://universaldependencies.org", "license": "CC BY-SA 4.0"},
                {"name": "questions.tagged, by the Keycontrast authors", "license": "CC0 1.0"}],
}

log = logger("language.training")


def train_pipeline(
    config: Config, train: list[Sentence], tagged: list[Sentence], max_steps: int | None = None
) -> Language:
    """Train a pipeline on gold sentences and return it with averaged weights, ready to be written.

    Args:
        config: the recipe, as in ``data/language/en_ewt.cfg``.
        train: sentences to learn from, in the order of the treebank.
        tagged: more of them, which have no lemmas: the networks see each once in an epoch, the lemmatizer none.
        max_steps: stop after so many batches; for tests and trials.
    """
    fix_random_seed(config["system"]["seed"])
    nlp = load_model_from_config(config, auto_fill=True)
    settings = registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
    add_treebank_rules(nlp.tokenizer)
    optimizer = settings["optimizer"]
    with nlp.select_pipes(disable=WITHOUT_WEIGHTS):
        nlp.initialize(lambda: _whole_documents(nlp, [*train, *tagged]), sgd=optimizer)
    nlp.get_pipe("lemmatizer").initialize(lookups=learn_lemma_tables(train))  # type: ignore[attr-defined]
    _fit(nlp, [*train, *tagged], settings, max_steps)
    with nlp.use_params(optimizer.averages):
        return compact_copy(nlp)


def _fit(nlp: Language, train: list[Sentence], settings: dict[str, Any], max_steps: int | None) -> None:
    """Run the epochs of ``settings``, each over all sentences in new documents and a new order."""
    optimizer, steps, began = settings["optimizer"], 0, perf_counter()
    for epoch in range(1, settings["max_epochs"] + 1):
        losses: dict[str, float] = {}
        for batch in settings["batcher"](_examples(nlp, train, epoch)):
            nlp.update(batch, drop=settings["dropout"], sgd=optimizer, losses=losses)
            optimizer.step_schedules()
            steps += 1
            if steps == max_steps:
                return
        shown = ", ".join(f"{name} {loss:.0f}" for name, loss in losses.items())
        log.info("epoch %d, %d steps, %.0f s: losses %s", epoch, steps, perf_counter() - began, shown)


def _examples(nlp: Language, sentences: list[Sentence], epoch: int) -> list[Example]:
    """Return one epoch of training examples, on gold tokens."""
    rng = random.Random(f"{nlp.config['system']['seed']}/{epoch}")
    docs = sample_docs(nlp.vocab, sentences, rng, nlp.config["recipe"])
    counts = Counter(word.form.lower() for sentence in sentences for word in sentence.words)
    share = nlp.config["recipe"]["hidden_share"]
    return [Example(hide_words(without_annotation(doc), counts, rng, share), doc) for doc in docs]


def _whole_documents(nlp: Language, sentences: list[Sentence]) -> list[Example]:
    """Return examples with every label that an epoch may draw, that of white space among them."""
    shape = Shape(wrap=nlp.config["recipe"]["wrap_width"])
    docs = [build_doc(nlp.vocab, document, shape) for document in documents(sentences)]
    return [Example(without_annotation(doc), doc) for doc in docs]


def compact_copy(nlp: Language) -> Language:
    """Return a copy of ``nlp`` whose vocabulary holds no words of the training texts."""
    copy = load_model_from_config(nlp.config)
    copy.from_bytes(nlp.to_bytes(exclude=["vocab"]), exclude=["vocab"])
    for name in copy.pipe_names:
        for label in getattr(copy.get_pipe(name), "labels", ()):
            copy.vocab.strings.add(label)
    copy.meta.update(META)
    return copy


def write_pipeline(nlp: Language, out: Path) -> None:
    """Write a pipeline to the folder ``out``, whole or not at all; an older pipeline there is replaced."""
    check_target(out)
    with atomic_folder(out) as folder:
        nlp.to_disk(folder)


def check_target(out: Path) -> None:
    """Refuse to replace anything but an older pipeline."""
    if out.exists() and not (out / "meta.json").is_file():
        raise InputError(f"{out} exists and is not a spaCy pipeline; name another folder.")


def read_recipe(path: Path) -> Config:
    """Read the settings of a training run."""
    if not path.is_file():
        raise InputError(f"{path}: no such recipe.")
    config = load_config(path)
    missing = sorted(RECIPE_KEYS - config.get("recipe", {}).keys())
    if missing:
        raise InputError(f"{path}: the section [recipe] lacks {', '.join(missing)}.")
    return config


def score_folder(folder: Path, sentences: list[Sentence]) -> dict[str, dict[str, float]]:
    """Score the pipeline stored in ``folder``, just as a user would load it."""
    if not (folder / "config.cfg").is_file():
        raise InputError(f"{folder}: no spaCy pipeline there.")
    return evaluate_part(spacy.load(folder), sentences)


def main(arguments: list[str] | None = None) -> int:
    """Train and write, or score, as the command line says; return the exit status."""
    options = _parser().parse_args(arguments)
    configure("INFO")
    try:
        if options.out:
            check_target(options.out)  # now, not after the training
            config = read_recipe(options.recipe)
            train = read_sentences(treebank_file(options.treebank, "train"))
            tagged = read_tagged(options.tagged)
            write_pipeline(train_pipeline(config, train, tagged, options.max_steps), options.out)
        sentences = read_sentences(treebank_file(options.treebank, options.part))
        scores = score_folder(options.out or options.evaluate, sentences)
    except InputError as error:
        log.error("%s", error)
        return 1
    sys.stdout.write(json.dumps({options.part: scores}, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the command line of this module."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m stages.treebank.training", description=__doc__,
                                     formatter_class=plain)
    parser.add_argument("--treebank", type=Path, required=True, help="folder of UD English EWT")
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="settings (default: the shipped recipe)")
    parser.add_argument("--tagged", type=Path, default=TAGGED, metavar="FILE",
                        help="tagged sentences to learn from besides (default: data/language/questions.tagged)")
    parser.add_argument("--max-steps", type=int, metavar="N", help="stop training after N batches, for trials")
    parser.add_argument("--part", choices=("train", "dev", "test"), default="test", help="what to score on")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="train, write the pipeline to this folder, and score it")
    what.add_argument("--evaluate", type=Path, help="score the pipeline in this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
