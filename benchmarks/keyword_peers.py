"""Our rankings beside KeyBERT, pytextrank, YAKE and rake-nltk, from raw texts to phrases: F1, time, memory.

Reads the data sets of benchmarks.keyphrases. Each system is a process of its own, with one thread, and is given the
texts of one set after another, as a user would: what it needs is loaded, then the clock starts, with its own tokens,
tags and sentences in it. KeyBERT has the bundled encoder, as embedrank has; pytextrank runs in the embedded spaCy
pipeline; rake-nltk has that pipeline's stop words, for its own have to be downloaded. Phrases of up to three words
are asked of those who make them by their length.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# A process of a peer imports this module, and should hold in memory what the peer needs and nothing else.
if TYPE_CHECKING:
    from benchmarks.keyphrases import Corpus

Phrases = list[list[str]]
BEGIN = "<!-- peers: made by `python -m benchmarks.keyword_peers --data DIR --write` -->"
END = "<!-- /peers -->"
_PHRASES = 40
_LONGEST = 3
_WARM = "A short text about the speed of a machine, to warm the machine."


def _keycontrast(method: str) -> Callable[[Sequence[str]], Phrases]:
    from keycontrast import Keywords

    ranking = Keywords(method)  # type: ignore[arg-type]
    return lambda texts: [[phrase.text for phrase in found] for found in ranking.rank(texts, top=_PHRASES)]


def _keybert(**options: Any) -> Callable[[Sequence[str]], Phrases]:
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    from stages.common.encoders import resolve_encoder

    model = KeyBERT(SentenceTransformer(str(resolve_encoder("bundled", "encoder").location), device="cpu"))
    return lambda texts: [[phrase for phrase, _ in model.extract_keywords(
        text, keyphrase_ngram_range=(1, _LONGEST), stop_words="english", top_n=_PHRASES, **options)] for text in texts]


def _pytextrank() -> Callable[[Sequence[str]], Phrases]:
    import pytextrank  # noqa: F401 - its import makes the component known

    return _component("textrank")


def _component(name: str) -> Callable[[Sequence[str]], Phrases]:
    from keycontrast import load_pipeline

    nlp = load_pipeline()
    nlp.add_pipe(name)
    return lambda texts: [[phrase.text for phrase in doc._.phrases[:_PHRASES]] for doc in nlp.pipe(texts)]


def _yake() -> Callable[[Sequence[str]], Phrases]:
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan="en", n=_LONGEST, top=_PHRASES)
    return lambda texts: [[phrase for phrase, _ in extractor.extract_keywords(text)] for text in texts]


def _rake() -> Callable[[Sequence[str]], Phrases]:
    import re

    from nltk.tokenize import wordpunct_tokenize
    from rake_nltk import Rake
    from spacy.lang.en.stop_words import STOP_WORDS

    rake = Rake(stopwords=STOP_WORDS, max_length=_LONGEST, include_repeated_phrases=False,
                sentence_tokenizer=re.compile(r"(?<=[.!?])\s+").split, word_tokenizer=wordpunct_tokenize)

    def phrases(texts: Sequence[str]) -> Phrases:
        found = []
        for text in texts:
            rake.extract_keywords_from_text(text)
            found.append(rake.get_ranked_phrases()[:_PHRASES])
        return found

    return phrases


SYSTEMS: dict[str, Callable[[], Callable[[Sequence[str]], Phrases]]] = {
    "keycontrast, `tfidf`": lambda: _keycontrast("tfidf"),
    "keycontrast, `positionrank`": lambda: _keycontrast("positionrank"),
    "keycontrast, `embedrank`": lambda: _keycontrast("embedrank"),
    "`keycontrast_textrank` in spaCy": lambda: _component("keycontrast_textrank"),
    "pytextrank": _pytextrank,
    "KeyBERT": _keybert,
    "KeyBERT, `use_mmr`, diversity 0.5": lambda: _keybert(use_mmr=True, diversity=0.5),
    "YAKE": _yake,
    "rake-nltk": _rake,
}


def _worked(name: str, sets: Sequence[Sequence[str]], answers: Any) -> None:
    """Put the phrases of each set, the seconds that each took, and the peak memory in MiB of this process."""
    from benchmarks.harness import high_water

    system = SYSTEMS[name]()
    system([_WARM])
    phrases, seconds = [], []
    for texts in sets:
        began = time.perf_counter()
        phrases.append(system(texts))
        seconds.append(time.perf_counter() - began)
    answers.put((phrases, seconds, high_water()))


def measure(found: "Sequence[Corpus]") -> dict[str, Any]:
    """Return F1 by set and cut, seconds by set and peak memory of each system, one process after another."""
    from benchmarks.keyphrases import CUTOFFS, keyphrase_scores
    from keycontrast.errors import InputError

    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    context, measured = multiprocessing.get_context("spawn"), {}
    for name in SYSTEMS:
        sys.stderr.write(f"{name}\n")
        answers = context.Queue()
        process = context.Process(target=_worked, args=(name, [corpus.texts for corpus in found], answers))
        process.start()
        while process.is_alive() and answers.empty():
            time.sleep(0.2)
        if answers.empty():
            raise InputError(f"{name}: its process ended with status {process.exitcode}; see above. Its package comes "
                             f"with pip install 'keycontrast[benchmarks]'.")
        phrases, seconds, memory = answers.get()
        process.join()
        scores = [keyphrase_scores(given, corpus.gold, CUTOFFS) for given, corpus in zip(phrases, found, strict=True)]
        names = [corpus.name for corpus in found]
        f1 = [{cutoff: score[cutoff].f1 for cutoff in CUTOFFS} for score in scores]
        measured[name] = (dict(zip(names, f1, strict=True)), dict(zip(names, seconds, strict=True)), memory)
    return measured


def as_markdown(measured: dict[str, Any], found: "Sequence[Corpus]") -> str:
    """Return F1@10 in per cent by set, texts per second over all sets, and peak memory."""
    texts = sum(len(corpus.texts) for corpus in found)
    heads = [f"{corpus.name} ({len(corpus.texts)})" for corpus in found]
    lines = [f"| system | {' | '.join(heads)} | texts/s | times as long | MiB |",
             f"| --- |{' ---: |' * (len(heads) + 3)}"]
    first = sum(next(iter(measured.values()))[1].values())
    for name, (f1, seconds, memory) in measured.items():
        total = sum(seconds.values())
        values = [f"{100 * f1[corpus.name][10]:.1f}" for corpus in found]
        lines.append(f"| {name} | {' | '.join(values)} | {texts / total:.1f} | {total / first:.1f} | {memory:.0f} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Measure all systems and print the table."""
    from benchmarks.keyphrases import Corpus, corpora, put
    from keycontrast.errors import InputError
    from stages.run.log import configure

    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyword_peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.keyword_peers --data ../data")
    parser.add_argument("--data", type=Path, required=True, help="folder of the published data sets")
    parser.add_argument("--texts", type=int, help="of each set, the first so many; all by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="also put the table into docs/results.md")
    arguments = parser.parse_args(argv)
    configure()
    try:
        found = [Corpus(corpus.name, corpus.texts[:arguments.texts], corpus.gold[:arguments.texts])
                 for corpus in corpora(arguments.data)]
        measured = measure(found)
        table = as_markdown(measured, found)
        sys.stdout.write((json.dumps(measured) if arguments.json else table) + "\n")
        if arguments.write:
            put(table, BEGIN, END)
    except InputError as error:
        sys.stderr.write(f"benchmarks.keyword_peers: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
