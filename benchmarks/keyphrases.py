"""Keyphrases of our methods beside pytextrank, KeyBERT, YAKE and rake-nltk: exact-match F1, speed and memory.

Reads DIR/inspec/test.parquet (title, abstract, keys_uncontrolled) and DIR/keyphrase_NAME/all.parquet (text, keys) of
SemEval-2017, DUC-2001, Nguyen-2007 and SemEval-2010, as far as they are there. The first 512 words of a text are read,
which cuts news articles and papers. Scores compare Porter stems and are averaged over documents.

Each system works in a process of its own with one thread, from raw texts to phrases: the system is loaded, then the
clock runs over its tokens, tags, sentences and ranking; MiB are the peak of its process. KeyBERT has the bundled
encoder, as embedrank; pytextrank runs in the embedded spaCy pipeline; rake-nltk has that pipeline's stop words, since
its own have to be downloaded. YAKE, KeyBERT and rake-nltk give phrases of up to three words. A package that is not
installed is left out; all come with pip install 'keycontrast[benchmarks,yake]'.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.harness import Rows, markdown_table, peak_memory

# The process of a peer imports this module and should hold in memory what the peer needs and nothing else, so this
# module imports Arrow and our packages where they are used.

CUTOFFS = (5, 10, 15)
SETS = {"inspec/test": "Inspec, test", "keyphrase_semeval2017/all": "SemEval-2017", "keyphrase_duc2001/all": "DUC-2001",
        "keyphrase_nguyen2007/all": "Nguyen-2007", "keyphrase_semeval2010/all": "SemEval-2010"}
WORDS = 512  # of a paper: title, abstract and the beginning of its introduction
RESULTS = Path("docs") / "results.md"
BEGIN = "<!-- keyphrases: made by `python -m benchmarks.keyphrases --data DIR --write` -->"
END = "<!-- /keyphrases -->"
_PHRASES = 40  # more than are scored, since phrases that differ in endings alone count once
_LONGEST = 3
_WARM = "A short text about the speed of a machine, to warm the machine."
_LETTERS = re.compile(r"[^\W_]+")

Phrases = list[list[str]]
System = Callable[[Sequence[str]], Phrases]


@dataclass(frozen=True)
class Corpus:
    """Documents with the keyphrases that their readers chose."""

    name: str
    texts: list[str]
    gold: list[list[str]]


# Scores


def keyphrase_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]],
                     cutoffs: Sequence[int] = CUTOFFS) -> dict[int, float]:
    """Return the mean F1 of documents at each of ``cutoffs``; precision is over the phrases given, at most k.

    Documents without gold phrases are left out.

    Args:
        predicted: phrases of each document, best first.
        gold: phrases of its readers.

    Raises:
        ValueError: no document has gold phrases, or the numbers of documents differ.
    """
    documents = [(stemmed_phrases(phrases), set(wanted)) for phrases, keys in zip(predicted, gold, strict=True)
                 if (wanted := stemmed_phrases(keys))]
    if not documents:
        raise ValueError("no document has gold phrases")
    return {cutoff: sum(_f1(phrases[:cutoff], wanted) for phrases, wanted in documents) / len(documents)
            for cutoff in cutoffs}


def stemmed_phrases(phrases: Iterable[str]) -> list[str]:
    """Return the distinct stemmed forms of ``phrases`` in their order: Porter stems of their lower-cased words.

    Words are cut at all but letters and digits; phrases without a word have no form.
    """
    from stages.metrics.tokens import stem

    return [form for form in dict.fromkeys(" ".join(map(stem, _LETTERS.findall(phrase.lower()))) for phrase in phrases)
            if form]


def _f1(phrases: list[str], wanted: set[str]) -> float:
    return 2 * len(wanted.intersection(phrases)) / (len(phrases) + len(wanted))


# Documents


def corpora(folder: Path, limit: int | None = None) -> list[Corpus]:
    """Return the sets that lie in ``folder``, the first ``limit`` documents of each."""
    import pyarrow.parquet as pq

    from keycontrast.errors import InputError

    found = []
    for place, name in SETS.items():
        path = folder / f"{place}.parquet"
        if path.exists():
            rows = pq.read_table(path).slice(0, limit).to_pylist()
            texts = [row["text"] if "text" in row else f"{row['title']}. {row['abstract']}" for row in rows]
            keys = [row["keys"] if "keys" in row else row["keys_uncontrolled"] for row in rows]
            found.append(Corpus(name, list(map(first_words, texts)), keys))
    if not found:
        raise InputError(f"{folder}: holds none of {', '.join(f'{place}.parquet' for place in SETS)}. Name the folder "
                         f"that does.")
    return found


def first_words(text: str, words: int = WORDS) -> str:
    """Return the beginning of ``text`` up to the end of its ``words``-th word, white space as it is."""
    ends = [match.end() for match in islice(re.finditer(r"\S+", text), words)]
    return text[:ends[-1]] if ends else text


# Systems


def _ours(method: str) -> System:
    from keycontrast import Keywords

    ranking = Keywords(method)  # type: ignore[arg-type]
    return lambda texts: [[phrase.text for phrase in found] for found in ranking.rank(texts, top=_PHRASES)]


def _component(name: str) -> System:
    from keycontrast import load_pipeline
    from keycontrast.ranking import package  # noqa: F401 - importing pytextrank registers its component

    nlp = load_pipeline()
    nlp.add_pipe(name)
    return lambda texts: [[phrase.text for phrase in doc._.phrases[:_PHRASES]] for doc in nlp.pipe(texts)]


def _keybert(**options: Any) -> System:
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    from stages.common.encoders import resolve_encoder

    model = KeyBERT(SentenceTransformer(str(resolve_encoder("bundled", "encoder").location), device="cpu"))
    return lambda texts: [[phrase for phrase, _ in model.extract_keywords(
        text, keyphrase_ngram_range=(1, _LONGEST), stop_words="english", top_n=_PHRASES, **options)] for text in texts]


def _yake() -> System:
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan="en", n=_LONGEST, top=_PHRASES)
    return lambda texts: [[phrase for phrase, _ in extractor.extract_keywords(text)] for text in texts]


def _rake() -> System:
    from nltk.tokenize import wordpunct_tokenize
    from rake_nltk import Rake
    from spacy.lang.en.stop_words import STOP_WORDS

    rake = Rake(stopwords=STOP_WORDS, max_length=_LONGEST, include_repeated_phrases=False,
                sentence_tokenizer=re.compile(r"(?<=[.!?])\s+").split, word_tokenizer=wordpunct_tokenize)

    def phrases(text: str) -> list[str]:
        rake.extract_keywords_from_text(text)
        return list(rake.get_ranked_phrases()[:_PHRASES])

    return lambda texts: list(map(phrases, texts))


SYSTEMS: dict[str, Callable[[], System]] = {
    **{f"keycontrast, `{method}`": lambda method=method: _ours(method)  # type: ignore[misc]
       for method in ("tfidf", "positionrank", "pytextrank", "mihalcea", "embedrank")},
    "`keycontrast_textrank` in spaCy": lambda: _component("keycontrast_textrank"),
    "pytextrank": lambda: _component("textrank"),
    "KeyBERT": _keybert,
    "KeyBERT, `use_mmr`, diversity 0.5": lambda: _keybert(use_mmr=True, diversity=0.5),
    "YAKE": _yake,
    "rake-nltk": _rake,
}


def ranked(name: str, sets: Sequence[Sequence[str]]) -> tuple[list[Phrases], float]:
    """Return the phrases of the texts of each set by the system of that name, and its seconds."""
    system = SYSTEMS[name]()
    system([_WARM])
    began = time.perf_counter()
    phrases = [system(texts) for texts in sets]
    return phrases, time.perf_counter() - began


def measure(found: Sequence[Corpus], names: Iterable[str]) -> Rows:
    """Return F1 in per cent by set and cut-off, texts per second and peak memory of each system."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    rows = []
    for name in names:
        sys.stderr.write(f"{name}\n")
        try:
            (phrases, seconds), memory = peak_memory(ranked, name, [corpus.texts for corpus in found], resident=True)
        except ImportError as error:
            sys.stderr.write(f"{name} is left out: {error}. pip install 'keycontrast[benchmarks,yake]'\n")
            continue
        row: dict[str, Any] = {"system": name}
        for corpus, given in zip(found, phrases, strict=True):
            row |= {f"{corpus.name} ({len(corpus.texts)}) F1@{cutoff}": f"{100 * score:.1f}"
                    for cutoff, score in keyphrase_scores(given, corpus.gold).items()}
        rows.append(row | {"texts/s": round(sum(map(len, phrases)) / seconds, 1), "MiB": round(memory)})
    return rows


def main(argv: list[str] | None = None) -> int:
    """Measure the systems and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyphrases", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.keyphrases --data ../data --limit 100")
    parser.add_argument("--data", type=Path, required=True, help="folder of the published data sets")
    parser.add_argument("--limit", type=int, help="documents of each set, the first ones; all by default")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME",
                        help=f"all by default: {', '.join(SYSTEMS)}")
    parser.add_argument("--write", action="store_true", help=f"also put the table into {RESULTS}")
    arguments = parser.parse_args(argv)
    from keycontrast.errors import InputError
    from keycontrast.files import atomic_file

    try:
        table = markdown_table(measure(corpora(arguments.data, arguments.limit), arguments.systems))
    except InputError as error:
        sys.stderr.write(f"benchmarks.keyphrases: {error}\n")
        return 1
    sys.stdout.write(table + "\n")
    if arguments.write:
        before, _, rest = RESULTS.read_text(encoding="utf-8").partition(BEGIN)
        with atomic_file(RESULTS) as temporary:
            temporary.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
