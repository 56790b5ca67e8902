"""The keyword graph and its attention against a loop written from HCL eq. 4-9, and its properties."""

import math

import pytest
import torch

from models.hcl.graph import (
    GraphAttention,
    Impostor,
    KeywordGraph,
    impostor_candidates,
    impostor_cosines,
    neighbourhood,
    segment_sum,
    weighted_mean,
)

WIDTH = 4
# (target, source, sign); node 5 has no neighbour, node 6 is a chain's far end
EDGES = [(0, 1, 1), (0, 2, -1), (0, 3, -1), (1, 0, 1), (1, 4, -1), (2, 1, 1), (3, 6, 1), (4, 2, -1)]
NODES = 7


@pytest.fixture(autouse=True)
def _double_precision():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def graph_of(edges=EDGES, vectors=None):
    vectors = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1)) if vectors is None else vectors
    target, source, sign = torch.tensor(edges).unbind(-1)
    return KeywordGraph.from_edges(vectors, target, source, sign)


def attention_of(iterations=2, layer_norm=True):
    attention = GraphAttention(WIDTH, iterations, layer_norm)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return attention


def of_seeds(attention, graph, seeds):
    """Vectors of ``seeds`` (S,) on their neighbourhood, as a training step computes them."""
    if attention.iterations == 0:
        return graph.h0[seeds]
    around, rows = neighbourhood(graph, seeds, attention.iterations)
    return attention.rounds(graph.h0[around.nodes], around.receivers, around.senders, around.sizes)[rows]


def loop(attention, graph):
    """Eq. 4-9, edge by edge."""
    h = list(graph.h0)
    edges = list(zip(graph.target.tolist(), graph.source.tolist(), strict=True))
    r = {(i, j): attention.ffn0[0](torch.cat([h[i], h[j]])) for i, j in edges}
    for _ in range(attention.iterations):
        for i, j in edges:
            scores = torch.stack([attention.Wp(r[i, j]) @ attention.Wh(h[node]) for node in (i, j)])
            b_i, b_j = torch.softmax(scores / math.sqrt(WIDTH), dim=0)
            r[i, j] = attention.ffn1[0](r[i, j] + b_i * h[i] + b_j * h[j])
        updated = []
        for i in range(len(h)):
            sources = [source for target, source in edges if target == i]
            scores = torch.stack([attention.Wq(h[i]) @ (attention.Wk(h[j]) + attention.Wr(r[i, j])) for j in sources])
            a = torch.softmax(scores / math.sqrt(WIDTH), dim=0)
            m = sum(a_ij * (attention.Wv(h[j]) + r[i, j]) for a_ij, j in zip(a, sources, strict=True))
            updated.append(attention.norm(h[i] + m))
        h = updated
    return torch.stack(h)


def test_every_node_has_one_positive_self_loop():
    graph = graph_of([*EDGES, (2, 2, 1), (4, 4, -1)])
    loops = graph.target == graph.source
    assert graph.target[loops].tolist() == list(range(NODES))
    assert (graph.sign[loops] == 1).all()
    assert graph.num_edges == len(EDGES) + NODES


@pytest.mark.parametrize(("iterations", "layer_norm"), [(0, True), (1, False), (2, True), (3, False)])
def test_neighbourhoods_and_the_whole_graph_agree_with_the_loop(iterations, layer_norm, monkeypatch):
    graph, attention = graph_of(), attention_of(iterations, layer_norm)
    whole = attention.all_vectors(graph)
    torch.testing.assert_close(whole, loop(attention, graph))
    seeds = torch.tensor([3, 0, 3, 5])  # repeated and unsorted
    torch.testing.assert_close(of_seeds(attention, graph, seeds), whole[seeds])
    torch.testing.assert_close(of_seeds(attention, graph, torch.tensor([6])), whole[[6]])
    monkeypatch.setattr("models.hcl.graph._NODES", 2)
    torch.testing.assert_close(attention.all_vectors(graph), whole)


def test_rounds_computed_again_change_neither_vectors_nor_gradients():
    def trained(largest):
        torch.manual_seed(4)
        attention = attention_of(3)
        attention.largest = largest
        vectors = of_seeds(attention, graph_of(), torch.tensor([0, 3, 4]))
        (vectors * torch.linspace(-1, 2, WIDTH)).sum().backward()
        return [vectors, *(parameter.grad for parameter in attention.parameters())]

    for found, expected in zip(trained(1), trained(2**20), strict=True):
        assert torch.equal(found, expected)


def test_sums_and_softmaxes_are_in_full_precision_under_autocast():
    torch.set_default_dtype(torch.float32)
    vectors = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
    graph, attention = graph_of(vectors=vectors), attention_of()
    plain = of_seeds(attention, graph, torch.arange(NODES))
    with torch.autocast("cpu", torch.bfloat16):
        assert attention.Wq(graph.h0).dtype == torch.bfloat16  # products of matrices are not
        half = of_seeds(attention, graph, torch.arange(NODES))
        assert attention.isolated(graph.h0).dtype == torch.float32
        scores, one = torch.randn(300).bfloat16(), torch.zeros(1000, dtype=torch.int64)
        mean = weighted_mean(scores, torch.eye(300), one[:300], 1)
        total = segment_sum(torch.ones(1000, 1).bfloat16(), one, 1)
    assert half.dtype == mean.dtype == torch.float32
    torch.testing.assert_close(mean[0], torch.softmax(scores.float(), 0))
    assert total.item() == 1000.0  # in bfloat16 a sum of ones stops at 256
    torch.testing.assert_close(half, plain, atol=0.15, rtol=0.1)


def test_a_new_node_is_a_node_with_its_self_loop_alone():
    graph, attention = graph_of(), attention_of()
    torch.testing.assert_close(attention.isolated(graph.h0[[5]]), of_seeds(attention, graph, torch.tensor([5])))
    several = attention.isolated(graph.h0[[5, 0, 5]])
    torch.testing.assert_close(several[1], attention.isolated(graph.h0[[0]])[0])
    assert attention.isolated(graph.h0[:0]).shape == (0, WIDTH)


def candidates_by_loop(output, negative):
    found = []
    for sample, (out, neg) in enumerate(zip(output, negative, strict=True)):
        nodes = sorted(source for target, source, sign in EDGES if target == out and sign < 0)
        if not nodes and out >= 0 and neg >= 0 and neg != out:
            nodes = [neg]
        found += [(sample, node) for node in nodes]
    return found


def test_candidates_are_negative_neighbours_or_the_own_negative():
    # several neighbours; none but an own negative; own negative is the output; no negative; no output; one neighbour
    output, negative = [0, 2, 3, 5, -1, 4], [5, 6, 3, -1, 2, 4]
    sample, node, mask = impostor_candidates(graph_of(), torch.tensor(output), torch.tensor(negative))
    assert list(zip(sample.tolist(), node.tolist(), strict=True)) == candidates_by_loop(output, negative)
    assert mask.tolist() == [True, True, False, False, False, True]


def test_without_graph_the_own_negative_is_the_candidate():
    output, negative = torch.tensor([0, 2, 3]), torch.tensor([5, 6, 3])
    sample, node, mask = impostor_candidates(graph_of(), output, negative, neighbours=False)
    assert (sample.tolist(), node.tolist(), mask.tolist()) == ([0, 1], [5, 6], [True, True, False])


@pytest.mark.parametrize("weight", ["cosine", "linear"])
def test_impostors_equal_a_loop(weight):
    impostor = Impostor(WIDTH, weight)
    u_out, candidates, sample = torch.randn(3, WIDTH), torch.randn(4, WIDTH), torch.tensor([0, 0, 0, 2])
    result = impostor(u_out, candidates, sample)
    for b, rows in ((0, [0, 1, 2]), (2, [3])):
        own = candidates[rows]
        if weight == "cosine":
            scores = torch.stack([torch.cosine_similarity(u_out[b], u, dim=0) for u in own]) / 0.1
            expected = torch.softmax(scores, 0) @ own
        else:
            expected = impostor.W(own.mean(0))
        torch.testing.assert_close(result[b], expected)
    assert (result[1] == 0).all()


def test_contrasts_move_candidates_by_their_shares():
    impostor, samples = Impostor(WIDTH), torch.tensor([0, 0, 0])
    u_out, candidates = torch.randn(1, WIDTH, requires_grad=True), torch.randn(3, WIDTH, requires_grad=True)
    away = torch.randn(WIDTH)
    impostor(u_out, candidates, samples)[0].mul(away).sum().backward()
    assert u_out.grad is None
    shares = candidates.grad @ away / (away @ away)  # each candidate's is its share of the impostor's
    torch.testing.assert_close(candidates.grad, shares[:, None] * away)
    assert shares.sum().item() == pytest.approx(1.0) and (shares > 0).all()
    cosines = torch.cosine_similarity(u_out, candidates, dim=-1)
    assert torch.equal(shares.argsort(), cosines.argsort())  # the hardest weighs most


def test_cosines_show_the_impostor_beside_its_hardest_and_easiest_candidate():
    u_out, candidates = torch.eye(4)[:2], torch.tensor([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
    samples = torch.tensor([0, 0])  # the second has none
    found = impostor_cosines(u_out, torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0] * 4]), candidates, samples)
    torch.testing.assert_close(found, torch.tensor([[math.sqrt(0.5), 0.0], [0.6, 0.0], [0.0, 0.0]]))
