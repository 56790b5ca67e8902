"""Score the words of every source text by the pair classifier's gradients (METHODS C.2, PGKPR 3.1).

Reads examples, texts and tokens of a data set and its pair classifier; writes attribution.parquet with one row
per source text paired with itself (mode xx) and one per source and target (mode xy).
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from models.attribution import SaliencyBatch, word_saliency
from models.pair_classifier import encode_pairs
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, write_table
from stages.encoders import Chunk, fixed_chunks, sha256_of
from stages.runtime.device import choose_device
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress
from stages.runtime.seeds import seed_everything

STAGE = "attribution"


@dataclass(frozen=True)
class Attributed:
    """What :func:`run` makes: the columns of table ``attribution``, and counts for its metadata."""

    columns: dict[str, list[Any]]
    counts: dict[str, int]

    @property
    def fallbacks(self) -> list[str]:
        """One sentence if words were left at 0 for want of word pieces."""
        unaligned, words = self.counts["unaligned_words"], self.counts["words"]
        return [f"{unaligned} of {words} words score 0: cut off by the classifier's length, or without "
                f"word pieces of their own"] if unaligned else []


def run(examples: pd.DataFrame, texts: pd.DataFrame, tokens: pd.DataFrame, classifier: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
        track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> Attributed:
    """Return the keyword probability of every word of every source text.

    The bytes depend on ``values["batch_size"]`` and on nothing else of how the work is done.

    Args:
        examples: table ``examples``, all splits.
        texts: table ``texts``.
        tokens: table ``tokens``, whose tokens are the words.
        classifier: pair classifier, on its device.
        tokenizer: its fast tokenizer; ``model_max_length`` is the length of a pair.
        values: plain values of the params block ``attribution``.
        track: wraps the list of chunks, to show progress.

    Raises:
        InputError: a source text has no row in ``tokens``.
    """
    requests = saliency_requests(examples, values["modes"])
    text_of = dict(zip(texts["text_id"].tolist(), texts["text"].tolist(), strict=True))
    words = _words(tokens, requests)
    longest = int(tokenizer.model_max_length)
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(requests)
    unaligned = 0
    for chunk in track(fixed_chunks(_lengths(requests, text_of, tokenizer), values["batch_size"], longest)):
        rows = [requests[row] for row in chunk.rows]
        encoded = encode_pairs(tokenizer, [text_of[text] for text, _, _ in rows],
                               [text_of[pair] for _, _, pair in rows], longest, chunk.width)
        pieces = [align(encoded, number, *words[text][1:]) for number, (text, _, _) in enumerate(rows)]
        batch = SaliencyBatch(dict(encoded.to(classifier.device)), pieces)
        found = word_saliency(classifier, batch, values["attr_target"], values["normalisation"])
        for number, item in enumerate(chunk.items):
            scores[item] = found[number].numpy()
            unaligned += sum(not positions for positions in pieces[number])
    return _attributed(requests, words, scores, unaligned)


def saliency_requests(examples: pd.DataFrame, modes: Sequence[str]) -> list[tuple[int, str, int]]:
    """Return the sorted (text, mode, second text) to be scored, each once.

    ``xx`` pairs every source of every split with itself, ``xy`` every source with its target.
    """
    requests = set()
    for source, target in examples[["source_id", "target_id"]].itertuples(index=False):
        pairs = {"xx": int(source), "xy": int(target)}
        requests |= {(int(source), mode, pairs[mode]) for mode in modes}
    return sorted(requests)


def align(encoded: BatchEncoding, row: int, starts: Sequence[int], ends: Sequence[int]) -> list[list[int]]:
    """Return, for each word of the first segment, the positions of the word pieces that overlap it.

    Args:
        encoded: output of a fast tokenizer, which knows the characters of each piece.
        row: row of ``encoded``.
        starts: first character of each word, ascending.
        ends: character after each word.

    A piece over two words ("dont", cut elsewhere into "do" and "nt") counts for both.
    """
    offsets, segments = encoded[row].offsets, encoded.sequence_ids(row)
    pieces = [(position, *offsets[position]) for position, segment in enumerate(segments)
              if segment == 0 and offsets[position][0] < offsets[position][1]]
    found: list[list[int]] = []
    first = 0
    for start, end in zip(starts, ends, strict=True):
        while first < len(pieces) and pieces[first][2] <= start:
            first += 1
        inside = first
        while inside < len(pieces) and pieces[inside][1] < end:
            inside += 1
        found.append([position for position, _, _ in pieces[first:inside]])
    return found


def _words(tokens: pd.DataFrame, requests: list[tuple[int, str, int]]) -> dict[int, tuple[list[str], Any, Any]]:
    """Map each requested text to its words, their first characters and the characters after them."""
    wanted = {text for text, _, _ in requests}
    chosen = tokens.loc[tokens["text_id"].isin(wanted), ["text_id", "token", "start", "end"]]
    words = {int(text): (list(token), list(start), list(end))
             for text, token, start, end in chosen.itertuples(index=False)}
    missing = sorted(wanted - set(words))
    if missing:
        raise InputError(f"tokens.parquet: text {missing[0]} has no row (and {len(missing) - 1} more). It was made "
                         f"from other texts: run the stages ingest and annotate again.")
    return words


def _lengths(requests: list[tuple[int, str, int]], text_of: Mapping[int, str],
             tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Word pieces of each requested pair, special tokens included, before any cut."""
    used = sorted({text for request in requests for text in (request[0], request[2])})
    encoded = tokenizer([text_of[text] for text in used], add_special_tokens=False,
                        return_attention_mask=False)["input_ids"] if used else []
    pieces = dict(zip(used, map(len, encoded), strict=True))
    special = tokenizer.num_special_tokens_to_add(pair=True)
    return [pieces[text] + pieces[pair] + special for text, _, pair in requests]


def _attributed(requests: list[tuple[int, str, int]], words: Mapping[int, tuple[list[str], Any, Any]],
                scores: list[np.ndarray], unaligned: int) -> Attributed:
    columns: dict[str, list[Any]] = {
        "text_id": [text for text, _, _ in requests], "mode": [mode for _, mode, _ in requests],
        "pair": [pair for _, _, pair in requests], "word": [words[text][0] for text, _, _ in requests],
        "score": scores}
    counts = {f"rows_{mode}": columns["mode"].count(mode) for mode in sorted(set(columns["mode"]))}
    return Attributed(columns, {**counts, "words": sum(map(len, scores)), "unaligned_words": unaligned})


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params, paths = load_params(), DatasetPaths(process.instance)
    examples, texts, tokens = (read_frame(paths.table(kind), kind) for kind in ("examples", "texts", "tokens"))
    weights = paths.pair_classifier / "model.safetensors"
    if not weights.exists():
        raise InputError(f"{weights}: no such artifact. Make it with `keycontrast stage pair_classifier`.")
    seed_everything(0, params.runtime.threads, params.runtime.deterministic)  # nothing here is drawn
    classifier = AutoModelForSequenceClassification.from_pretrained(paths.pair_classifier)
    nn.Module.to(classifier, choose_device(params.runtime.device))
    made = run(examples, texts, tokens, classifier, AutoTokenizer.from_pretrained(paths.pair_classifier),
               params.attribution.model_dump(), lambda chunks: progress(chunks, process.name, unit="chunk"))
    for fallback in made.fallbacks:
        process.log.info(fallback)
    models = {"pair_classifier": {"name": paths.pair_classifier.as_posix(), "sha256": sha256_of(weights)}}
    write_table(paths.table(STAGE), STAGE, made.columns,
                Provenance(process.name, stage_hash(params, STAGE, process.instance), models, dict(made.counts),
                           made.fallbacks))


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
