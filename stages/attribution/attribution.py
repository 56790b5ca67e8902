"""Score the words of every source text by what they do to a network's answer (PGKPR section 3).

Reads examples, texts and tokens of a data set and its pair classifier (method siamese: the sentence encoder);
writes table attribution with one row per source text paired with itself (mode xx) and one per source and reference
(mode xy; the target is the first reference). Where it names the keywords of the data set, every other text has a row
of mode xx too. A run that was killed goes on where it stopped.
"""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import hash_values, sha256_of
from keycontrast.text.batches import encode_texts, fixed_chunks, piece_counts
from models.common.encoders import load_encoder
from models.keywords.attribution import SaliencyBatch, as_batch, from_characters, siamese_saliency, word_saliency
from models.keywords.pair_classifier import encode_pairs
from stages.common.device import choose_device, computed_in, computing
from stages.common.encoders import resolve_encoder
from stages.common.examples import MODES, source_pairs
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import ATTRIBUTION, EXAMPLES, TEXTS
from stages.common.seeds import seed_everything
from stages.common.settings import Values, code_of, hash_code, hash_files
from stages.common.tables import Provenance, as_table, check_columns, read_table, table_writer, write_part
from stages.common.text_tables import TOKENS
from stages.run.executor import Executor, MakePart
from stages.run.process import StageProcess, run_stage

STAGE = "attribution"
# Tables and the columns of them that are needed.
_READ = {EXAMPLES: ["source_id", "reference_ids"], TEXTS: ["text_id", "text"],
         TOKENS: ["text_id", "token", "start", "end"]}
# Chunks that are scored together.
BLOCK_CHUNKS = 64
# Pairs are padded to multiples of this: a finer step than that of single texts pads less, and they are many.
_WIDTHS = 8
# Rows of the table that are written at once.
_WRITTEN_ROWS = 4096


# What scores words

# A text, a second text, and of each word of the first its first character and the one behind it.
Pair = tuple[str, str, np.ndarray, np.ndarray]


class Scorer(ABC):
    """Scores the words of a text beside a second one, by a network.

    Attributes:
        network: on its device.
        tokenizer: its fast tokenizer.
        models: name and description of what scores, for the metadata.
        size: pairs of a chunk: so many that they, or the points of their paths, fill ``batch_size``.
        longest: word pieces that the network takes.
    """

    longest: int

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.network, self.tokenizer, self.values, self.models = network, tokenizer, values, dict(models or {})
        self.size = max(1, values["batch_size"] // (1 if values["method"] == "gradient" else values["steps"]))

    @abstractmethod
    def length(self, first: int, second: int) -> int:
        """Return the length of an encoded pair before any cut, given the word pieces of its texts."""

    @abstractmethod
    def scores(self, pairs: Sequence[Pair], width: int) -> tuple[list[Tensor], np.ndarray]:
        """Return the scores of the words of each pair, all padded to ``width``, and how many have no piece (B,)."""

    def on_device(self, batch: SaliencyBatch) -> SaliencyBatch:
        """Return ``batch`` with its inputs on the network's device."""
        return replace(batch, inputs={name: value.to(self.network.device) for name, value in batch.inputs.items()})


class ClassifierScorer(Scorer):
    """Scores by the gradient of a pair classifier, or by its integrated gradients."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.longest = int(self.tokenizer.model_max_length)

    def length(self, first: int, second: int) -> int:
        """Return the length of the pair, special tokens included."""
        return first + second + self.tokenizer.num_special_tokens_to_add(pair=True)

    def scores(self, pairs: Sequence[Pair], width: int) -> tuple[list[Tensor], np.ndarray]:
        """Score the words of the first texts by the network's answer for the pair."""
        firsts, seconds, starts, ends = zip(*pairs, strict=True)
        encoded = from_characters(encode_pairs(self.tokenizer, firsts, seconds, self.longest, width), starts, ends)
        values = self.values
        return word_saliency(self.network, self.on_device(encoded), values["attr_target"], values["normalisation"],
                             method=values["method"], released_bugs=values["released_bugs"], steps=values["steps"],
                             rows=values["batch_size"]), encoded.words.unaligned()


class SiameseScorer(Scorer):
    """Scores by the words' shares in the cosine of the two texts under a sentence encoder."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.longest = min(int(self.tokenizer.model_max_length), int(self.network.config.max_position_embeddings))

    def length(self, first: int, second: int) -> int:
        """Return the length of the longer text, special tokens included."""
        return max(first, second) + self.tokenizer.num_special_tokens_to_add(pair=False)

    def scores(self, pairs: Sequence[Pair], width: int) -> tuple[list[Tensor], np.ndarray]:
        """Score the words of the first texts by their cosine to the second ones."""
        firsts, seconds, starts, ends = zip(*pairs, strict=True)
        encoded = from_characters(encode_texts(self.tokenizer, firsts, width), starts, ends)
        others = as_batch(encode_texts(self.tokenizer, seconds, width))
        return siamese_saliency(self.network, self.on_device(encoded), self.on_device(others),
                                self.values["normalisation"], steps=self.values["steps"],
                                rows=self.values["batch_size"]), encoded.words.unaligned()


def load_scorer(values: Mapping[str, Any], folder: Path, source: str, device: str) -> Scorer:
    """Return what scores words under the params block ``attribution``."""
    if values["method"] == "siamese":
        resolved = resolve_encoder(source)
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
        nn.Module.to(encoder, device)
        if tokenizer is None:
            raise InputError(f"encoder.source: {source} has no tokenizer.")
        return SiameseScorer(encoder, tokenizer, values, {"encoder": resolved.description})
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise InputError(f"{weights}: no such artifact. Make it with `keycontrast stage "
                         f"pair_classifier@{folder.parent.name}`.")
    classifier = AutoModelForSequenceClassification.from_pretrained(folder)
    nn.Module.to(classifier, device)
    return ClassifierScorer(classifier, AutoTokenizer.from_pretrained(folder), values,
                            {"pair_classifier": {"name": folder.as_posix(), "sha256": sha256_of(weights)}})


# Texts, block by block


def run(examples: pa.Table, texts: Lookup, tokens: Lookup, scorer: Scorer, modes: Sequence[str],
        every: bool = False, counts: Counter[str] | None = None) -> Iterator[pa.Table]:
    """Yield the keyword probabilities of every word of every source text, in the order of the table's key.

    The bytes depend on ``scorer.size`` and on nothing else of how the work is done.

    Args:
        examples, texts, tokens: the tables, of all splits.
        scorer: of the words, which are the tokens.
        modes: ``xx``, ``xy`` or both.
        every: score each text of ``tokens`` beside itself, not only sources.
        counts: rows by mode, words, and those without pieces are added to it.
    """
    requests, size = source_pairs(examples, modes, tokens.ids if every else None), BLOCK_CHUNKS * scorer.size
    for table, wanted in ((texts, requests[:, [0, 2]]), (tokens, requests[:, 0])):
        table.rows_of(np.unique(wanted))
    for start in range(0, len(requests), size):
        block = requests[start:start + size]
        ids = np.unique(block[:, [0, 2]])
        text_of = dict(zip(ids.tolist(), texts.of(ids)["text"].to_pylist(), strict=True))
        rows, unaligned = _scored(block, text_of, tokens.of(block[:, 0]), scorer)
        if counts is not None:
            counts.update(unaligned_words=unaligned, words=len(pc.list_flatten(rows["score"])), **{
                f"rows_{mode}": number for mode, number in sorted(Counter(rows["mode"].to_pylist()).items())})
        yield rows


def _scored(requests: np.ndarray, text_of: Mapping[int, str], words: pa.Table,
            scorer: Scorer) -> tuple[pa.Table, int]:
    """Return rows of table ``attribution`` and the number of words without pieces."""
    firsts, seconds = ([text_of[number] for number in requests[:, side].tolist()] for side in (0, 2))
    pairs = list(zip(firsts, seconds, _ragged(words["start"]), _ragged(words["end"]), strict=True))
    pieces = piece_counts(scorer.tokenizer, sorted({*firsts, *seconds}))
    lengths = [scorer.length(pieces[first], pieces[second]) for first, second in zip(firsts, seconds, strict=True)]
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(requests)
    unaligned = 0
    for chunk in fixed_chunks(lengths, scorer.size, scorer.longest, _WIDTHS):
        of_chunk, lost = scorer.scores([pairs[row] for row in chunk.rows], chunk.width)
        for item, score in zip(chunk.items, of_chunk, strict=False):  # the rest are repeats that fill the chunk
            scores[item] = score.numpy()
        unaligned += int(lost[:len(chunk.items)].sum())
    bounds = np.concatenate([[0], np.cumsum([len(score) for score in scores])]).astype(np.int32)
    return as_table(ATTRIBUTION, {
        "text_id": requests[:, 0], "mode": np.array(MODES)[requests[:, 1]], "pair": requests[:, 2],
        "word": words["token"], "score": pa.ListArray.from_arrays(bounds, np.concatenate(scores))}), unaligned


def _ragged(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Return a list column as one array per row, without copying its values."""
    lists = column.combine_chunks()
    bounds, values = lists.offsets.to_numpy(), lists.values.to_numpy()
    return [values[first:last] for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def _gathered(blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of ``blocks`` in pieces of at least a few thousand."""
    waiting: list[pa.Table] = []
    for block in blocks:
        waiting.append(block)
        if sum(table.num_rows for table in waiting) >= _WRITTEN_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def part_scorer(dataset: str, values: Mapping[str, Any], runtime: Mapping[str, Any], source: str, every: bool,
                provenance: Provenance) -> MakePart:
    """Return what scores the words of a part of the tokens."""
    paths, asked = DatasetPaths(dataset), Values(runtime)
    seed_everything(0, asked.threads, asked.deterministic, asked.tf32)  # draws nothing
    scorer = load_scorer(values, paths.pair_classifier, source, choose_device(asked.device))

    def make(part: Path, result: Path) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        tokens = Lookup.read(part, TOKENS, _READ[TOKENS])
        named = pc.field("source_id").isin(tokens.table["text_id"].combine_chunks())
        examples = read_table(paths.table("examples"), EXAMPLES, _READ[EXAMPLES], named)
        wanted = np.unique(source_pairs(examples, values["modes"], tokens.ids)[:, [0, 2]])
        texts = Lookup(TEXTS.name, read_table(paths.table("texts"), TEXTS, _READ[TEXTS],
                                              pc.field("text_id").isin(pa.array(wanted))))
        with computing(asked):
            blocks = run(examples, texts, tokens, scorer, values["modes"], every, counts)
            write_part(result, ATTRIBUTION, _gathered(blocks), provenance.of_part())
        return counts

    return make


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = {schema: paths.table(schema.name) for schema in _READ}
    for schema, path in tables.items():
        check_columns(path, schema)
    # All sources, since those of no part of the tokens would be looked for by none.
    sources = read_table(tables[EXAMPLES], columns=["source_id"])["source_id"].to_numpy()
    Lookup.read(tables[TOKENS], TOKENS, ["text_id"]).rows_of(sources)
    values, source = params.attribution.plain(), params.encoder.source
    models, params_hash = load_scorer(values, paths.pair_classifier, source, "cpu").models, process.params_hash
    device = choose_device(params.runtime.device)
    executor = Executor.of(process, hash_values({
        "params": params_hash, "models": models, "device": device, "data": hash_files(tables.values()),
        "code": hash_code(code_of(STAGE))}))
    if device != "cpu":
        executor = replace(executor, workers=1)  # one network on the GPU
    if values["released_bugs"]:
        process.log.warning("as the params ask, scores have the bugs of the released code")
    provenance = Provenance(process.name, params_hash, {**models, STAGE: values},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    counts: Counter[str] = Counter(words=0, unaligned_words=0)
    with table_writer(paths.table(STAGE), ATTRIBUTION, provenance) as writer:
        for some in executor.make(tables[TOKENS], part_scorer, (
                process.instance, values, params.runtime.plain(), source, params.keywords.method == STAGE, provenance),
                writer):
            counts.update(some)
        provenance.counts = dict(counts)
        if counts["unaligned_words"]:
            provenance.fallbacks = [f"{counts['unaligned_words']} of {counts['words']} words score 0: cut off by the "
                                    f"network's length, or without word pieces of their own"]
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    executor.clear()


main = partial(run_stage, STAGE, _work)


if __name__ == "__main__":
    sys.exit(main())
