"""The recipe of the embedded English pipeline: train it, write it, score it.

    python -m tools.english_pipeline.train --treebank DIR --out data/language/en_ewt
    python -m tools.english_pipeline.train --treebank DIR --evaluate data/language/en_ewt

``DIR`` holds ``en_ewt-ud-{train,dev,test}.conllu`` (or ``.conllu.gz``) of UD English EWT. Beside its training set the
networks learn from ``data/language/questions.tagged``, sentences of our own without lemmas. Every setting is in
``data/language/en_ewt.cfg``; equal settings, sentences and versions give equal weights on one type of processor.
`spacy train` cannot be used: documents are drawn anew in each epoch, and rare words are hidden.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import spacy
from spacy import util
from spacy.lang.en import English
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.symbols import ORTH
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config

from tools.english_pipeline import corpus
from tools.english_pipeline.corpus import Sentence, Shape, build_doc, documents, without_annotation
from tools.english_pipeline.lemmas import learn_lemma_tables

FOLDER = Path(__file__).resolve().parents[2] / "data" / "language"
RECIPE, TAGGED = FOLDER / "en_ewt.cfg", FOLDER / "questions.tagged"
META = {
    "name": "ewt",
    "version": "1.1.0",
    "description": "Tags, parts of speech, lemmas and sentence starts for English, trained on UD English EWT",
    "author": "The Keycontrast authors; treebank by the authors of UD English EWT",
    "license": "CC BY-SA 4.0",
    "sources": [{"name": "UD English EWT", "url": "https://universaldependencies.org", "license": "CC BY-SA 4.0"},
                {"name": "questions.tagged, by the Keycontrast authors", "license": "CC0 1.0"}],
}
# Runs such as "!!!", "?!" or "=====" are one token each.
RUNS = [r"[!?][.!?]+", r"={2,}", r"\*{2,}", r"_{2,}", r"#{2,}", r"<{2,}", r">{2,}", r"~{2,}"]
# ".?" as well, but not after a capital ("the U.S.?").
SUFFIX_RUNS = [*RUNS, r"(?<![A-Z.])\.[!?]+"]
CLOCK = r"(?<=:[0-9][0-9])(?:[AaPp][Mm])"

# Words of two parts that stay whole: "e-mail", "non-human", "pre-owned".
WHOLE_BEFORE_HYPHEN = ["e", "non", "co", "re", "pre", "post", "ex", "anti", "semi", "multi", "mid", "pro", "mis"]

ABBREVIATIONS = ["Lt.", "Ft.", "Capt.", "Attn.", "Mon.", "Tue.", "Tues.", "Wed.", "Thu.", "Thur.",
                 "Thurs.", "Fri.", "ext.", "Ext."]  # fmt: skip
# spaCy reads these as "we'd" and "i'd".
NOT_CONTRACTED = ["Wed", "wed", "id", "Id"]
SPLIT = {"and/or": ["and", "/", "or"], "):": [")", ":"], "wanna": ["wan", "na"], "Wanna": ["Wan", "na"]}
Span = tuple[int, int]
LAYERS = ("tag", "pos", "lemma")


def train_pipeline(config: Config, train: list[Sentence], tagged: list[Sentence],
                   max_steps: int | None = None) -> Language:
    """Train a pipeline on gold sentences and return it with averaged weights, ready to be written.

    Args:
        config: the recipe, as in ``data/language/en_ewt.cfg``.
        train: sentences to learn from, in the order of the treebank.
        tagged: more of them, which have no lemmas: the networks see each once in an epoch, the lemmatizer none.
        max_steps: stop after so many batches; for tests and trials.
    """
    util.fix_random_seed(config["system"]["seed"])
    nlp = util.load_model_from_config(config, auto_fill=True)
    settings = util.registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
    add_treebank_rules(nlp.tokenizer)
    optimizer = settings["optimizer"]
    with nlp.select_pipes(disable=["lemmatizer"]):
        nlp.initialize(lambda: _whole_documents(nlp, [*train, *tagged]), sgd=optimizer)
    nlp.get_pipe("lemmatizer").initialize(lookups=learn_lemma_tables(train))  # type: ignore[attr-defined]
    _fit(nlp, [*train, *tagged], settings, max_steps)
    with nlp.use_params(optimizer.averages):
        return compact_copy(nlp)


def _fit(nlp: Language, train: list[Sentence], settings: dict[str, Any], max_steps: int | None) -> None:
    """Run the epochs of ``settings``, each over all sentences in new documents and a new order."""
    optimizer, steps = settings["optimizer"], 0
    for epoch in range(1, settings["max_epochs"] + 1):
        losses: dict[str, float] = {}
        for batch in settings["batcher"](_examples(nlp, train, epoch)):
            nlp.update(batch, drop=settings["dropout"], sgd=optimizer, losses=losses)
            optimizer.step_schedules()
            steps += 1
            if steps == max_steps:
                return
        shown = ", ".join(f"{name} {loss:.0f}" for name, loss in losses.items())
        sys.stderr.write(f"epoch {epoch}, {steps} steps: losses {shown}\n")


def _examples(nlp: Language, sentences: list[Sentence], epoch: int) -> list[Example]:
    """Return one epoch of training examples, on gold tokens."""
    rng = random.Random(f"{nlp.config['system']['seed']}/{epoch}")
    docs = corpus.sample_docs(nlp.vocab, sentences, rng, nlp.config["recipe"])
    counts = Counter(word.form.lower() for sentence in sentences for word in sentence.words)
    share = nlp.config["recipe"]["hidden_share"]
    return [Example(corpus.hide_words(without_annotation(doc), counts, rng, share), doc) for doc in docs]


def _whole_documents(nlp: Language, sentences: list[Sentence]) -> list[Example]:
    """Return examples with every label that an epoch may draw, that of white space among them."""
    shape = Shape(wrap=nlp.config["recipe"]["wrap_width"])
    docs = [build_doc(nlp.vocab, document, shape) for document in documents(sentences)]
    return [Example(without_annotation(doc), doc) for doc in docs]


def compact_copy(nlp: Language) -> Language:
    """Return a copy of ``nlp`` whose vocabulary holds no words of the training texts."""
    copy = util.load_model_from_config(nlp.config)
    copy.from_bytes(nlp.to_bytes(exclude=["vocab"]), exclude=["vocab"])
    for name in copy.pipe_names:
        for label in getattr(copy.get_pipe(name), "labels", ()):
            copy.vocab.strings.add(label)
    copy.meta.update(META)
    return copy


def add_treebank_rules(tokenizer: Tokenizer) -> None:
    """Change the rules of an English tokenizer, in place, towards those of the treebank."""
    defaults = English.Defaults
    prefixes, suffixes = list(defaults.prefixes or []), list(defaults.suffixes or [])
    tokenizer.prefix_search = util.compile_prefix_regex([*RUNS, *prefixes]).search
    tokenizer.suffix_search = util.compile_suffix_regex([*SUFFIX_RUNS, CLOCK, *suffixes]).search
    tokenizer.infix_finditer = util.compile_infix_regex(_infixes(list(defaults.infixes or []))).finditer
    # spaCy's special cases give the "did" of "didn't" the norm "do", and so on. Norms are features of the tagger:
    # they must be those of the bare words that it is trained on, or it takes this "did" for a present tense.
    tokenizer.rules = {word: [{ORTH: part[ORTH]} for part in parts] for word, parts in (tokenizer.rules or {}).items()}
    for word in [*ABBREVIATIONS, *NOT_CONTRACTED]:
        tokenizer.add_special_case(word, [{ORTH: word}])
    for word, parts in SPLIT.items():
        tokenizer.add_special_case(word, [{ORTH: part} for part in parts])


def _infixes(infixes: list[str]) -> list[str]:
    """Return infix rules that leave some hyphenated words and telephone numbers whole."""
    pattern = "".join(rf"(?<!\b[{word[0]}{word[0].upper()}]{word[1:]})" for word in WHOLE_BEFORE_HYPHEN)
    telephone = r"(?!(?<=[0-9]{3}-)[0-9]{4}\b)(?!(?<=[0-9]{3}-)[0-9]{3}-[0-9]{4}\b)"
    return [rule + telephone if rule.startswith("(?<=[0-9])[") else pattern + rule if "(?:-" in rule else rule
            for rule in infixes]


def evaluate_part(nlp: Language, sentences: list[Sentence]) -> dict[str, dict[str, float]]:
    """Score ``nlp`` on gold and on its own tokens, by sentence, by document, and on changed documents.

    A document has blank lines between its paragraphs, as in the source; ``run_on`` it is a single line,
    ``spaced`` there is a space after each token.

    Returns:
        For each way: ``token``, ``tag``, ``pos``, ``lemma`` and ``sentence``, each the F score (percent) of
        exact character spans, with their label where there is one; on gold tokens F is plain accuracy. For
        own tokens also ``*_on_shared``, accuracy over those tokens that the treebank has too. White space
        is not counted. Sentence scores of one sentence at a time only say how often it is kept whole.
    """
    references = documents(sentences)
    views = {"sentences": ([[sentence] for sentence in sentences], Shape()), "documents": (references, Shape()),
             "run_on": (references, Shape(paragraphs=False)), "spaced": (references, Shape(spaced=True))}
    scores = {}
    for name, (texts, shape) in views.items():
        gold = [build_doc(nlp.vocab, text, shape) for text in texts]
        scores[f"gold_{name}"] = score_docs(gold, nlp.pipe(map(without_annotation, gold)))
        scores[f"own_{name}"] = score_docs(gold, nlp.pipe(doc.text for doc in gold))
    return scores


def score_docs(gold: Iterable[Doc], predicted: Iterable[Doc]) -> dict[str, float]:
    """Compare documents over the same texts, pair by pair; see ``evaluate_part`` for the scores."""
    same = dict.fromkeys(("token", "sentence", *LAYERS), 0)
    sizes = {"token": 0, "sentence": 0}
    for reference, other in zip(gold, predicted, strict=True):
        expected, other_tokens = _tokens(reference), _tokens(other)
        shared = expected.keys() & other_tokens.keys()
        sentences, others = _sentences(reference), _sentences(other)
        same["token"] += len(shared)
        same["sentence"] += len(sentences & others)
        sizes["token"] += len(expected) + len(other_tokens)
        sizes["sentence"] += len(sentences) + len(others)
        for place, layer in enumerate(LAYERS):
            same[layer] += sum(expected[span][place] == other_tokens[span][place] for span in shared)
    scores = {name: 200 * same[name] / sizes[name] for name in sizes}
    for layer in LAYERS:
        scores[layer] = 200 * same[layer] / sizes["token"]
        scores[f"{layer}_on_shared"] = 100 * same[layer] / max(1, same["token"])
    return {name: round(score, 2) for name, score in sorted(scores.items())}


def _tokens(doc: Doc) -> dict[Span, tuple[str, str, str]]:
    """Return tag, part of speech and lemma of each token that is not white space, by character span."""
    return {(token.idx, token.idx + len(token)): (token.tag_, token.pos_, token.lemma_)
            for token in doc if not token.is_space}


def _sentences(doc: Doc) -> set[Span]:
    """Return the character spans of sentences without the white space at their ends."""
    spans = set()
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if words:
            spans.add((words[0].idx, words[-1].idx + len(words[-1])))
    return spans


def main(arguments: list[str] | None = None) -> None:
    """Train and write, or score, as the command line says."""
    parser = argparse.ArgumentParser("python -m tools.english_pipeline.train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treebank", type=Path, required=True, help="folder of UD English EWT")
    parser.add_argument("--max-steps", type=int, metavar="N", help="stop training after N batches, for trials")
    parser.add_argument("--part", choices=("train", "dev", "test"), default="test", help="what to score on")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="train, write the pipeline to this folder, and score it")
    what.add_argument("--evaluate", type=Path, help="score the pipeline in this folder")
    options = parser.parse_args(arguments)

    def part(name: str) -> list[Sentence]:
        packed = options.treebank / f"en_ewt-ud-{name}.conllu.gz"
        return corpus.read_treebank(packed if packed.exists() else packed.with_suffix(""))

    if options.out:
        trained = train_pipeline(util.load_config(RECIPE), part("train"), corpus.read_tagged(TAGGED),
                                 options.max_steps)
        trained.to_disk(options.out)
    scores = evaluate_part(spacy.load(options.out or options.evaluate), part(options.part))
    sys.stdout.write(json.dumps({options.part: scores}, indent=2) + "\n")


if __name__ == "__main__":
    main()
