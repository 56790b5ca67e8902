"""Keywords beside pytextrank, KeyBERT, YAKE and rake-nltk.

`python -m benchmarks keywords` compares the ranking engine, and the components for spaCy, with pytextrank on the same
annotated texts. `python -m benchmarks keyphrases --data DIR` compares exact-match F1 of keyphrases, speed and memory.
It reads DIR/inspec/test.parquet (title, abstract, keys_uncontrolled) and DIR/keyphrase_NAME/all.parquet (text, keys)
of SemEval-2017, DUC-2001, Nguyen-2007 and SemEval-2010, as far as they exist, the first 512 words of each text. Scores
compare Porter stems and are averaged over documents.

Each system runs in a process of its own with one thread: it is loaded, then the clock runs from raw texts to phrases;
MiB are the peak of its process. KeyBERT has the bundled encoder, as embedrank; pytextrank runs in the embedded spaCy
pipeline, whose stop words rake-nltk has. YAKE, KeyBERT and rake-nltk give phrases of up to three words. A package that
is not installed is left out; all come with pip install 'keycontrast[benchmarks,yake]'.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Disagreement, Rows, Section, compare, markdown_table, peak_memory

# The process of a peer should hold only what the peer needs in memory, so Arrow and our packages are imported where
# they are used.

SETS = {"inspec/test": "Inspec, test", "keyphrase_semeval2017/all": "SemEval-2017", "keyphrase_duc2001/all": "DUC-2001",
        "keyphrase_nguyen2007/all": "Nguyen-2007", "keyphrase_semeval2010/all": "SemEval-2010"}
WORDS = 512  # of a text
RESULTS = Path("docs") / "keyphrases.md"
BEGIN = "<!-- keyphrases: made by `python -m benchmarks keyphrases --data DIR --write` -->"
END = "<!-- /keyphrases -->"
_PHRASES = 40  # more than are scored, since phrases with the same stems count once
_LONGEST = 3
_WARM = "A short text about the speed of a machine, to warm the machine."
_SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_ENGINE_WORDS, _COMPONENT_WORDS, _TOTAL = (24, 240), (24, 240, 2400), 24_000  # of a text, and of all texts
_ALL = 1_000_000  # phrases per text, more than any has
_SCORE = 1e-6
_BEGINNING = re.compile(rf"(?:\s*\S+){{0,{WORDS}}}")
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


def keyphrase_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], best: int = 10) -> float:
    """Return the mean F1, over documents with gold phrases, of so many ``best`` phrases or fewer."""
    documents = [(stemmed_phrases(phrases)[:best], set(wanted)) for phrases, keys in zip(predicted, gold, strict=True)
                 if (wanted := stemmed_phrases(keys))]
    if not documents:
        raise ValueError("no document has gold phrases")
    return sum(2 * len(wanted.intersection(phrases)) / (len(phrases) + len(wanted))
               for phrases, wanted in documents) / len(documents)


def stemmed_phrases(phrases: Iterable[str]) -> list[str]:
    """Return the distinct stemmed forms of ``phrases`` in their order: Porter stems of words of letters and digits."""
    from stages.metrics.tokens import stem

    return [form for form in dict.fromkeys(" ".join(map(stem, _LETTERS.findall(phrase.lower()))) for phrase in phrases)
            if form]


def corpora(folder: Path, limit: int | None = None) -> list[Corpus]:
    """Return the data sets in ``folder``, the first ``limit`` documents of each."""
    import pyarrow.parquet as pq

    from keycontrast.errors import InputError

    sets = []
    for place, name in SETS.items():
        path = folder / f"{place}.parquet"
        if path.exists():
            rows = pq.read_table(path).slice(0, limit).to_pylist()
            texts = [row["text"] if "text" in row else f"{row['title']}. {row['abstract']}" for row in rows]
            keys = [row["keys"] if "keys" in row else row["keys_uncontrolled"] for row in rows]
            sets.append(Corpus(name, [_BEGINNING.findall(text)[0] for text in texts], keys))
    if not sets:
        raise InputError(f"{folder}: holds none of {', '.join(f'{place}.parquet' for place in SETS)}. Name another "
                         f"folder.")
    return sets


# Systems


def _ours(method: str) -> System:
    from keycontrast import Keywords

    ranking = Keywords(method)  # type: ignore[arg-type]
    return lambda texts: [[phrase.text for phrase in phrases] for phrases in ranking.rank(texts, top=_PHRASES)]


def _component(name: str) -> System:
    from keycontrast import load_pipeline
    from keycontrast.ranking import package  # noqa: F401 - importing pytextrank registers its component

    nlp = load_pipeline()
    nlp.add_pipe(name)
    return lambda texts: [[phrase.text for phrase in doc._.phrases[:_PHRASES]]
                          for doc in nlp.pipe(texts, batch_size=8)]    # 256, the default, takes three times the memory


def _keybert(top_n: int = _PHRASES, **options: Any) -> System:
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    from stages.common.encoders import resolve_encoder

    model = KeyBERT(SentenceTransformer(str(resolve_encoder("bundled", "encoder").location), device="cpu"))
    return lambda texts: [[phrase for phrase, _ in model.extract_keywords(
        text, keyphrase_ngram_range=(1, _LONGEST), stop_words="english", top_n=top_n, **options)] for text in texts]


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
    "KeyBERT, `use_mmr`, diversity 0.5": lambda: _keybert(10, use_mmr=True, diversity=0.5),  # MMR picks so many
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


def measure(sets: Sequence[Corpus], names: Iterable[str]) -> Rows:
    """Return F1@10 in per cent by data set, texts per second and peak memory of each system."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    rows = []
    for name in names:
        sys.stderr.write(f"{name}\n")
        try:
            (phrases, seconds), memory = peak_memory(ranked, name, [corpus.texts for corpus in sets], resident=True)
        except ImportError as error:
            sys.stderr.write(f"{name} is left out: {error}. pip install 'keycontrast[benchmarks,yake]'\n")
            continue
        row: dict[str, Any] = {"system": name}
        for corpus, given in zip(sets, phrases, strict=True):
            row[f"{corpus.name} ({len(corpus.texts)})"] = f"{100 * keyphrase_f1(given, corpus.gold):.1f}"
        rows.append(row | {"texts/s": round(sum(map(len, phrases)) / seconds, 1), "MiB": round(memory)})
    return rows


# The engine and the components beside pytextrank


def run(context: Context) -> list[Section]:
    """Time rankings and components for spaCy on texts of several lengths."""
    import pyarrow as pa

    pa.set_cpu_count(1)  # Arrow's own threads would be a second core
    return [*(_engines(words, context) for words in _ENGINE_WORDS),
            *(_components(words, context) for words in _COMPONENT_WORDS)]


def annotated(words: int, texts: int) -> Any:
    """Return the token table of ``texts`` texts of ``words`` words or a few more, joined from the shipped sample."""
    import pyarrow as pa
    import pyarrow.json

    from keycontrast.text.annotate import annotator

    sources = cycle(pa.json.read_json(_SAMPLE)["source"].unique().to_pylist())
    joined = []
    for _ in range(texts):
        text = next(sources)
        while len(text.split()) < words:
            text += f" {next(sources)}"
        joined.append(text)
    return annotator("embedded")(pa.table({"text_id": pa.array(range(texts), pa.int64()), "text": joined}))


def differing(tokens: Any) -> int:
    """Return the number of texts on which engine and package differ: phrases, their places, or scores beyond 1e-6."""
    from keycontrast.ranking import rank
    from keycontrast.ranking.package import package_component, rank_with_package

    columns = ("text_id", "phrase", "keyword", "token_start", "token_end", "status")
    ours, theirs = ({tuple(row[name] for name in columns): row["score"] or 0.0 for row in table.to_pylist()}
                    for table in (rank(tokens, "pytextrank", _ALL, compat="pytextrank"),
                                  rank_with_package(tokens, _ALL, package_component("pytextrank"))))
    return len({row[0] for row in ours.keys() | theirs.keys()
                if row not in ours or row not in theirs or abs(ours[row] - theirs[row]) > _SCORE})


def _engines(words: int, context: Context) -> Section:
    from keycontrast.ranking import rank
    from keycontrast.ranking.package import docs, package_component
    from keycontrast.ranking.selection import InverseFrequency

    tokens = annotated(words, 20 if context.quick else _TOTAL // words)
    wrong = differing(tokens)
    if wrong:
        raise Disagreement(f"textrank: {wrong} of {tokens.num_rows} texts differ from pytextrank")
    idf = InverseFrequency.over_tables([tokens])
    rebuilt = [doc for _, doc in docs(tokens)]
    component = package_component("pytextrank")
    rows = compare({
        "ours, compat: pytextrank": lambda: rank(tokens, "pytextrank", _ALL, compat="pytextrank"),
        "ours, pytextrank": lambda: rank(tokens, "pytextrank", _ALL, idf=idf),
        "ours, mihalcea": lambda: rank(tokens, "mihalcea", _ALL, idf=idf),
        "pytextrank's component": lambda: [component(doc) for doc in rebuilt],
    }, context.repeats, items=tokens.num_rows)
    return Section(
        f"{words} words per text", f"{tokens.num_rows:,} annotated texts of {words} words or a few more, one core",
        f"0 of {tokens.num_rows:,} texts differ between compat: pytextrank and the package in phrases or scores "
        f"({_SCORE:g})", [rows],
        ["The package works on spaCy documents that were built beforehand, ours on the token table."])


def _components(words: int, context: Context) -> Section:
    """Compare the components for spaCy, which process one document after another."""
    from keycontrast import spacy_component
    from keycontrast.ranking.package import docs, pytextrank

    documents = [doc for _, doc in docs(annotated(words, 10 if context.quick else _TOTAL // words))]

    def ranked(component: Callable[[Any], Any]) -> Callable[[], list[Any]]:
        return lambda: [component(doc)._.phrases for doc in documents]

    ours, theirs = ranked(spacy_component._Component()), ranked(pytextrank.BaseTextRankFactory())
    for phrases, other in zip(ours(), theirs(), strict=True):
        scores = {phrase.text: phrase.rank for phrase in other}
        if scores.keys() != {phrase.text for phrase in phrases} or any(
                abs(scores[phrase.text] - phrase.rank) > _SCORE for phrase in phrases):
            raise Disagreement(f"{words} words: the components give different phrases")
    rows = compare({"keycontrast_textrank": ours, "pytextrank's textrank": theirs}, context.repeats,
                   items=len(documents))
    return Section(f"Components for spaCy, {words} words", f"{len(documents):,} documents of {words} words or a few "
                   f"more, `doc._.phrases`, one core", f"both give the same phrases for every document, ranks within "
                   f"{_SCORE:g}", [rows])


def main(argv: list[str] | None = None) -> int:
    """Measure the systems and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks keyphrases", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks keyphrases --data ../data --limit 100")
    parser.add_argument("--data", type=Path, required=True, help="folder of the published data sets")
    parser.add_argument("--limit", type=int, help="documents of each set, the first ones; all by default")
    parser.add_argument("--write", action="store_true", help=f"also put the table into {RESULTS}")
    arguments = parser.parse_args(argv)
    if arguments.limit is not None and arguments.limit < 1:
        parser.error(f"--limit: must be a whole number from 1, found {arguments.limit}")
    from keycontrast.errors import InputError
    from keycontrast.files import atomic_file

    try:
        table = markdown_table(measure(corpora(arguments.data, arguments.limit), SYSTEMS))
    except InputError as error:
        sys.stderr.write(f"benchmarks keyphrases: {error}\n")
        return 1
    sys.stdout.write(table + "\n")
    if arguments.write:
        before, _, rest = RESULTS.read_text(encoding="utf-8").partition(BEGIN)
        with atomic_file(RESULTS) as temporary:
            temporary.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0
