"""Score the words of every source text by gradients of the pair classifier (PGKPR section 3).

Table attribution has one row per source text paired with itself (mode xx) and one per source and reference
(mode xy; the target is the first reference). If ``keywords.method`` is attribution, every other text also has a row
of mode xx. A run that was killed resumes where it stopped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import hash_values, sha256_of
from keycontrast.text.batches import fixed_chunks, piece_counts
from models.keywords.attribution import from_characters, word_saliency
from models.keywords.pair_classifier import encode_pairs
from stages.common.device import choose_device, computed_in, computing
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


# A text, a second text, and the first character and the end of each word of the first text.
Pair = tuple[str, str, np.ndarray, np.ndarray]


class Scorer:
    """Scores the words of a text beside a second one by the gradients of a pair classifier.

    Attributes:
        models: name and hash of the classifier, for the metadata.
        size: pairs of a chunk.
        longest: word pieces that the classifier takes.
    """

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.network, self.tokenizer, self.values, self.models = network, tokenizer, values, dict(models or {})
        self.size = values["batch_size"]
        self.longest = int(tokenizer.model_max_length)

    def scores(self, pairs: Sequence[Pair], width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the scores of the words of each pair, all padded to ``width``, and how many have no piece (B,)."""
        firsts, seconds, starts, ends = zip(*pairs, strict=True)
        encoded = from_characters(encode_pairs(self.tokenizer, firsts, seconds, self.longest, width), starts, ends)
        on_device = replace(encoded, inputs={name: value.to(self.network.device)
                                             for name, value in encoded.inputs.items()})
        saliency = word_saliency(self.network, on_device, self.values["attr_target"], self.values["released_bugs"])
        return [score.numpy() for score in saliency], encoded.words.unaligned()


def load_scorer(values: Mapping[str, Any], folder: Path, device: str) -> Scorer:
    """Return the scorer under the params block ``attribution`` of the classifier in ``folder``."""
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise InputError(f"{weights}: no such artifact. Make it with `keycontrast run "
                         f"pair_classifier@{folder.parent.name}`.")
    classifier = AutoModelForSequenceClassification.from_pretrained(folder)
    nn.Module.to(classifier, device)
    return Scorer(classifier, AutoTokenizer.from_pretrained(folder), values,
                  {"pair_classifier": {"name": folder.as_posix(), "sha256": sha256_of(weights)}})


def run(examples: pa.Table, texts: Lookup, tokens: Lookup, scorer: Scorer, modes: Sequence[str],
        every: bool = False, counts: Counter[str] | None = None) -> Iterator[pa.Table]:
    """Yield the keyword probabilities of every word of every source text, in the order of the table's key.

    The bytes depend on ``scorer.size`` and on nothing else of how the work is done. With ``every`` each text of
    ``tokens`` is scored beside itself, not only sources. Rows by mode, words, and words without pieces are added to
    ``counts``.
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
    special = scorer.tokenizer.num_special_tokens_to_add(pair=True)
    lengths = [pieces[first] + pieces[second] + special for first, second in zip(firsts, seconds, strict=True)]
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(requests)
    unaligned = 0
    for chunk in fixed_chunks(lengths, scorer.size, scorer.longest, _WIDTHS):
        of_chunk, lost = scorer.scores([pairs[row] for row in chunk.rows], chunk.width)
        for item, score in zip(chunk.items, of_chunk, strict=False):  # the rest are repeats that fill the chunk
            scores[item] = score
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


def part_scorer(dataset: str, values: Mapping[str, Any], runtime: Mapping[str, Any], every: bool,
                provenance: Provenance) -> MakePart:
    """Return a function that scores the words of a part of the tokens."""
    paths, settings = DatasetPaths(dataset), Values(runtime)
    seed_everything(0, settings.threads, settings.deterministic, settings.tf32)  # draws nothing
    scorer = load_scorer(values, paths.pair_classifier, choose_device(settings.device))

    def make(part: Path, result: Path) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        tokens = Lookup.read(part, TOKENS, _READ[TOKENS])
        named = pc.field("source_id").isin(tokens.table["text_id"].combine_chunks())
        examples = read_table(paths.table("examples"), EXAMPLES, _READ[EXAMPLES], named)
        wanted = np.unique(source_pairs(examples, values["modes"], tokens.ids)[:, [0, 2]])
        texts = Lookup(TEXTS.name, read_table(paths.table("texts"), TEXTS, _READ[TEXTS],
                                              pc.field("text_id").isin(pa.array(wanted))))
        with computing(settings):
            blocks = run(examples, texts, tokens, scorer, values["modes"], every, counts)
            write_part(result, ATTRIBUTION, _gathered(blocks), provenance.of_part())
        return counts

    return make


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = {schema: paths.table(schema.name) for schema in _READ}
    for schema, path in tables.items():
        check_columns(path, schema)
    # All sources are looked up here, since the parts look up only their own.
    sources = read_table(tables[EXAMPLES], columns=["source_id"])["source_id"].to_numpy()
    Lookup.read(tables[TOKENS], TOKENS, ["text_id"]).rows_of(sources)
    values, params_hash = params.attribution.plain(), process.params_hash
    models = load_scorer(values, paths.pair_classifier, "cpu").models
    device = choose_device(params.runtime.device)
    executor = Executor.of(process, hash_values({
        "params": params_hash, "models": models, "device": device, "data": hash_files(tables.values()),
        "code": hash_code(code_of(STAGE))}))
    if device != "cpu":
        executor = replace(executor, workers=1)  # one network on the GPU
    if values["released_bugs"]:
        process.log.warning("attribution.released_bugs is true: the scores have the bugs of the released code")
    provenance = Provenance(process.name, params_hash, {**models, STAGE: values},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    counts: Counter[str] = Counter(words=0, unaligned_words=0)
    with table_writer(paths.table(STAGE), ATTRIBUTION, provenance) as writer:
        for some in executor.make(tables[TOKENS], part_scorer, (
                process.instance, values, params.runtime.plain(), params.keywords.method == STAGE, provenance), writer):
            counts.update(some)
        provenance.counts = dict(counts)
        if counts["unaligned_words"]:
            provenance.fallbacks = [f"{counts['unaligned_words']} of {counts['words']} words score 0: cut off by the "
                                    f"network's length, or without word pieces of their own"]
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    executor.clear()


main = partial(run_stage, STAGE, _work)
