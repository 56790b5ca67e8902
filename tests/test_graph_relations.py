"""Sparse products in blocks, and the choice of the strongest entries, against loops."""

from itertools import groupby

import numpy as np
import pytest
from keyword_graphs import named, oracle, random_triples, tables

from keycontrast.errors import InputError
from keycontrast.network import BLOCK, strongest
from stages.graph import relations
from stages.graph.relations import relate
from stages.graph.triples import node_triples

MANY_WORDS = [f"w{number:02d}" for number in range(60)]


def numbered(triples):
    return node_triples(*tables(triples))


def columns(edges):
    return [getattr(edges, name).tolist() for name in ("target", "source", "sign", "count")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [1, 7, 100, 5000])
def test_the_size_of_a_block_changes_nothing(seed, block):
    triples = numbered(random_triples(seed, rows=300, words=MANY_WORDS))
    whole, cut = (relate(triples, 5, 4, True, size) for size in (BLOCK, block))
    assert columns(cut.edges) == columns(whole.edges)
    assert cut.dropped == whole.dropped
    assert [column.dtype for column in vars(cut.edges).values()] == ["int32", "int32", "int8", "int64"]


def test_what_was_dropped_is_counted_as_the_loops_count_it():
    triples = random_triples(3, rows=150, words=MANY_WORDS)
    kept = relate(numbered(triples), 4, None, False)
    everything = oracle(triples, max_nbr=10**9, link_inputs=False)
    assert kept.dropped.capped == len(everything) - len(kept.edges)
    by_cluster = [[row for row in triples if row[0] == head] for head in {row[0] for row in triples}]
    good, bad = ({(a[1], b[place]) for members in by_cluster for a in members for b in members} for place in (1, 2))
    assert kept.dropped.conflicts == sum(a != b for a, b in good & bad)
    assert kept.dropped.positive_self_pairs == sum(a == b for a, b in good)
    assert kept.dropped.negative_self_pairs == sum(a == b for a, b in bad)


def strongest_by_loop(entries, limit):
    ranked = sorted(entries, key=lambda entry: (entry[0], -entry[2], entry[1]))
    return [entry for _, group in groupby(ranked, key=lambda entry: entry[0]) for entry in list(group)[:limit]]


@pytest.mark.parametrize("limit", [1, 3, None])
@pytest.mark.parametrize("scale", [1, 2**55], ids=["in one number", "by three keys"])
def test_the_strongest_equal_a_sort(limit, scale):
    rng = np.random.default_rng(0)
    places = rng.choice(20 * 50, size=300, replace=False)
    group, column = np.divmod(places, 50)
    group[group == 7] = 8 - 1  # a group may be missing, as 3 is here
    column = column[group != 3]
    group = group[group != 3]
    count = rng.integers(1, 6, size=len(group)) * scale
    found = strongest(group, column, count, 50, limit)
    entries = list(zip(group.tolist(), column.tolist(), count.tolist(), strict=True))
    assert list(zip(*(part.tolist() for part in found), strict=True)) == strongest_by_loop(entries, limit)


def test_large_counts_stay_exact():
    # One cluster of 30,000 equal members: 900,000,000 pairs of each sign, and an odd one out.
    triples = [("h", "a", "b")] * 30_000 + [("h", "c", "d")]
    found = relate(numbered(triples), 16, None, False)
    names = {"keyword": numbered(triples).names}
    assert named(names, found.edges.table()) == {
        ("a", "c", 1): 30_000, ("c", "a", 1): 30_000, ("a", "b", -1): 900_000_000, ("a", "d", -1): 30_000,
        ("c", "b", -1): 30_000, ("c", "d", -1): 1}


def test_more_pairs_than_can_be_counted_are_refused(monkeypatch):
    triples = numbered([("a", "b", None)] * 40)
    monkeypatch.setattr(relations, "_EXACT", 1601)
    relate(triples, 16, None, False)
    with pytest.raises(InputError, match="more than 2\\^53 pairs of examples.*Set ingest.max_train"):
        relate(triples, 16, None, True)
