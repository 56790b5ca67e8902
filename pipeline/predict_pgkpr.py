"""Rewriting new texts with a run of the PGKPR track: words, tags and keywords as the data set's stages find them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths, ModelPaths
from stages.artifacts.tables import read_table
from stages.params import Params
from stages.runtime.device import choose_device
from stages.runtime.errors import InputError
from stages.runtime.precision import computing
from stages.runtime.seeds import seed_everything
from stages.tracks.pgkpr.generation import Paraphraser, marked_words
from stages.tracks.pgkpr.keywords import COLUMNS, Which, fixed_masks
from stages.tracks.pgkpr.normalisation import as_words
from stages.tracks.pgkpr.words import list_lengths, read_words

# Given texts and their tokens, returns scores or marks aligned with the tokens, in the order of text ids.
Marker = Callable[[pa.Table, pa.Table], pa.ChunkedArray]
GIVEN = "given"


def rewritten(params: Params, run: str, batches: Iterable[list[str]], keyword: str | None) -> Iterator[dict[str, Any]]:
    """Yield one plain dictionary per text: source, prediction and, for a model that reads keywords, these.

    ``keyword_from`` is where they come from: a value of ``generate_pgkpr.keywords``, or ``given``. Of given words,
    ``keyword_missing`` lists those that the text does not have, or only beyond the words that the model reads.

    Args:
        params: in force.
        run: a run of the PGKPR track.
        batches: texts that are rewritten together.
        keyword: words of the texts that are their keywords, parted by spaces; None takes the run's setting.

    Raises:
        InputError: the model or what finds its keywords is not there, or keywords cannot be found or used.
    """
    decode = params.decoding(run).model_dump()
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    device = choose_device(params.runtime.device)
    paraphraser = Paraphraser(ModelPaths(params.runs.pgkpr[run].model).weights, device)
    reader = SourceReader(params, paraphraser, decode["keywords"], keyword, device)
    for texts in batches:
        with computing(params.runtime):  # left before each yield, for what the caller computes in between
            items, missing = reader.items(texts)
            rows = pd.concat(list(paraphraser.rewrite(items, {**decode, "batch_size": len(texts)})))
        for text, prediction, found, lacking in zip(texts, rows["prediction"], rows["keyword"], missing, strict=True):
            line: dict[str, Any] = {"source": text, "prediction": prediction}
            if paraphraser.uses_keywords:
                line |= {"keyword": found or None, "keyword_from": reader.origin}
                line |= {"keyword_missing": lacking} if lacking else {}
            yield line


class SourceReader:
    """Reads new texts as stages annotate, attribution (or psi, or s_tagger) and paraphrase_items would.

    Coins for scores are flipped with a seed of each text's own, so that a text has the same keywords at every place.

    Args:
        params: in force; the model's data set must be among them.
        paraphraser: the model.
        setting: ``generate_pgkpr.keywords``.
        given: keywords in place of those that would be found, parted by spaces.
        device: of the models that find keywords.

    Attributes:
        origin: where keywords come from; None for a model that reads none.

    Raises:
        InputError: keywords that need a reference or are not read by the model, or what finds them is not there.
    """

    def __init__(self, params: Params, paraphraser: Paraphraser, setting: Which | None, given: str | None,
                 device: str) -> None:
        from stages.data.annotate import annotator

        self._on, self._seed = paraphraser.on, params.seed
        self._which = which = paraphraser.which_keywords(setting)
        self._given = None if given is None else _given_words(given, which)
        self._marker = (None if which is None or given is not None
                        else _marker(params, DatasetPaths(self._on.dataset), which, device))
        self.origin = which if given is None else GIVEN
        language = params.datasets[self._on.dataset].language
        self._annotate = annotator(params.annotate.pipeline, language)

    def items(self, texts: list[str]) -> tuple[pd.DataFrame, list[list[str]]]:
        """Return what ``Paraphraser.rewrite`` reads of ``texts``, and of each text the given words that it lacks."""
        chunk = pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)})
        tokens = self._annotate(chunk)
        read = read_words(tokens)
        items = pd.DataFrame({"example_id": range(len(texts)), "source_words": read.words.to_pylist(),
                              "source_tags": read.tags.to_pylist(), "references": [[] for _ in texts]})
        empty = np.flatnonzero(list_lengths(read.words) == 0)
        if len(empty):
            raise InputError(f"text {texts[empty[0]]!r} has no words; leave it out.")
        if self._given is not None:
            return self._with_given(items, self._given)
        nothing: list[list[str]] = [[] for _ in texts]
        if self._which is None or self._marker is None:
            return items.assign(mask=[np.zeros(len(row), dtype=bool) for row in items["source_words"]]), nothing
        marks = read.beside("tokens.parquet", np.arange(len(texts)), self._marker(chunk, tokens)).to_pylist()
        # the text itself names its coins
        rows = items.assign(example_id=texts, **{COLUMNS[self._which]: marks})
        masks = fixed_masks(rows, self._which, self._seed, self._on.mark_all, self._on.max_length)
        return items.assign(mask=masks), nothing

    def _with_given(self, items: pd.DataFrame, given: list[str]) -> tuple[pd.DataFrame, list[list[str]]]:
        masks = [np.isin(np.asarray(words, dtype=object), given) for words in items["source_words"]]
        shown = [marked_words(words, mask[:self._on.max_length])
                 for words, mask in zip(items["source_words"], masks, strict=True)]
        return items.assign(mask=masks), [[word for word in given if word not in found] for found in shown]


def _given_words(given: str, which: Which | None) -> list[str]:
    if which is None:
        raise InputError("--keyword: this model reads no keywords; leave it out.")
    words = as_words(given.lower())
    if not words:
        raise InputError("--keyword: name at least one word of the text.")
    return words


def _marker(params: Params, paths: DatasetPaths, which: Which, device: str) -> Marker:
    """Return what scores or marks the words of new texts as the stages of data set ``paths`` do."""
    if which in ("xy", "psi_xy"):
        raise InputError(f"generate_pgkpr.keywords is {which!r}: these keywords are found beside a reference, and a "
                         f"new text has none. Give them with --keyword, or take another run.")
    if which == "xx":
        return _attribution(params, paths, device)
    if which == "psi_xx":
        return _importance(params, paths)
    return _tags(params, paths, device)


def _attribution(params: Params, paths: DatasetPaths, device: str) -> Marker:
    from stages.keywords.attribution import run
    from stages.keywords.saliency.scorers import load_scorer

    values = params.attribution.model_dump()

    def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
        # rows of a forward pass are filled with repeats: no more of them than there are texts
        scorer.size = min(size, texts.num_rows)
        found = run(_alone(texts), texts.to_pandas(), tokens, scorer, ["xx"])
        return pa.concat_tables([block.table for block in found])["score"]

    scorer = load_scorer(values, paths, params.encoder.source, device)
    size = scorer.size
    return marks


def _importance(params: Params, paths: DatasetPaths) -> Marker:
    from stages.keywords.importance.vectors import VectorTable
    from stages.keywords.psi import run

    vectors = VectorTable.from_arrow(read_table(paths.table("word_vectors"), "word_vectors"))
    settings = params.psi.model_copy(update={"modes": ["xx"]})
    return lambda texts, tokens: pa.concat_tables(
        list(run(lambda: [tokens], _alone(texts), vectors, settings)))["primary"]


def _tags(params: Params, paths: DatasetPaths, device: str) -> Marker:
    from torch import nn

    from stages.keywords.tagging.sources import word_ids
    from stages.keywords.tagging.tagger import load_tagger, tag

    tagger, words = load_tagger(paths.s_tagger)
    nn.Module.to(tagger, device)

    def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
        rows = [word_ids([token.lower() for token in row], words) for row in tokens["token"].to_pylist()]
        size = min(params.s_tagger.batch_size, len(rows))
        return pa.chunked_array([[probability > 0.5 for probability in tag(tagger, rows, size)]], pa.list_(pa.bool_()))

    return marks


def _alone(texts: pa.Table) -> pd.DataFrame:
    """Return examples whose source is each text, beside itself."""
    ids = texts["text_id"].to_pylist()
    return pd.DataFrame({"source_id": ids, "reference_ids": [[number] for number in ids]})
