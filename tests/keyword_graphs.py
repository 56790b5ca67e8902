"""Tables of keyword triples, and the keyword graph of HCL section 3.2.2, by loops over pairs of members."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.schemas import SCHEMAS
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, write_table
from stages.graph.triples import node_triples

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", NO_KEYWORD]


def tables(triples, splits=None):
    """Examples and keywords of (k_x, k_y+, k_y- or None) triples; every text is its own."""
    rows, words = [], []
    for number, triple in enumerate(triples):
        ids = [3 * number + place if word is not None else None for place, word in enumerate(triple)]
        words += [(text, word) for text, word in zip(ids, triple, strict=True) if word is not None]
        rows.append((number, splits[number] if splits else "train", *ids))
    examples = pd.DataFrame(rows, columns=["example_id", "split", "source_id", "target_id", "negative_id"])
    examples = examples.astype({"example_id": "int64", "split": "str", "source_id": "int64", "target_id": "int64",
                                "negative_id": "Int64"})
    return examples, pd.DataFrame(words, columns=["text_id", "keyword"]).astype({"text_id": "int64", "keyword": "str"})


def clusters_of(examples, keywords, searched=None):
    return pa.concat_tables([SCHEMAS["clusters"].arrow().empty_table(),
                             *node_triples(examples, keywords, searched=searched).clusters()])


def write_no_phrases(paths):
    """Write what the phrase graph is made of, without a text."""
    for kind in ("tokens", "textrank"):
        write_table(paths.table(kind), SCHEMAS[kind], SCHEMAS[kind].arrow().empty_table(), Provenance(kind, ""))


def random_triples(seed, rows=40, words=WORDS, negatives=0.8):
    rng = np.random.default_rng(seed)
    return [(words[a], words[b], words[c] if rng.random() < negatives else None)
            for a, b, c in rng.integers(0, len(words), size=(rows, 3))]


def oracle(triples, max_neighbours=16, link_inputs=True, max_cluster_outputs=None):
    """Count by target, source and sign."""
    clusters = defaultdict(list)
    for triple in triples:
        clusters[triple[0]].append(triple)
    clusters.pop(NO_KEYWORD, None)
    positive, negative = Counter(), Counter()
    for members in clusters.values():
        outputs, negatives = (_kept(members, place, max_cluster_outputs) for place in (1, 2))
        for (_, own, _), (_, output, bad) in itertools.product(members, members):
            if own in outputs and output in outputs:
                positive[own, output] += 1
            if own in outputs and bad in negatives:
                negative[own, bad] += 1
        for head, output, _ in members:
            if link_inputs and output != NO_KEYWORD:
                positive[head, output] += 1
                positive[output, head] += 1
    positive = {pair: n for pair, n in positive.items() if pair[0] != pair[1]}
    negative = {pair: n for pair, n in negative.items() if pair[0] != pair[1] and pair not in positive}
    return _capped(positive, 1, max_neighbours) | _capped(negative, -1, max_neighbours)


def _kept(members, place, limit):
    counts = Counter(member[place] for member in members)
    real = [(word, n) for word, n in counts.items() if word not in (None, NO_KEYWORD)]
    return {word for word, _ in sorted(real, key=lambda item: (-item[1], item[0]))[:limit]}


def _capped(counts, sign, max_neighbours):
    kept = {}
    for target in {pair[0] for pair in counts}:
        mine = sorted((-n, source) for (node, source), n in counts.items() if node == target)[:max_neighbours]
        kept.update({(target, source, sign): -n for n, source in mine})
    return kept


def named(nodes, edges):
    """Table ``edges`` as count by names and sign."""
    names = nodes["keyword"].to_pylist()
    return {(names[row["target"]], names[row["source"]], row["sign"]): row["count"] for row in edges.to_pylist()}
