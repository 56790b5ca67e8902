"""In which batches an epoch takes texts of classes that differ in size (R52 has classes of a handful).

A contrast needs two texts of a class in a batch to draw anything together but the two views of a text; and a class
of five texts among five thousand is hardly ever seen.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from models.training import epoch_batches

Sampler = Literal["shuffled", "class_balanced", "at_least_two"]
SAMPLERS: tuple[Sampler, ...] = ("shuffled", "class_balanced", "at_least_two")


def sampled_batches(labels: np.ndarray, batch_size: int, seed: int, sampler: Sampler = "shuffled",
                    lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch: as many as there are without a sampler, all full but the one cut last.

    - ``shuffled``: every text once.
    - ``class_balanced``: as many draws as there are texts, with replacement, each class as likely as another.
    - ``at_least_two``: every text once at first; then in each batch the classes that have one text there are put into
      pairs by chance (three, if their number is odd), and one class of each stands in for both: its text stays, and
      further texts of its class take the others' places. A class that is alone in this has the largest class of the
      batch for its partner. So no class is alone that has another text (but in batches of nothing but pairs), every
      class keeps its share on average, and a text may be left out of an epoch, or come twice.

    Args:
        labels: class of each text (n,).
        batch_size: texts per batch.
        seed: of this epoch.
        sampler: one of these.
        lengths: of each text; with them, batches are of similar lengths (see :func:`models.training.epoch_batches`),
            but for the texts that ``at_least_two`` puts in.

    Raises:
        ValueError: an unknown sampler, or not one length per text.
    """
    if sampler == "shuffled":
        return epoch_batches(len(labels), batch_size, seed, lengths)
    random = np.random.default_rng([seed, SAMPLERS.index(sampler)] if sampler in SAMPLERS else None)
    if sampler == "class_balanced":
        drawn = _balanced(labels, random)
        of_drawn = None if lengths is None else np.asarray(lengths)[drawn].tolist()
        return [drawn[batch].tolist() for batch in epoch_batches(len(labels), batch_size, seed, of_drawn)]
    if sampler == "at_least_two":
        members = _members(labels)
        return [_accompanied(np.array(batch), labels, members, random).tolist()
                for batch in epoch_batches(len(labels), batch_size, seed, lengths)]
    raise ValueError(f"sampler is {sampler!r}, expected one of {', '.join(SAMPLERS)}")


def _balanced(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    _, class_of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    chances = 1.0 / counts[class_of]
    return random.choice(len(labels), len(labels), p=chances / chances.sum())


def _members(labels: np.ndarray) -> dict[int, np.ndarray]:
    return {int(label): np.flatnonzero(labels == label) for label in np.unique(labels)}


def _accompanied(batch: np.ndarray, labels: np.ndarray, members: dict[int, np.ndarray],
                 random: np.random.Generator) -> np.ndarray:
    """Return the batch with texts replaced so that no class stands alone that has another text."""
    found, first, counts = np.unique(labels[batch], return_index=True, return_counts=True)
    alone = [int(place) for label, place, count in zip(found, first, counts, strict=True)
             if count == 1 and len(members[int(label)]) > 1]
    batch, places = batch.copy(), random.permutation(alone)
    if len(places) == 1:  # no other lone class to be paired with
        return _with_the_largest(batch, labels, members, int(places[0]), random)
    groups = [places[start:start + 2] for start in range(0, len(places) - 1, 2)]
    if len(places) % 2 and groups:
        groups[-1] = places[-3:]
    for kept, *others in groups:
        batch[others] = _companions(int(batch[kept]), labels, members, len(others), random)
    return batch


def _with_the_largest(batch: np.ndarray, labels: np.ndarray, members: dict[int, np.ndarray], place: int,
                      random: np.random.Generator) -> np.ndarray:
    """Settle the only lone text with a class of three or more: one of the two gives way, at even odds."""
    found, counts = np.unique(labels[batch], return_counts=True)
    if counts.max() > 2:  # or another class would be left with one
        other = int(random.choice(np.flatnonzero(labels[batch] == found[counts.argmax()])))
        kept, gone = (place, other) if random.random() < 0.5 else (other, place)
        batch[gone] = _companions(int(batch[kept]), labels, members, 1, random)[0]
    return batch


def _companions(item: int, labels: np.ndarray, members: dict[int, np.ndarray], count: int,
                random: np.random.Generator) -> np.ndarray:
    """Return ``count`` other texts of the class of ``item``; with replacement where there are fewer."""
    others = members[int(labels[item])]
    others = others[others != item]
    return random.choice(others, count, replace=len(others) < count)
