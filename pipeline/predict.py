"""Rewriting or classifying new texts with a trained run: JSON lines out, one per text, as soon as it is done."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths, ModelPaths
from stages.artifacts.schemas import NO_KEYWORD
from stages.params import Params
from stages.runtime.errors import InputError, nearest
from stages.runtime.log import logger
from stages.tracks.hcl.keywords import given_keyword, unseen_remark, with_keywords

if TYPE_CHECKING:
    from stages.tracks.hcl.rewriting import ItemRewriter


@dataclass
class KeywordFinder:
    """Finds the keyword of a new text as the stages annotate, ranking and keywords do.

    Args:
        params: in force; the model's data set must be among them.
        dataset: data set whose training texts give the IDF that settles ties.
    """

    params: Params
    dataset: str

    def __post_init__(self) -> None:
        from pipeline.explain import training_idf
        from stages.data.annotate import annotator
        from stages.keywords.methods import FOR_ANY_TEXT, METHODS

        self._method = METHODS[self.params.keywords.method]
        if not self._method.ranks_new_texts:
            raise InputError(f"keywords.method is {self._method.name!r}, which scores a text beside its target; a new "
                             f"text's keyword is found by {' or '.join(FOR_ANY_TEXT)}. Give one with --keyword.")
        language = self.params.datasets[self.dataset].language
        self._annotate = annotator(self.params.annotate.pipeline, language)
        self._idf = training_idf(DatasetPaths(self.dataset))
        self._rank = self._method.ranker(getattr(self.params, self._method.name), language, self._idf)

    def keywords(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return the keyword of each text and the method that found it."""
        from stages.keywords.choice import choose_keywords

        chunk = pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)})
        tokens = self._annotate(chunk)
        chosen = choose_keywords(tokens, self._rank(tokens).table, self._method.name, self._idf,
                                 self.params.keywords.kw_lemma).table.sort_by("text_id")
        return list(zip(chosen["keyword"].to_pylist(), chosen["method"].to_pylist(), strict=True))


def predict(params: Params, run: str, texts: Iterable[str], keyword: str | None = None, samples: int | None = None,
            batch_size: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield one plain dictionary per text: source, prediction(s), and for a model that reads keywords these.

    Of a classifier: text, label, its probability, and the probabilities of all classes.

    Args:
        params: in force.
        run: a run of any track; one of the CLLD track classifies.
        texts: what to rewrite or to classify; read a batch at a time.
        keyword: takes the place of the texts' own keywords; None takes the run's setting. A model of the PGKPR track
            is told by it which words of the text are keywords, several parted by spaces.
        samples: further outputs per text, z drawn from the prior; None takes the run's setting. HCL alone has a z.
        batch_size: texts worked on together; None takes the run's setting.

    Raises:
        InputError: no such run, its model is not trained yet, or it cannot do what is asked.
    """
    if run in params.runs.pgkpr:
        from pipeline.predict_pgkpr import rewritten

        if samples:
            raise InputError(f"--samples: run {run} is of the PGKPR track, whose models draw nothing; leave it out.")
        yield from rewritten(params, run, _batches(texts, batch_size or params.decoding(run).batch_size), keyword)
        return
    if run in params.runs.clld:
        yield from _classified(params, run, texts, keyword, samples, batch_size)
        return
    if run not in params.runs.hcl:
        known = [*params.runs.hcl, *params.runs.pgkpr, *params.runs.clld]
        raise InputError(f"no run is called {run!r}; {nearest(run, known)}")
    from stages.runtime.precision import computing
    from stages.runtime.seeds import seed_everything
    from stages.tracks.hcl.rewriting import load_item_rewriter

    decode = params.decoding(run).model_dump()
    decode["samples"] = decode["samples"] if samples is None else samples
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    with computing(params.runtime) as device:
        paraphraser = load_item_rewriter(ModelPaths(params.runs.hcl[run].model).weights, device)
    setting = decode["keyword"] if keyword is None else f"given:{keyword}"
    finder = _finder(params, paraphraser, setting)
    done = 0
    for batch in _batches(texts, batch_size or decode["batch_size"]):
        items, methods = _items(batch, done, finder, setting, paraphraser, params.seed)
        done += len(batch)
        with computing(params.runtime):  # left before each yield, for what the caller computes in between
            rows = pd.concat(list(paraphraser.rewrite(items, {**decode, "batch_size": len(batch)}, params.seed)))
        yield from _lines(rows, methods, paraphraser.uses_keyword)


def _classified(params: Params, run: str, texts: Iterable[str], keyword: str | None, samples: int | None,
                batch_size: int | None) -> Iterator[dict[str, Any]]:
    from pipeline.predict_clld import classified

    unused = [name for name, value in (("--keyword", keyword), ("--samples", samples)) if value is not None]
    if unused:
        raise InputError(f"{unused[0]}: run {run} is of the CLLD track, whose models classify; leave it out.")
    yield from classified(params, run, _batches(texts, batch_size or params.evaluate_clld.batch_size))


def _finder(params: Params, paraphraser: "ItemRewriter", setting: str) -> KeywordFinder | None:
    """Return what finds the texts' own keywords; None where they make no difference."""
    if not paraphraser.uses_keyword:
        return None
    if given_keyword(setting) is None:
        return KeywordFinder(params, paraphraser.dataset)
    remark = unseen_remark(setting, paraphraser.keywords)
    if remark is not None:
        logger("predict").warning("%s", remark)
    return None


def _items(texts: list[str], first: int, finder: KeywordFinder | None, setting: str, paraphraser: "ItemRewriter",
           seed: int) -> tuple[pd.DataFrame, dict[int, str]]:
    """Return the texts, numbered from ``first``, with their keywords, and how each keyword was come by."""
    numbers = range(first, first + len(texts))
    chosen = finder.keywords(texts) if finder is not None else [(NO_KEYWORD, "given")] * len(texts)
    items = pd.DataFrame({"example_id": numbers, "source": texts, "keyword": [found for found, _ in chosen],
                          "references": [[] for _ in texts]})
    methods = dict(zip(numbers, [method for _, method in chosen], strict=True))
    if setting == "own" or not paraphraser.uses_keyword:
        return items, methods
    how = setting.partition(":")[0]
    return with_keywords(items, setting, paraphraser.keywords, seed), dict.fromkeys(numbers, how)


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    source = iter(texts)
    while batch := list(islice(source, size)):
        yield batch


def _lines(rows: pd.DataFrame, methods: dict[int, str], uses_keyword: bool) -> Iterator[dict[str, Any]]:
    for number, same in rows.groupby("example_id", sort=True):
        first = same.iloc[0]
        line: dict[str, Any] = {"source": first["source"], "prediction": first["prediction"]}
        if uses_keyword:
            line |= {"keyword": None if first["keyword"] == NO_KEYWORD else first["keyword"],
                     "keyword_from": methods[int(number)],
                     "keyword_in_graph": bool(first["keyword_known"])}
        if len(same) > 1:
            line["samples"] = same["prediction"].iloc[1:].tolist()
        yield line


def print_lines(lines: Iterable[dict[str, Any]]) -> None:
    """Write each line as JSON to standard output, at once."""
    for line in lines:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
