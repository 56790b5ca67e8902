"""Score the words of every source text by what they do to a network's answer (METHODS C.2, PGKPR 3.1).

Reads examples, texts and tokens of a data set and its pair classifier (method siamese: the sentence encoder);
writes attribution.parquet with one row per source text paired with itself (mode xx) and one per source and reference
(mode xy; the target is the first reference). A run that was killed goes on where it stopped.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import models.attribution
import models.encoders
import models.pair_classifier
from models.attribution import SaliencyBatch, from_characters, from_encoding, siamese_saliency, word_saliency
from models.encoders import load_encoder
from models.pair_classifier import encode_pairs
from stages import encoders
from stages.artifacts.example_texts import reference_pairs
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import (
    Provenance,
    as_table,
    check_columns,
    read_metadata,
    read_table,
    table_writer,
    write_table,
)
from stages.encoders import encode_texts, fixed_chunks, piece_counts, resolve_encoder
from stages.runtime.device import choose_device
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values, sha256_of
from stages.runtime.precision import computed_in, computing
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress_bar
from stages.runtime.seeds import seed_everything

STAGE = "attribution"
MODES = ("xx", "xy")
# Chunks that are scored, stored and, after a kill, not repeated together.
_BLOCK_CHUNKS = 64
# Pairs are padded to multiples of this: a finer step than that of single texts pads less, and they are many.
_WIDTHS = 8
# Rows of the table that are written at once.
_WRITTEN_ROWS = 4096
# Tables and the columns of them that are needed.
_READ = {"examples": ["source_id", "reference_ids"], "texts": ["text_id", "text"],
         "tokens": ["text_id", "token", "start", "end"]}
# Values of the params that are bugs of the released code; they are named in the table's metadata.
BUGS = {"argmax_of": "first_row", "embedding": "block_output", "token_types": False}
# A store goes on only under the code that began it.
_CODE = (Path(__file__), Path(encoders.__file__), Path(models.attribution.__file__).parent,
         Path(models.encoders.__file__), Path(models.pair_classifier.__file__))


class Bar(Protocol):
    """A progress bar; ``tqdm`` is one."""

    def update(self, n: int) -> object:
        """Count ``n`` more pairs as done."""

    def close(self) -> None:
        """Take the bar away."""


class Scorer(Protocol):
    """Scores the words of the first text of each pair.

    Attributes:
        size: pairs of a chunk.
        longest: word pieces that the network takes.
        models: name and description of what scores, for the metadata.
    """

    size: int
    longest: int
    models: dict[str, Any]

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the length of each encoded pair before any cut, given the word pieces of its texts."""

    def __call__(self, pairs: "Pairs", width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return, for each pair, its words' scores (n_words,), and how many words have no piece (B,)."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The network's fast tokenizer."""


@dataclass(frozen=True)
class Pairs:
    """Texts whose words are to be scored, each beside a second text.

    Attributes:
        firsts: their texts.
        seconds: the second texts.
        starts: for each first text, the first character of each word.
        ends: for each first text, the character after each word.
    """

    firsts: list[str]
    seconds: list[str]
    starts: list[np.ndarray]
    ends: list[np.ndarray]

    def at(self, rows: Sequence[int]) -> "Pairs":
        """Return the pairs at ``rows``."""
        return Pairs(*([column[row] for row in rows]
                       for column in (self.firsts, self.seconds, self.starts, self.ends)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Attributed:
    """Some rows of the table ``attribution``, with counts for its metadata."""

    table: pa.Table
    counts: dict[str, int]


class ClassifierScorer:
    """Scores by the gradient of a pair classifier, or by its integrated gradients."""

    def __init__(self, classifier: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.classifier, self.tokenizer, self.models = classifier, tokenizer, dict(models or {})
        self.longest = int(tokenizer.model_max_length)
        self.size = texts_of_a_chunk(values)
        names = ("normalisation", "method", "argmax_of", "embedding", "token_types", "steps")
        self._score = partial(word_saliency, classifier, target=values["attr_target"], rows=values["batch_size"],
                              **{name: values[name] for name in names})

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the lengths of pairs, special tokens included."""
        special = self.tokenizer.num_special_tokens_to_add(pair=True)
        return [first + second + special for first, second in counts]

    def __call__(self, pairs: Pairs, width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Score the words of the first texts, all padded to ``width``."""
        encoded = encode_pairs(self.tokenizer, pairs.firsts, pairs.seconds, self.longest, width)
        batch = from_characters(encoded, pairs.starts, pairs.ends)
        scores = self._score(batch=_on(batch, self.classifier))
        return [score.numpy() for score in scores], batch.pieces.unaligned()


class SiameseScorer:
    """Scores by the words' shares in the cosine of the two texts under a sentence encoder."""

    def __init__(self, encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.encoder, self.tokenizer, self.models = encoder, tokenizer, dict(models or {})
        self.longest = min(int(tokenizer.model_max_length), int(encoder.config.max_position_embeddings))
        self.size = texts_of_a_chunk(values)
        self._score = partial(siamese_saliency, encoder, normalisation=values["normalisation"],
                              steps=values["steps"], rows=values["batch_size"])

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the length of the longer text of each pair, special tokens included."""
        special = self.tokenizer.num_special_tokens_to_add(pair=False)
        return [max(pair) + special for pair in counts]

    def __call__(self, pairs: Pairs, width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Score the words of the first texts, all padded to ``width``."""
        batch = from_characters(encode_texts(self.tokenizer, pairs.firsts, width), pairs.starts, pairs.ends)
        others = from_encoding(encode_texts(self.tokenizer, pairs.seconds, width))
        scores = self._score(_on(batch, self.encoder), _on(others, self.encoder))
        return [score.numpy() for score in scores], batch.pieces.unaligned()


def texts_of_a_chunk(values: Mapping[str, Any]) -> int:
    """Return how many pairs go together: so many that they, or the points of their paths, fill ``batch_size``."""
    return values["batch_size"] if values["method"] == "gradient" else max(1, values["batch_size"] // values["steps"])


def run(examples: pd.DataFrame, texts: pd.DataFrame, tokens: pa.Table, scorer: Scorer, modes: Sequence[str],
        store: "BlockStore | None" = None,
        open_bar: Callable[[int, int], Bar] | None = None) -> Iterator[Attributed]:
    """Yield the keyword probabilities of every word of every source text, in the order of the table's key.

    The bytes depend on ``scorer.size`` and on nothing else of how the work is done.

    Args:
        examples: table ``examples``, all splits.
        texts: table ``texts``.
        tokens: table ``tokens``, whose tokens are the words.
        scorer: what scores them.
        modes: ``xx``, ``xy`` or both.
        store: keeps finished blocks; those that it already has are not computed.
        open_bar: given the rows in all and done, returns a progress bar.

    Raises:
        InputError: a text is not in ``texts``, or a source text not in ``tokens``.
    """
    requests = saliency_requests(examples, modes)
    text_of = dict(zip(texts["text_id"].tolist(), texts["text"].tolist(), strict=True))
    _require(np.unique(requests[:, [0, 2]]), texts["text_id"].to_numpy(), "texts")
    places = _token_rows(tokens, requests)
    rows = _BLOCK_CHUNKS * scorer.size
    blocks = [slice(start, min(start + rows, len(requests))) for start in range(0, len(requests), rows)]
    done = sum(block.stop - block.start for number, block in enumerate(blocks) if store and store.has(number))
    bar = open_bar(len(requests), done) if open_bar else None
    for number, block in enumerate(blocks):
        if store and store.has(number):
            yield store.load(number)
            continue
        made = _block(requests[block], text_of, tokens.take(places[block]).combine_chunks(), scorer, bar)
        if store:
            store.save(number, made)
        yield made
    if bar:
        bar.close()


def saliency_requests(examples: pd.DataFrame, modes: Sequence[str]) -> np.ndarray:
    """Return the distinct (text, mode, second text) to be scored, sorted, (n, 3); a mode is its place in MODES.

    ``xx`` pairs every source of every split with itself, ``xy`` every source with each of its references.
    """
    source = examples["source_id"].to_numpy(dtype=np.int64)
    pairs = {"xx": np.stack([source, source], axis=1), "xy": reference_pairs(examples)}
    wanted = [np.insert(pairs[mode], 1, MODES.index(mode), axis=1) for mode in modes]
    return np.unique(np.concatenate(wanted), axis=0)


def _token_rows(tokens: pa.Table, requests: np.ndarray) -> np.ndarray:
    """Return the row of ``tokens`` of each requested text."""
    ids = tokens["text_id"].to_numpy()
    _require(np.unique(requests[:, 0]), ids, "tokens")
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids, requests[:, 0], sorter=order)]


def _require(wanted: np.ndarray, present: np.ndarray, table: str) -> None:
    missing = np.setdiff1d(wanted, present)
    if len(missing):
        raise InputError(f"{table}.parquet: text {missing[0]} has no row (and {len(missing) - 1} more). It was made "
                         f"from other texts: run the stages ingest and annotate again.")


def _block(requests: np.ndarray, text_of: Mapping[int, str], words: pa.Table, scorer: Scorer,
           bar: Bar | None) -> Attributed:
    firsts, seconds = ([text_of[number] for number in requests[:, side].tolist()] for side in (0, 2))
    pairs = Pairs(firsts, seconds, _ragged(words["start"]), _ragged(words["end"]))
    pieces = piece_counts(scorer.tokenizer, sorted({*firsts, *seconds}))
    lengths = scorer.lengths([(pieces[first], pieces[second]) for first, second in zip(firsts, seconds, strict=True)])
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(requests)
    unaligned = 0
    for chunk in fixed_chunks(lengths, scorer.size, scorer.longest, _WIDTHS):
        found, lost = scorer(pairs.at(chunk.rows), chunk.width)
        for item, score in zip(chunk.items, found, strict=False):  # the rest are repeats that fill the chunk
            scores[item] = score
        unaligned += int(lost[:len(chunk.items)].sum())
        if bar:
            bar.update(len(chunk.items))
    return _attributed(requests, words, scores, unaligned)


def _ragged(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Return a list column as one array per row, without copying its values."""
    lists = column.combine_chunks()
    bounds = lists.offsets.to_numpy()
    values = lists.values.to_numpy()
    return [values[first:last] for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def _attributed(requests: np.ndarray, words: pa.Table, scores: list[np.ndarray], unaligned: int) -> Attributed:
    bounds = np.concatenate([[0], np.cumsum([len(score) for score in scores])]).astype(np.int32)
    modes = np.array(MODES)[requests[:, 1]]
    table = as_table(STAGE, {
        "text_id": requests[:, 0], "mode": modes, "pair": requests[:, 2], "word": words["token"],
        "score": pa.ListArray.from_arrays(bounds, np.concatenate(scores))})
    counts = {f"rows_{mode}": int(count) for mode, count in zip(*np.unique(modes, return_counts=True), strict=True)}
    return Attributed(table, {**counts, "words": int(bounds[-1]), "unaligned_words": unaligned})


def _on(batch: SaliencyBatch, network: PreTrainedModel) -> SaliencyBatch:
    """Return ``batch`` with its inputs on the network's device."""
    return SaliencyBatch({name: value.to(network.device) for name, value in batch.inputs.items()}, batch.words,
                         batch.special)


class BlockStore:
    """Finished blocks of a run, valid only for ``key`` (a hash of params, data and code)."""

    def __init__(self, folder: Path, key: str) -> None:
        self.home = folder / "blocks"
        self.folder = self.home / key
        if self.home.exists():
            for other in sorted(self.home.iterdir()):
                if other.name != key:
                    shutil.rmtree(other)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.parquet"

    def has(self, number: int) -> bool:
        """Return whether block ``number`` is finished."""
        return self._path(number).exists()

    def save(self, number: int, made: Attributed) -> None:
        """Keep a block, whole or not at all."""
        provenance = Provenance(STAGE, self.folder.name, counts=dict(made.counts))
        write_table(self._path(number), STAGE, made.table, provenance)

    def load(self, number: int) -> Attributed:
        """Return a finished block."""
        path = self._path(number)
        return Attributed(read_table(path, STAGE).replace_schema_metadata(None), read_metadata(path)["counts"])

    def clear(self) -> None:
        """Forget all blocks, once the table stands."""
        shutil.rmtree(self.home, ignore_errors=True)


def gathered(blocks: Iterable[Attributed], counts: Counter[str]) -> Iterator[pa.Table]:
    """Yield the rows of ``blocks`` in pieces of at least a few thousand, and add up their counts in ``counts``."""
    waiting: list[pa.Table] = []
    for block in blocks:
        counts.update(block.counts)
        waiting.append(block.table)
        if sum(table.num_rows for table in waiting) >= _WRITTEN_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every switch of the params block, and the bugs of the released code that are among them by name."""
    bugs = sorted(name for name, bug in BUGS.items() if values[name] == bug)
    return {**values, "bugs_of_the_released_code": [f"{name}: {values[name]}" for name in bugs]}


def fallbacks(counts: Mapping[str, int]) -> list[str]:
    """Return one sentence if words were left at 0 for want of word pieces."""
    unaligned, words = counts["unaligned_words"], counts["words"]
    return [f"{unaligned} of {words} words score 0: cut off by the network's length, or without "
            f"word pieces of their own"] if unaligned else []


def load_scorer(values: Mapping[str, Any], paths: DatasetPaths, source: str, device: str) -> Scorer:
    """Return what scores words under the params block ``attribution``.

    Args:
        values: plain values of the block.
        paths: of the data set, whose pair classifier it is; method siamese has none.
        source: ``encoder.source``, for method siamese.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: there is no such classifier, or the encoder cannot be had.
    """
    if values["method"] == "siamese":
        return _siamese_scorer(source, values, device)
    return _classifier_scorer(paths.pair_classifier, values, device)


def _classifier_scorer(folder: Path, values: Mapping[str, Any], device: str) -> ClassifierScorer:
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise InputError(f"{weights}: no such artifact. Make it with `keycontrast stage pair_classifier`.")
    classifier = AutoModelForSequenceClassification.from_pretrained(folder)
    nn.Module.to(classifier, device)
    return ClassifierScorer(classifier, AutoTokenizer.from_pretrained(folder), values,
                            {"pair_classifier": {"name": folder.as_posix(), "sha256": sha256_of(weights)}})


def _siamese_scorer(source: str, values: Mapping[str, Any], device: str) -> SiameseScorer:
    resolved = resolve_encoder(source)
    encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    nn.Module.to(encoder, device)
    if tokenizer is None:
        raise InputError(f"encoder.source: {source} has no tokenizer.")
    return SiameseScorer(encoder, tokenizer, values, {"encoder": resolved.description})


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = [paths.table(kind) for kind in _READ]
    for path, kind in zip(tables, _READ, strict=True):
        check_columns(path, kind)
    examples, texts, tokens = (read_table(path, columns=_READ[kind])
                               for path, kind in zip(tables, _READ, strict=True))
    values, device = params.attribution.plain(), choose_device(params.runtime.device)
    seed_everything(0, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)  # draws nothing
    scorer = load_scorer(values, paths, params.encoder.source, device)
    params_hash = process.params_hash
    key = hash_values({"params": params_hash, "models": scorer.models, "device": device,
                       "data": hash_files(tables), "code": hash_files(_CODE)})
    store = BlockStore(process.scratch, key)
    described = settings(values)
    for bug in described["bugs_of_the_released_code"]:
        process.log.warning(f"as the params ask, with a bug of the released code: {bug}")
    provenance = Provenance(process.name, params_hash, {**scorer.models, STAGE: described},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    blocks = run(examples.to_pandas(), texts.to_pandas(), tokens, scorer, values["modes"], store,
                 lambda total, done: progress_bar(process.name, total, "pair", done))
    counts: Counter[str] = Counter(words=0, unaligned_words=0)
    with computing(params.runtime), table_writer(paths.table(STAGE), STAGE, provenance) as writer:
        for rows in gathered(blocks, counts):
            writer.write(rows)
        provenance.counts, provenance.fallbacks = dict(counts), fallbacks(counts)
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
