"""What of a batch is known before any weight: which rows of which matrix it reads, and how they add up.

All of it follows from node ids, lengths and the graph's structure. A loader finds it on the CPU while the device
computes, so that the model neither counts nor searches there, for which the host would have to wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.hcl.config import HclConfig
from models.hcl.impostor import impostor_candidates
from models.hcl.keyword_graph import KeywordGraph
from models.hcl.neighbourhood import Neighbourhood, neighbourhood
from models.hcl.segments import Rows
from models.hcl.views import Views

KEY = "plan"  # under which a batch holds its plan


@dataclass(frozen=True)
class KeywordPlan:
    """Where the keyword vectors of a batch come from.

    Attributes:
        around: the neighbourhood that is computed; None if the vectors of all nodes are there.
        rows: of u_in, u_out (B each) and the impostors' candidates (M) among the vectors; 0 for those without a node.
        known: 1 for input and output keywords that are nodes, and for samples with an impostor (3, B).
        all_known: whether all input keywords are, and whether all output keywords are.
        samples: the sample of each candidate.
        alone: initial vectors (B, d) of input keywords that are new nodes, read where they are not known, or dropped.
    """

    around: Neighbourhood | None
    rows: Rows
    known: Tensor
    all_known: tuple[bool, bool]
    samples: Rows
    alone: Tensor | None


@dataclass(frozen=True)
class Targets:
    """Where a batch's predicted tokens (N,) stand.

    Attributes:
        places: in the flat batch, among B Lt places.
        samples: the sample of each.
    """

    places: Rows
    samples: Rows

    @classmethod
    def of(cls, mask: Tensor) -> "Targets":
        """Return the places of the tokens under ``mask`` (B, Lt)."""
        places = mask.flatten().nonzero().squeeze(-1)
        return cls(Rows.of(places, mask.numel(), ascending=True),
                   Rows.of(places // mask.shape[1], len(mask), ascending=True))


@dataclass(frozen=True)
class Plan:
    """What is known of a batch; ``keywords`` is None for a model that has no use for them."""

    targets: Targets
    keywords: KeywordPlan | None


class PackedPlan:
    """A plan that moves to a device as a tensor does, in one copy for each type of number."""

    def __init__(self, plan: Plan) -> None:
        tensors: dict[torch.dtype, list[Tensor]] = {}

        def found(tensor: Tensor) -> Tensor:
            tensors.setdefault(tensor.dtype, []).append(tensor)
            return tensor

        _mapped(plan, found)
        self._plan = plan
        self._flat = {dtype: torch.cat([tensor.flatten() for tensor in alike]) for dtype, alike in tensors.items()}

    def to(self, device: torch.device, non_blocking: bool = False) -> "PackedPlan":
        """Return the plan on ``device``."""
        return self._moved(lambda flat: flat.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "PackedPlan":
        """Return the plan in page-locked memory."""
        return self._moved(Tensor.pin_memory)

    def unpacked(self) -> Plan:
        """Return the plan, its tensors views of those that were moved."""
        ends = dict.fromkeys(self._flat, 0)

        def view(tensor: Tensor) -> Tensor:
            start = ends[tensor.dtype]
            ends[tensor.dtype] = start + tensor.numel()
            return self._flat[tensor.dtype][start : ends[tensor.dtype]].view(tensor.shape)

        plan: Plan = _mapped(self._plan, view)
        return plan

    def _moved(self, change: Callable[[Tensor], Tensor]) -> "PackedPlan":
        moved = object.__new__(PackedPlan)
        moved._plan, moved._flat = self._plan, {dtype: change(flat) for dtype, flat in self._flat.items()}
        return moved


@dataclass(frozen=True)
class Planner:
    """Makes the plans of a model's batches.

    Attributes:
        graph: its keyword graph, on the CPU.
        config: of the model.
        limit: edges of a block; see :func:`neighbourhood`.
        views: what batches do not see of the graph that say so by ``view``; None if there are no such batches.
    """

    graph: KeywordGraph
    config: HclConfig
    limit: int
    views: Views | None = None

    def plan(self, batch: Mapping[str, Tensor], training: bool = True) -> PackedPlan:
        """Return the plan of a batch on the CPU.

        Args:
            batch: see :class:`models.hcl.HclNetwork`.
            training: whether keyword vectors are computed on their neighbourhood; else they are read off those of
                all nodes.

        Raises:
            ValueError: an input keyword is no node, and the batch has no vector for it; or the batch has views, and
                the planner none.
        """
        keywords = self._keywords(batch, training) if self.config.uses_keyword else None
        return PackedPlan(Plan(Targets.of(batch["y_in_mask"]), keywords))

    def impostors(self, ky: Tensor, kneg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes that impostors are made of; see :func:`impostor_candidates`."""
        return impostor_candidates(self.graph, ky, kneg, neighbours=self.config.graph["iterations"] > 0)

    def _keywords(self, batch: Mapping[str, Tensor], training: bool) -> KeywordPlan:
        ky, iterations = batch["ky"], self.config.graph["iterations"]
        sample, candidates, impostor = self.impostors(ky, batch["kneg"])
        kx, alone = self._seen(batch) if "view" in batch else (batch["kx"], batch.get("unseen_vectors"))
        known = torch.stack([kx >= 0, ky >= 0, impostor])
        all_known = bool(known[0].all()), bool(known[1].all())
        if not all_known[0] and alone is None:
            raise ValueError(f"HclModel: {int((~known[0]).sum())} input keywords are no nodes; give their "
                             f"unseen_vectors (B, d)")
        nodes = torch.cat([kx, ky, candidates])
        real, around = nodes >= 0, None
        rows = torch.where(real, nodes, torch.zeros_like(nodes))
        if training and iterations > 0 and real.any():
            of = F.pad(batch["view"], (0, len(nodes) - len(kx)))[real] if "view" in batch else None
            around, found = neighbourhood(self.graph, nodes[real], iterations, self.limit, self.views, of)
            rows = torch.zeros_like(nodes).index_put((real,), found)
        count = around.rounds[-1].receivers if around is not None else self.graph.num_nodes
        return KeywordPlan(around, Rows.of(rows, count), known.long(), all_known,
                           Rows.of(sample, len(kx), ascending=True), alone)

    def _seen(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the input keywords (B,) in the batch's views, -1 where one is gone, and the vectors of new nodes.

        Without rounds a node is its initial vector, so one that differs in its view is a new node.
        """
        if self.views is None:
            raise ValueError("HclModel: the batch says what it must not see of the graph, the planner has no views")
        kx, view, alone = batch["kx"], batch["view"], batch["unseen_vectors"]
        differences = self.views.among(torch.unique(view), self.graph.num_nodes, self.graph.num_edges)
        rows = differences.row_of(view * self.graph.num_nodes + kx)
        gone = rows == -1
        if self.config.graph["iterations"] == 0:
            changed = rows >= 0
            alone = alone.clone().index_put((changed,), self.views.vectors[rows[changed]])
            gone = gone | changed
        return torch.where(gone, -1, kx), alone


def _mapped(part: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return ``part``, dataclasses of dataclasses, tuples and tensors, with each of its tensors changed."""
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, tuple):
        return tuple(_mapped(item, change) for item in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: _mapped(getattr(part, field.name), change) for field in fields(part)})
    return part


KEYS = ("texts_ids", "texts_mask")  # under which a batch may hold all of its texts joined
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


def joined_texts(batch: Mapping[str, Tensor], names: Sequence[str], pad: int) -> dict[str, Tensor]:
    """Return ids and mask (B', L) of all texts called ``names``, one kind below the other, as :data:`KEYS`.

    Nothing where there are several kinds and their lengths are not alike.
    """
    ids, masks = ([batch[f"{name}_{part}"] for name in names] for part in ("ids", "mask"))
    longest, rows = max(part.shape[1] for part in ids), sum(map(len, ids))
    if rows * longest > _WASTE * sum(part.numel() for part in ids):
        return {}
    return {key: torch.cat([_widened(part, longest, fill) for part in parts])
            for key, parts, fill in zip(KEYS, (ids, masks), (pad, 0), strict=True)}


def _widened(values: Tensor, length: int, fill: int) -> Tensor:
    return F.pad(values, (0, length - values.shape[1]), value=fill) if values.shape[1] < length else values
