"""Pairs: each example with each of its references, found piece by piece, checked and counted before they are joined."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
from stages.tracks.pgkpr.inputs import SCORES, Inputs
from stages.tracks.pgkpr.words import STALE, list_lengths, positions, within

# Words of a piece of pairs, and what a pair counts at least: some thousands of short ones, or one that is longer.
PIECE, _LEAST = 1 << 17, 32


@dataclass(frozen=True)
class Pairs:
    """Examples with each of their references, one row per pair (R,).

    Attributes:
        example: number of the example's row in the piece of table ``examples``.
        reference: 0 for the target, 1.. for further references.
        split: name of the split.
        source: text id.
        target: text id of the reference.
        words: of source and target together.
    """

    example: np.ndarray
    reference: np.ndarray
    split: np.ndarray
    source: np.ndarray
    target: np.ndarray
    words: np.ndarray

    def __len__(self) -> int:
        return len(self.example)

    def take(self, rows: np.ndarray) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(self.example[rows], self.reference[rows], self.split[rows], self.source[rows], self.target[rows],
                     self.words[rows])

    def second(self, mode: str | None) -> np.ndarray:
        """Return the text beside which the source of each pair is scored in ``mode``."""
        return self.target if mode == "xy" else self.source


@dataclass
class PairCounts:
    """What there is of pairs, before they are joined.

    Attributes:
        weights: how often each text is the source of a training example, once per example, or a reference of one (T,).
        pairs: how many there are.
        left_out: examples and further references without a pair, because a text has no words.
    """

    weights: np.ndarray
    pairs: int = 0
    left_out: dict[str, int] = field(default_factory=lambda: {"examples": 0, "references": 0})


def find_pairs(examples: pa.Table, inputs: Inputs) -> tuple[Pairs, dict[str, int]]:
    """Return each example with each of its references, but for texts without words, and how many are left out.

    Raises:
        InputError: a text has no row in the tokens.
    """
    source, reference = examples["source_id"].to_numpy(), pc.list_flatten(examples["reference_ids"]).to_numpy()
    references = list_lengths(examples["reference_ids"])
    example, number = np.repeat(np.arange(len(source)), references), within(references)
    of_source, of_reference = (inputs.lengths[inputs.positions(ids)].astype(np.int64) for ids in (source, reference))
    wordless = of_source == 0
    wordless[example[(number == 0) & (of_reference == 0)]] = True      # the first reference is the target
    taken = ~wordless[example] & (of_reference > 0)
    split = np.array(examples["split"].to_pylist(), dtype=object)[example[taken]]
    pairs = Pairs(example[taken], number[taken], split, source[example[taken]], reference[taken],
                  of_source[example[taken]] + of_reference[taken])
    return pairs, {"examples": int(wordless.sum()), "references": int(((of_reference == 0) & ~wordless[example]).sum())}


def pair_pieces(examples: Iterable[pa.Table], inputs: Inputs) -> Iterator[tuple[pa.Table, Pairs]]:
    """Yield all pairs in pieces of about PIECE words, each with the examples that its rows are numbers of.

    Pieces are cut by what they hold and by nothing else.
    """
    for batch in examples:
        pairs, _ = find_pairs(batch, inputs)
        if len(pairs):
            piece = np.cumsum(np.maximum(pairs.words, _LEAST)) // PIECE
            for rows in np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(piece)) + 1):
                yield batch, pairs.take(rows)


def count_pairs(examples: Iterable[pa.Table], inputs: Inputs) -> PairCounts:
    """Count all pairs, and check that every table has what they need.

    Raises:
        InputError: a text has no row, the first reference of an example is not its target, no training pair has words,
            or the scores of a pair are missing.
    """
    found, others, missing = PairCounts(np.zeros(len(inputs.words.ids), dtype=np.int64)), Faults(), {
        name: Faults() for name in inputs.scores}
    trained = False
    for batch in examples:
        _note_other_targets(batch, others)
        pairs, left_out = find_pairs(batch, inputs)
        found.pairs += len(pairs)
        found.left_out = {kind: count + left_out[kind] for kind, count in found.left_out.items()}
        train = pairs.split == "train"
        trained = trained or bool(train.any())
        for text_ids in (pairs.source[train & (pairs.reference == 0)], pairs.target[train]):
            np.add.at(found.weights, inputs.positions(text_ids), 1)
        for text_ids in (pairs.source, pairs.target):
            positions(inputs.texts.ids, text_ids, "table texts")
        for name, faults in missing.items():
            _note_unscored(name, pairs, inputs, faults)
    others.check()
    if not trained:
        raise InputError("table examples: the train split has no pair with words on both sides. Read more data, or "
                         "give ingest.validation and ingest.test smaller shares.")
    for faults in missing.values():
        faults.check()
    return found


def _note_other_targets(examples: pa.Table, faults: Faults) -> None:
    """Note the examples whose first reference is not their target, or which have none."""
    lengths = list_lengths(examples["reference_ids"])
    some = np.flatnonzero(lengths)
    first = pc.list_element(examples["reference_ids"].take(pa.array(some)), 0).to_numpy()
    wrong = np.append(np.flatnonzero(lengths == 0), some[first != examples["target_id"].to_numpy()[some]])
    faults.add(len(wrong), lambda more: (
        f"table examples: the first of reference_ids is not the target of example "
        f"{examples['example_id'][int(wrong[0])]} (and of {more} more). Run the stage ingest again."))


def _note_unscored(name: str, pairs: Pairs, inputs: Inputs, faults: Faults) -> None:
    """Note the pairs that have no row for column ``name`` of the items."""
    table, mode = SCORES[name].table, SCORES[name].mode
    second = pairs.second(mode)
    missing = np.flatnonzero(inputs.scores[name].places(pairs.source, second) < 0)
    faults.add(len(missing), lambda more: (
        f"table {table}: no row" + (f" of mode {mode}" if mode is not None else "") + " for text "
        f"{pairs.source[missing[0]]}" + (f" with {second[missing[0]]}" if mode is not None else "") +
        f", and {more} more are missing. {STALE}"))
