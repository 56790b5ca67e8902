"""Candidates of group-wise contrasts (Cai et al. 2020): items whose inputs are much alike, and items whose are not."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stages.tracks.hcl.batches import TripleBatches, padded
from stages.tracks.hcl.piece_baselines import Start, triples

_K1, _B = 1.2, 0.75
_ROWS = 256  # items that are compared with all others at once


class CandidateBatches(TripleBatches):
    """Triples with candidates beside them; see :class:`models.hcl.baselines.group_wise.GroupWise` for their tensors.

    An item's candidates are the five items whose inputs are most similar to its own by BM25 over word pieces, and five
    of the least similar ones, ties by an order that is drawn once; never itself. On side 0 their inputs stand beside
    its own target, on side 1 their targets beside its own input. The score of such a pair is the cosine of TF-IDF
    vectors of its two texts.

    Attributes:
        chosen: items that are candidates (n, C).
        scores: of the pairs (n, 2, C).
    """

    chosen: Tensor
    scores: Tensor

    @classmethod
    def of(cls, items: pd.DataFrame, start: Start, training: Mapping[str, Any],
           sizes: Mapping[str, Any]) -> "CandidateBatches":
        """Return the batches of training items; arguments as of :func:`triples`."""
        found = triples(items, start, training, sizes, cls)
        assert isinstance(found, cls)
        found.chosen, found.scores = candidates(found.sources.ids, found.targets.ids)
        return found

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items`` and of their candidates."""
        own, others = torch.tensor(list(items)), self.chosen[list(items)]
        mine = own.unsqueeze(1).expand_as(others)
        inputs, outputs = torch.stack([others, mine], 1), torch.stack([mine, others], 1)  # (B, 2, C)
        targets = [self.targets.ids[item] for item in outputs.flatten().tolist()]
        x_ids, x_mask = self.marks.around([self.sources.ids[item] for item in inputs.flatten().tolist()])
        y_in, y_mask = padded([[self.marks.start, *row] for row in targets], self.marks.pad)
        y_out, _ = padded([[*row, self.marks.end] for row in targets], self.marks.pad)
        parts = {"x_ids": x_ids, "x_mask": x_mask, "y_in": y_in, "y_out": y_out, "y_in_mask": y_mask}
        return {**super().batch(items), "cand_score": self.scores[list(items)],
                **{f"cand_{name}": part.unflatten(0, inputs.shape) for name, part in parts.items()}}


def candidates(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], top: int = 5,
               tail: int = 5) -> tuple[Tensor, Tensor]:
    """Return candidates (n, C) of items, by their word pieces, C = min(top + tail, n - 1), and cosines (n, 2, C)."""
    n, size = len(sources), 1 + max(max(row, default=0) for row in [*sources, *targets])
    x, y = (_counts(rows, size) for rows in (sources, targets))
    held = x.indices()[1].bincount(minlength=size)
    idf = torch.log1p((n - held + 0.5) / (held + 0.5))
    lengths = torch.tensor([float(len(row)) for row in sources])[x.indices()[0]]
    tf = x.values() / (x.values() + _K1 * (1 - _B + _B * lengths / lengths.mean()))
    saturated, (x_vectors, y_vectors) = _with_values(x, tf), (_unit(part, idf) for part in (x, y))
    order = torch.from_numpy(np.random.default_rng(0).permutation(n)).float() / n * 1e-6  # decides ties alone
    count, chosen, scores = min(top + tail, n - 1), [], []
    for first in range(0, n, _ROWS):
        rows = torch.arange(first, min(first + _ROWS, n))
        alike = torch.sparse.mm(saturated, (x.index_select(0, rows).to_dense() * idf).T).T - order  # (b, n)
        best = alike.index_put((rows - first, rows), torch.tensor(-torch.inf)).topk(min(top, count), dim=-1).indices
        alike.scatter_(1, torch.cat([rows.unsqueeze(1), best], dim=-1), torch.inf)
        worst = alike.topk(count - best.shape[1], dim=-1, largest=False).indices
        chosen.append(torch.cat([best, worst], dim=-1))
        cosines = [torch.sparse.mm(one, other.index_select(0, rows).to_dense().T).T.gather(1, chosen[-1])
                   for one, other in ((x_vectors, y_vectors), (y_vectors, x_vectors))]
        scores.append(torch.stack(cosines, dim=1))
    return torch.cat(chosen), torch.cat(scores).clamp(0, 1)


def _counts(rows: Sequence[Sequence[int]], size: int) -> Tensor:
    """Return how often each row has each piece, sparse (n, V)."""
    places = torch.tensor([[number, piece] for number, row in enumerate(rows) for piece in row], dtype=torch.int64)
    return torch.sparse_coo_tensor(places.view(-1, 2).T, torch.ones(len(places)), (len(rows), size),
                                   check_invariants=False).coalesce()


def _unit(counts: Tensor, idf: Tensor) -> Tensor:
    """Return rows of tf times idf, each of length 1."""
    rows, columns = counts.indices()
    values = counts.values() * idf[columns]
    return _with_values(counts, values / rows.bincount(values**2, len(counts)).sqrt()[rows])


def _with_values(like: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(like.indices(), values.float(), like.shape, is_coalesced=True,
                                   check_invariants=False)
