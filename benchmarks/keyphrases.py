"""Exact-match F1 at 5, 10 and 15 of our rankings, of pytextrank and of YAKE on documents with gold keyphrases.

Reads DIR/inspec/test.parquet (title, abstract, keys_uncontrolled) and DIR/keyphrase_NAME/all.parquet (text, keys) of
SemEval-2017, DUC-2001, Nguyen-2007 and SemEval-2010, as far as they are there; --input takes any Parquet file with
columns text and keys. Of a text its first 512 words are read, which cuts news articles and papers. All systems see the
same tokens, parts of speech and texts, and are scored alike: Porter stems, macro average
(stages/metrics/keyphrases.py).
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from keycontrast.ranking import rank
from keycontrast.ranking.chunks import Chunks, with_chunks
from keycontrast.ranking.package import package_component
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.annotators import load_annotator
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import rebuild_docs, token_table
from stages.keywords import embedrank
from stages.keywords.params import EmbedRank
from stages.metrics.tokens import stem
from stages.run.log import configure

CUTOFFS = (5, 10, 15)
# Words between white space that are read of a text: of a paper title, abstract and the beginning of its introduction.
WORDS = 512
SETS = {"keyphrase_semeval2017": "SemEval-2017", "keyphrase_duc2001": "DUC-2001", "keyphrase_nguyen2007": "Nguyen-2007",
        "keyphrase_semeval2010": "SemEval-2010"}
RESULTS = Path("docs") / "results.md"
BEGIN = "<!-- keyphrases: made by `python -m benchmarks.keyphrases --data DIR --write` -->"
END = "<!-- /keyphrases -->"
# More than are scored, since phrases that differ in endings alone count once.
_PHRASES = 40
_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Corpus:
    """Documents with the keyphrases that their readers chose."""

    name: str
    texts: list[str]
    gold: list[list[str]]


Phrases = list[list[str]]


@dataclass(frozen=True)
class KeyphraseScore:
    """Means over documents, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def keyphrase_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]],
                     cutoffs: Sequence[int] = (5, 10, 15)) -> dict[int, KeyphraseScore]:
    """Return the mean scores of documents at each of ``cutoffs``: precision is over the phrases given, at most k.

    ``predicted`` are phrases of each document, best first; ``gold`` those of its readers. Documents without gold
    phrases are left out; without any such document, or with different numbers of documents, it is a ValueError.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} documents were predicted, {len(gold)} have gold phrases")
    documents = [(stemmed_phrases(phrases), set(wanted)) for phrases, keys in zip(predicted, gold, strict=True)
                 if (wanted := stemmed_phrases(keys))]
    if not documents:
        raise ValueError("no document has gold phrases")
    return {cutoff: KeyphraseScore(*(sum(column) / len(documents) for column in zip(
        *(_score(phrases[:cutoff], wanted) for phrases, wanted in documents), strict=True))) for cutoff in cutoffs}


def stemmed_phrases(phrases: Iterable[str]) -> list[str]:
    """Return the distinct stemmed forms of ``phrases`` in their order.

    A form is the Porter stems of the lower-cased words, cut at all but letters and digits; phrases without a word have
    none.
    """
    return [form for form in dict.fromkeys(" ".join(map(stem, _LETTERS.findall(phrase.lower()))) for phrase in phrases)
            if form]


def _score(phrases: list[str], wanted: set[str]) -> tuple[float, float, float]:
    right = sum(phrase in wanted for phrase in phrases)
    precision, recall = right / len(phrases) if phrases else 0.0, right / len(wanted)
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


def corpora(folder: Path) -> list[Corpus]:
    """Return Inspec's test part and the further sets as far as they lie in ``folder``.

    Raises:
        InputError: none is there.
    """
    found = []
    inspec = folder / "inspec" / "test.parquet"
    if inspec.exists():
        table = pq.read_table(inspec)
        texts = [f"{title}. {abstract}" for title, abstract in zip(table["title"].to_pylist(),
                                                                  table["abstract"].to_pylist(), strict=True)]
        found.append(Corpus("Inspec, test", texts, table["keys_uncontrolled"].to_pylist()))
    found += [read_corpus(path, name) for place, name in SETS.items()
              if (path := folder / place / "all.parquet").exists()]
    if not found:
        raise InputError(f"{folder}: holds neither inspec/test.parquet nor all.parquet in {', '.join(SETS)}. Name the "
                         f"folder that does, or give a file of your own with --input.")
    return found


def read_corpus(path: Path, name: str) -> Corpus:
    """Return the documents of a Parquet file with columns ``text`` and ``keys`` (list of strings).

    Raises:
        InputError: a column is missing.
    """
    table = pq.read_table(path)
    for column in ("text", "keys"):
        if column not in table.column_names:
            raise InputError(f"{path}: no column {column!r}; it has {', '.join(table.column_names)}.")
    return Corpus(name, [first_words(text) for text in table["text"].to_pylist()], table["keys"].to_pylist())


def first_words(text: str, words: int = WORDS) -> str:
    """Return the beginning of ``text`` up to the end of its ``words``-th word, white space as it is."""
    ends = [match.end() for match in islice(_WORD.finditer(text), words)]
    return text[:ends[-1]] if ends else text


def systems(language: str = "en") -> dict[str, Callable[[pa.Table, Sequence[str]], Phrases]]:
    """Return every system by name: from a token table and its texts to phrases, best first.

    The noun chunks of the project hold nouns alone, so that keywords meet in a graph. Documents have keyphrases with
    adjectives, so those who rank noun chunks are run with both kinds.
    """
    found: dict[str, Callable[[pa.Table, Sequence[str]], Phrases]] = {
        "TextRank (`mihalcea`)": partial(_ours, "mihalcea", "auto")}
    kinds: tuple[tuple[str, Chunks], ...] = (("noun chunks", "annotated"), ("chunks with adjectives", "adjectives"))
    for method, name in {"pytextrank": "TextRank of pytextrank, edge weights counted", "positionrank": "PositionRank",
                         "tfidf": "IDF and position (`tfidf`)"}.items():
        for words, chunks in kinds:
            found[f"{name}, {words}"] = partial(_ours, method, chunks)
    for words, chunks in kinds:
        found[f"*pytextrank (the package)*, {words}"] = partial(_packaged, chunks)
    found["Embeddings, IDF and position (`embedrank`), chunks with adjectives"] = _embedded
    return {**found, "*YAKE (the package)*": lambda _, texts: package_phrases(texts, language)}


def _embedded(tokens: pa.Table, texts: Sequence[str]) -> Phrases:
    settings = EmbedRank(phrases=_PHRASES, chunks="adjectives")
    return _listed(embedrank.run(tokens, settings, InverseFrequency.over_tables([tokens])), texts)


def _packaged(chunks: Chunks, tokens: pa.Table, texts: Sequence[str]) -> Phrases:
    return pytextrank_phrases(with_chunks(tokens, chunks))


def pytextrank_phrases(tokens: pa.Table) -> Phrases:
    """Return the phrases of each text by package pytextrank, run as it is on documents rebuilt from ``tokens``."""
    component = package_component("pytextrank")
    return [[phrase.text for phrase in component(doc)._.phrases[:_PHRASES]] if len(doc) else []
            for _, doc in rebuild_docs(tokens)]


def package_phrases(texts: Sequence[str], language: str = "en") -> Phrases:
    """Return the phrases of each text by package yake, which brings tokens and stop words of its own."""
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan=language, n=3, top=_PHRASES)
    return [list(dict.fromkeys(normal_form(phrase) for phrase, _ in extractor.extract_keywords(text)))
            for text in texts]


def _ours(method: str, chunks: Chunks, tokens: pa.Table, texts: Sequence[str]) -> Phrases:
    idf = InverseFrequency.over_tables([tokens]) if method == "tfidf" else None
    return _listed(rank(tokens, method, phrases=_PHRASES, chunks=chunks, idf=idf), texts)


def _listed(ranking: pa.Table, texts: Sequence[str]) -> Phrases:
    phrases: Phrases = [[] for _ in texts]
    for text, keyword in zip(ranking["text_id"].to_pylist(), ranking["keyword"].to_pylist(), strict=True):
        if keyword is not None:
            phrases[text].append(keyword)
    return phrases


def measure(corpus: Corpus, pipeline: str = "embedded", language: str = "en") -> dict[str, dict[int, KeyphraseScore]]:
    """Return the scores of every system on ``corpus``."""
    tokens = token_table(load_annotator(pipeline, language).columns(range(len(corpus.texts)), corpus.texts))
    scores = {}
    for name, system in systems(language).items():
        sys.stderr.write(f"{corpus.name}: {name}\n")
        scores[name] = keyphrase_scores(system(tokens, corpus.texts), corpus.gold, CUTOFFS)
    return scores


def as_markdown(measured: dict[str, dict[str, dict[int, KeyphraseScore]]], sizes: dict[str, int]) -> str:
    """Return one table with all corpora side by side, F1 in per cent."""
    heads = [f"{name} ({sizes[name]}) F1@{cutoff}" for name in measured for cutoff in CUTOFFS]
    lines = [f"| system | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for system in next(iter(measured.values())):
        values = [f"{100 * scores[system][cutoff].f1:.1f}" for scores in measured.values() for cutoff in CUTOFFS]
        lines.append(f"| {system} | {' | '.join(values)} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Score all systems on the corpora named in ``argv`` and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyphrases", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.keyphrases --data ../data")
    parser.add_argument("--data", type=Path, help="folder of the published data sets")
    parser.add_argument("--input", type=Path, help="a Parquet file with columns text and keys")
    parser.add_argument("--write", action="store_true", help=f"also put the table into {RESULTS}")
    arguments = parser.parse_args(argv)
    configure()
    try:
        if (arguments.data is None) == (arguments.input is None):
            raise InputError("name a folder with --data, or a file with --input.")
        found = corpora(arguments.data) if arguments.data else [read_corpus(arguments.input, arguments.input.stem)]
        measured = {corpus.name: measure(corpus) for corpus in found}
        table = as_markdown(measured, {corpus.name: len(corpus.texts) for corpus in found})
        sys.stdout.write(table + "\n")
        if arguments.write:
            put(table, BEGIN, END)
    except InputError as error:
        sys.stderr.write(f"benchmarks.keyphrases: {error}\n")
        return 1
    return 0


def put(table: str, begins: str, ends: str) -> None:
    """Put ``table`` into the document of results, between two marks.

    Raises:
        InputError: the marks are not there.
    """
    before, begin, rest = RESULTS.read_text(encoding="utf-8").partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise InputError(f"{RESULTS} lacks the marks {begins} and {ends}.")
    with atomic_file(RESULTS) as temporary:
        temporary.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
