"""Graph attention of the HCL model: what a training step costs by the size of the graph, and by the memory it may take.

A step works on the neighbourhood of its batch. So its cost must not depend on the nodes that the batch does not touch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from transformers import BertConfig

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory
from models.hcl import HclConfig, HclModel, KeywordGraph, objective
from models.hcl.graph_attention import LARGEST, GraphAttention

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (1_000, 2_000)
DEGREE, WIDTH, HOPS = 3, 128, 2
SEEDS, ITEMS, LENGTH = 32, 8, 20
TOUCHED = 0.05
# Neighbours of both signs as `graph.max_nbr` caps them; a batch of 256 triples may have several times these seeds.
DENSE_NODES, DENSE_DEGREE, DENSE_SEEDS, DENSE_WIDTH = 20_000, 32, 120, 384
_VOCABULARY = 1_000


@dataclass(frozen=True)
class Subject:
    """A graph and what is trained on it; ``batches`` are new seeds each time, so that no cache knows them."""

    graph: KeywordGraph
    attention: GraphAttention
    model: HclModel
    optimiser: torch.optim.Optimizer
    draws: np.random.Generator

    def seeds(self, count: int) -> torch.Tensor:
        """Return random nodes (count,)."""
        return torch.from_numpy(self.draws.integers(0, self.graph.num_nodes, count))


def random_graph(nodes: int, degree: int, width: int, seed: int = 13) -> KeywordGraph:
    """Return a graph in which every node receives from ``degree`` others, of random signs."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, (nodes - 1) // degree, size=(nodes, degree)).cumsum(1)  # distinct, and not the node itself
    source = (np.arange(nodes)[:, None] + steps) % nodes
    sign = rng.choice(np.array([-1, 1], dtype=np.int8), nodes * degree)
    vectors = torch.from_numpy(rng.standard_normal((nodes, width), dtype=np.float32))
    target = np.repeat(np.arange(nodes), degree)
    return KeywordGraph.from_edges(vectors, *(torch.from_numpy(part) for part in (target, source.ravel(), sign)))


def run(context: Context) -> list[Section]:
    """Measure steps on graphs of 10,000, 100,000 and 1,000,000 nodes, and the memory of a dense neighbourhood."""
    torch.set_num_threads(1)
    sizes, steps = (QUICK_SIZES, 1) if context.quick else (SIZES, 10)
    subjects = {size: _subject(size) for size in sizes}
    apart = _agreement(subjects[sizes[0]])
    shares = [{"nodes": size, "edges": subject.graph.num_edges, **_touched(subject)}
              for size, subject in subjects.items()]
    if not context.quick and max(float(share["touched %"]) for share in shares) > 100 * TOUCHED:
        raise Disagreement(f"a batch touches more than {TOUCHED:.0%} of the nodes: {shares}")
    agreement = (f"neighbourhood and whole graph of {sizes[0]:,} nodes agree to {apart:.1e}; every graph has {DEGREE} "
                 f"neighbours per node")
    workload = f"width {WIDTH}, {HOPS} hops, {steps} steps a run, new nodes each step, one thread"
    return [
        Section("Graph attention, forward and backward", f"{SEEDS} seeds, {workload}", agreement,
                compare(_contenders(subjects, steps, _attention_step), context.repeats, items=steps, unit="steps"),
                table=shares),
        Section("A whole training step of the model", f"{ITEMS} triples of {LENGTH} tokens, encoder and decoder of 2 "
                f"layers, Adam, {workload}", agreement,
                compare(_contenders(subjects, steps, _model_step), context.repeats, items=steps, unit="steps")),
        _memory(context)]


def _contenders(subjects: dict[int, Subject], steps: int, step: Callable[[Subject], None]) -> dict[
        str, Callable[[], None]]:
    def runs(subject: Subject) -> Callable[[], None]:
        def several() -> None:
            for _ in range(steps):
                step(subject)
        return several

    return {f"{size:,} nodes": runs(subject) for size, subject in subjects.items()}


def _subject(nodes: int) -> Subject:
    graph = random_graph(nodes, DEGREE, WIDTH)
    torch.manual_seed(13)
    encoder = BertConfig(vocab_size=_VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
                         intermediate_size=4 * WIDTH, max_position_embeddings=64)
    config = HclConfig.from_params({"latent": {"size": 32}, "decoder": {"layers": 2}}, encoder,
                                   {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4}, graph.num_nodes,
                                   graph.num_edges, LENGTH)
    model = HclModel.from_parts(config, graph=graph).train()
    model.graph = graph  # one copy of its tensors is enough
    return Subject(graph, model.attention, model, torch.optim.Adam(model.parameters(), 1e-4),
                   np.random.default_rng(13))


def _touched(subject: Subject) -> dict[str, float]:
    neighbourhood = subject.graph.levels(subject.seeds(SEEDS), HOPS)[0]
    return {"touched": len(neighbourhood), "touched %": round(100 * len(neighbourhood) / subject.graph.num_nodes, 3)}


def _agreement(subject: Subject) -> float:
    seeds = subject.seeds(SEEDS)
    with torch.no_grad():
        apart = float((subject.attention(subject.graph, seeds) - subject.attention.all_vectors(subject.graph)[seeds])
                      .abs().max())
    if apart > 1e-5:
        raise Disagreement(f"neighbourhood and whole graph are {apart} apart")
    return apart


def _attention_step(subject: Subject) -> None:
    subject.attention.zero_grad()
    vectors = subject.attention(subject.graph, subject.seeds(SEEDS))
    (vectors * torch.linspace(-1.0, 1.0, WIDTH)).sum().backward()


def _model_step(subject: Subject) -> None:
    ids = torch.from_numpy(subject.draws.integers(5, _VOCABULARY, (3, ITEMS, LENGTH)))
    real = torch.ones(ITEMS, LENGTH, dtype=torch.bool)
    batch = {f"{name}_ids": part for name, part in zip(("x", "y", "neg"), ids, strict=True)}
    batch |= {f"{name}_mask": real for name in ("x", "y", "neg", "y_in")}
    batch |= {"y_in": ids[1], "y_out": ids[1].roll(-1, 1), "has_negative": real[:, 0]}
    batch |= {name: subject.seeds(ITEMS) for name in ("kx", "ky", "kneg")}
    subject.optimiser.zero_grad()
    loss, _ = objective(subject.model(batch), subject.model.config, 1.0)
    loss.backward()
    subject.optimiser.step()


# Memory


def _memory(context: Context) -> Section:
    divide = 50 if context.quick else 1
    size = (DENSE_NODES // divide, min(DENSE_DEGREE, DENSE_NODES // divide // 4), max(1, DENSE_SEEDS // divide))
    contenders = {"blocks": LARGEST, "one piece": 2**62}
    found = {name: list(_gradients(*size, limit)) for name, limit in contenders.items()}
    pairs = zip(*found.values(), strict=True)
    apart = max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)
    if apart > 1e-4:
        raise Disagreement(f"gradients with and without blocks are {apart} apart, relative to the largest")
    rows = compare({name: _dense(*size, limit) for name, limit in contenders.items()}, min(context.repeats, 3), 0)
    table = [{"contender": name, "MiB": round(peak_memory(_dense_step, *size, limit))}
             for name, limit in contenders.items()]
    return Section(
        "Memory of a dense neighbourhood", f"{size[2]} seeds on {size[0]:,} nodes with {size[1]} neighbours each, "
        f"width {DENSE_WIDTH}, {HOPS} hops, forward and backward, one thread",
        f"gradients agree to {apart:.1e} of the largest", rows,
        ["Blocks of edges are computed again for their gradients; they fit the processor's caches better."], table)


def _dense(nodes: int, degree: int, seeds: int, limit: int) -> Callable[[], None]:
    return lambda: _dense_step(nodes, degree, seeds, limit)


def _dense_step(nodes: int, degree: int, seeds: int, limit: int) -> None:
    for _ in _gradients(nodes, degree, seeds, limit):
        pass


def _gradients(nodes: int, degree: int, seeds: int, limit: int) -> Iterator[torch.Tensor]:
    torch.set_num_threads(1)
    graph = random_graph(nodes, degree, DENSE_WIDTH)
    torch.manual_seed(13)
    attention = GraphAttention(DENSE_WIDTH, HOPS, largest=limit)
    vectors = attention(graph, torch.arange(seeds))
    (vectors * torch.linspace(-1.0, 1.0, DENSE_WIDTH)).sum().backward()
    for parameter in attention.parameters():
        assert parameter.grad is not None  # A-G6: gradients reach all of them
        yield parameter.grad
