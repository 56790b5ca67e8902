"""An item's prior in training equals that on a graph rebuilt without what is hidden from the item."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiny_bert
import tiny_hcl
import torch
from keyword_graphs import clusters_of
from test_node_vectors import as_read
from transformers import BertModel

from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel
from stages.graph import node_vectors
from stages.graph.params import Graph
from stages.graph.relations import relate
from stages.graph.triples import node_triples
from stages.tracks.hcl.data import joined_items
from stages.tracks.hcl.item_views import GraphTables, leaks, views_of_items
from stages.tracks.hcl.train import keyword_graph

KEYWORDS = ["dog", "cat", "school", "food", "language", "weight", "<nokw>", "way", "fast", "play"]
VALUES = {"pooling": "mean", "batch_size": 8, "max_length": 32}
CAPS_OFF = {"max_neighbours": None, "max_cluster_outputs": None}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.manual_seed(1)
    return (BertModel(tiny_bert.config(initializer_range=0.3)).eval(),
            tiny_bert.tokenizer(tmp_path_factory.mktemp("tokenizer")))


@cache
def tables(seed=3, items=16, groups=7):
    """Training items of some components, which share a few texts, two for validation, and one for test.

    The first one's input is the only text with its keyword, the second one's the only input, beside a target.
    """
    rng = np.random.default_rng(seed)
    # Keywords are unevenly frequent, so that some stand in one component alone.
    words = np.array([*rng.choice(len(KEYWORDS) - 2, size=37, p=[0.3, 0.2, 0.15, 0.11, 0.08, 0.06, 0.06, 0.04]),
                      len(KEYWORDS) - 2, len(KEYWORDS) - 2, len(KEYWORDS) - 1])
    texts = [" ".join(rng.choice(tiny_bert.WORDS[:30], size=rng.integers(2, 6))) + f" {number % 7 * '.'}"
             for number in range(40)]
    rows = []
    for number in range(items + 3):
        source, target, negative = rng.choice(37, size=3, replace=False).tolist()
        source, target = {0: 39, 1: 38}.get(number, source), 37 if number == 2 else target
        split = "train" if number < items else "validation" if number < items + 2 else "test"
        rows.append((number, split, source, target, negative if rng.random() < 0.8 else None, [target],
                     int(number if number < 3 else rng.integers(groups)) if split == "train" else 100 + number))
    examples = pd.DataFrame(rows, columns=["example_id", "split", "source_id", "target_id", "negative_id",
                                           "reference_ids", "group"]).astype({"negative_id": "Int64"})
    keywords = pd.DataFrame({"text_id": range(40), "keyword": [KEYWORDS[word] for word in words]})
    return examples, pd.DataFrame({"text_id": range(40), "text": texts, "language": "en"}), keywords


def split(texts):
    """Table ``tokens`` as far as a search reads it: words between spaces."""
    found = [[match.span() for match in re.finditer(r"\S+", text)] for text in texts["text"]]
    rows = pd.DataFrame({"text_id": texts["text_id"]})
    for name, part in (("start", 0), ("end", 1)):
        rows[name] = [[span[part] for span in spans] for spans in found]
    rows["token"] = rows["lemma"] = texts["text"].str.split()
    rows["is_stop"] = [[False] * len(spans) for spans in found]
    rows["pos"] = [["NOUN"] * len(spans) for spans in found]
    return rows


class Built:
    """All that the stages make of some examples, and a model over it."""

    def __init__(self, encoder, examples, params, data=None):
        _, texts, keywords = data or tables()
        searched = split(texts) if params.get("cluster_by") == "contains" else None
        self.clusters = clusters_of(examples, keywords, searched).to_pandas()
        triples, graph = node_triples(examples, keywords, searched=searched), Graph(**params)
        edges = relate(triples, graph.max_neighbours, graph.max_cluster_outputs, graph.link_inputs).edges.table()
        self.nodes = pd.DataFrame({"node_id": range(len(triples.names)), "keyword": triples.names.to_pylist()})
        made = node_vectors.run(*as_read(examples, texts, keywords, self.nodes), *encoder, VALUES)
        self.vectors, embedded = (pa.concat_tables(pieces) for pieces in (made.nodes(), made.texts()))
        self.graph = keyword_graph(self.nodes, edges.to_pandas(), self.vectors.to_pandas())
        self.tables = GraphTables(examples, keywords, self.nodes, self.clusters, embedded)
        self.items = joined_items(examples, texts, keywords, self.nodes)

    def model(self, **settings):
        config = HclConfig.from_params({"latent": {"size": tiny_hcl.LATENT}, "graph": settings},
                                       tiny_hcl.encoder_config(), tiny_hcl.SPECIAL_IDS, self.graph.num_nodes,
                                       self.graph.num_edges, 6.0)
        torch.manual_seed(0)
        model = HclModel.from_parts(config, graph=self.graph)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3, generator=generator)
        return model


@cache
def whole(encoder, link_inputs, **caps):
    return Built(encoder, tables()[0], {"link_inputs": link_inputs, **CAPS_OFF, **caps})


@cache
def rebuilt(encoder, link_inputs, hidden, **params):
    """The graph without the training items ``hidden``, and without their texts where others have them as negatives."""
    return Built(encoder, without(tables()[0], hidden), {"link_inputs": link_inputs, **CAPS_OFF, **params})


def without(examples, hidden):
    """Examples without the items ``hidden`` and without negatives that are inputs or outputs of these alone."""
    gone = examples["example_id"].isin(hidden)
    texts, others = ({*rows["source_id"], *rows["target_id"]} for rows in (examples[gone], examples[~gone]))
    left = examples[~gone]
    return left.assign(negative_id=left["negative_id"].mask(left["negative_id"].isin(texts - others)))


def item_views(built, own_edges, link_inputs, **params):
    settings = {"own_edges": own_edges, "kw_dropout": 0.0}
    made = {"link_inputs": link_inputs, "max_cluster_outputs": None, **params}
    return views_of_items(built.items, built.graph, built.tables, made, settings, seed=5)


def hidden_from(own_edges):
    """Of each training item, those whose contribution it does not see."""
    train = tables()[0].query("split == 'train'")
    if own_edges == "item":
        return [(number,) for number in train["example_id"]]
    return [tuple(train.loc[train["group"] == group, "example_id"]) for group in train["group"]]


def keywords_of(built, model, item_views=None, chosen=None, dropped=None):
    """Keyword vectors of training items, and their priors given the same h_x."""
    items = built.items[built.items["split"] == "train"]
    batch = {name: torch.from_numpy(items[column].to_numpy(dtype="int64", copy=True))
             for name, column in (("kx", "input_node"), ("ky", "output_node"), ("kneg", "negative_node"))}
    batch["y_in_mask"] = torch.ones(len(items), 2, dtype=torch.bool)
    if item_views is not None:
        batch |= item_views.of(range(len(items)))
    if chosen is not None:
        batch = {name: part[chosen] for name, part in batch.items()}
    plan = model.planner(item_views.views if item_views is not None else None).plan(batch)
    found = model.keywords({**batch, **plan, **(dropped or {})})
    h_x = torch.randn(1, tiny_hcl.WIDTH, generator=torch.Generator().manual_seed(2)).expand(len(batch["kx"]), -1)
    return found, model.prior(h_x, found.u_in)


def alone(encoder, graph, model, node, source):
    """The keyword vector of an item, and its prior, on a graph that it contributed nothing to."""
    if node < 0:
        text = tables()[1].set_index("text_id")["text"][source]
        with torch.no_grad():
            vector = encoder[0](**encoder[1](text, return_tensors="pt")).last_hidden_state.mean(1)
        u_in = model.attention.isolated(vector)
    else:
        u_in = model.attention.all_vectors(graph)[[node]]
    h_x = torch.randn(1, tiny_hcl.WIDTH, generator=torch.Generator().manual_seed(2))
    return u_in, model.prior(h_x, u_in)


@pytest.mark.parametrize(("own_edges", "link_inputs", "iterations"), [
    ("component", True, 0), ("component", False, 1), ("component", True, 2), ("item", True, 1), ("item", False, 2),
    ("item", True, 3)])
def test_a_prior_in_training_is_that_on_a_graph_rebuilt_without_what_is_hidden(encoder, own_edges, link_inputs,
                                                                               iterations):
    as_rebuilt(encoder, own_edges, link_inputs, iterations)


@pytest.mark.parametrize(("own_edges", "iterations"), [("component", 1), ("item", 2)])
def test_so_it_is_where_an_item_is_in_several_clusters(encoder, own_edges, iterations):
    assert len(whole(encoder, True, cluster_by="contains").clusters) > 1.5 * len(whole(encoder, True).clusters)
    as_rebuilt(encoder, own_edges, True, iterations, cluster_by="contains")


def as_rebuilt(encoder, own_edges, link_inputs, iterations, **params):
    built = whole(encoder, link_inputs, **params)
    model, keyword_of = built.model(iterations=iterations), tables()[2].set_index("text_id")["keyword"]
    found, prior = keywords_of(built, model, item_views(built, own_edges, link_inputs))
    sources = tables()[0].query("split == 'train'")["source_id"].tolist()
    gone = 0
    for item, (hidden, source) in enumerate(zip(hidden_from(own_edges)[:8], sources, strict=False)):
        other = rebuilt(encoder, link_inputs, hidden, **params)
        names = other.nodes.set_index("keyword")["node_id"]
        node = int(names.get(keyword_of[source], -1))
        gone += node < 0
        u_in, expected = alone(encoder, other.graph, model, node, source)
        torch.testing.assert_close(found.u_in[item], u_in[0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(prior.mu[item], expected.mu[0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(prior.logvar[item], expected.logvar[0], atol=1e-5, rtol=1e-5)
    assert gone > 0


@cache
def retrieved(graph_only=False, items=48, groups=20):
    """Items of many components, most negatives of which are inputs or outputs of other components' items.

    With ``graph_only`` one in six is of the graph alone, some of them beside training items of their component.
    """
    rng = np.random.default_rng(7)
    group = np.r_[np.arange(groups), rng.integers(groups, size=items - groups)]
    rows = []
    for number in range(items):
        # An item begins with its own text; its output may be that of another item of its component.
        alike = np.flatnonzero(group[: number + 1] == group[number])
        target, other = items + int(rng.choice(alike)), rng.choice(np.flatnonzero(group != group[number]))
        negative = int(rng.choice([other, items + other, 2 * items + number % 5]))
        part = "graph" if graph_only and number % 6 == 1 else "train"
        rows.append((number, part, number, target, negative, [target], int(group[number])))
    examples = pd.DataFrame(rows, columns=list(tables()[0])).astype({"negative_id": "Int64"})
    count = 2 * items + 5
    texts = [" ".join(rng.choice(tiny_bert.WORDS[:30], size=4)) for _ in range(count)]
    words = [f"word{number}" for number in rng.integers(60, size=count)]
    return (examples, pd.DataFrame({"text_id": range(count), "text": texts, "language": "en"}),
            pd.DataFrame({"text_id": range(count), "keyword": words}))


def by_keyword(built, views=None, view=0):
    """Initial vectors by keyword, and signs of edges by both keywords, of a graph or of a view of it."""
    words, graph = built.nodes["keyword"].tolist(), built.graph
    vectors = dict(zip(words, graph.h0, strict=True))
    signs = graph.sign.clone()
    if views is not None:
        part = slice(*views.edge_offsets[view:view + 2])
        signs[views.edges[part]] = views.signs[part]
        part = slice(*views.node_offsets[view:view + 2])
        for node, row in zip(views.nodes[part].tolist(), views.rows[part].tolist(), strict=True):
            vectors[words[node]] = views.vectors[row] if row >= 0 else None
    vectors = {word: vector for word, vector in vectors.items() if vector is not None}
    edges = {(words[target], words[source]): sign for target, source, sign in zip(
        graph.target.tolist(), graph.source.tolist(), signs.tolist(), strict=True) if sign and words[target] in vectors}
    return vectors, edges


@pytest.mark.parametrize(("own_edges", "link_inputs", "graph_only"), [
    ("component", True, False), ("component", False, False), ("item", True, False), ("component", True, True)])
def test_a_view_is_the_graph_rebuilt_without_the_texts_of_a_component_as_negatives_too(encoder, own_edges, link_inputs,
                                                                                       graph_only):
    params, data = {"link_inputs": link_inputs, **CAPS_OFF}, retrieved(graph_only)
    built = Built(encoder, data[0], params, data)
    found = item_views(built, own_edges, link_inputs)
    negatives = fallen = 0
    train = data[0].query("split == 'train'").reset_index(drop=True)
    for item in range(0, len(train), 5):
        number, group = train.loc[item, ["example_id", "group"]]
        hidden = [number] if own_edges == "item" else train.query(f"group == {group}")["example_id"]
        left = without(data[0], hidden)
        other = Built(encoder, left, params, data)
        negatives += int(left["negative_id"].isna().sum())
        vectors, edges = by_keyword(built, found.views, int(found.view[item]))
        expected, wanted = by_keyword(other)
        assert vectors.keys() == expected.keys() and edges == wanted
        for word, vector in vectors.items():
            torch.testing.assert_close(vector, expected[word], atol=1e-6, rtol=0)
        fallen += len(built.nodes) - len(vectors)
    assert negatives > 3 and fallen > 3


def test_what_the_graph_tells_is_counted_as_on_rebuilt_graphs(encoder):
    built = whole(encoder, True)
    told, only, silent, differ, gone = [], [], [], [], []
    items = built.items[built.items["split"] == "train"]
    for hidden, kx, ky in zip(hidden_from("component"), items["keyword"], items["target_keyword"], strict=True):
        other = rebuilt(encoder, True, hidden)
        ids = other.nodes.set_index("keyword")["node_id"]
        senders = other.graph.source[other.graph.target == ids[kx]].tolist() if kx in ids else []
        near = {int(node) for node in senders} - {ids.get(kx)}
        told.append(ids.get(ky) in near)
        only.append(near == {ids.get(ky)})
        silent.append(not near)
        differ.append(kx != ky)
        gone.append(kx not in ids)
    found, seen = (leaks(built.items, built.graph, view)["train"]
                   for view in (item_views(built, "component", True), None))
    assert found == {"keywords_differ": np.mean(differ), "target_is_neighbour": pytest.approx(
        np.mean(np.array(told)[differ]), abs=1e-6), "target_is_only_neighbour": pytest.approx(
        np.mean(np.array(only)[differ]), abs=1e-6), "without_neighbour": np.mean(silent), "unseen": np.mean(gone)}
    assert seen["target_is_neighbour"] > found["target_is_neighbour"] > 0.0 == seen["unseen"]


def test_keywords_are_dropped_to_the_share_of_validation(encoder):
    built = whole(encoder, True)
    items = built.items.copy()
    items.loc[items["split"] == "validation", "input_node"] = -1
    settings = {"own_edges": "component", "kw_dropout": None}
    made = {"link_inputs": True, "max_cluster_outputs": None}

    def found(rows, **changes):
        return views_of_items(rows, built.graph, built.tables, made, {**settings, **changes}, seed=5)

    assert found(items).dropout == 1.0 and found(built.items).dropout == 0.0
    assert found(items, kw_dropout=0.25).dropout == 0.25
    assert found(items, own_edges="leaking").dropout == 0.0 and found(items, own_edges="leaking").views is None
    half = replace(found(items), dropout=0.3, draws=torch.rand(5000, generator=torch.Generator().manual_seed(0)))
    dropped = torch.stack([half.dropped(half.draws, epoch) for epoch in range(20)])
    assert abs(float(dropped.float().mean()) - 0.3) < 0.01
    assert torch.equal(half.dropped(half.draws[7:9], 4), dropped[4, 7:9])
    assert 0 < int(dropped[0].sum()) < 5000 and not torch.equal(dropped[0], dropped[1])


@pytest.mark.parametrize("iterations", [0, 2])
def test_a_dropped_keyword_is_a_new_node_of_the_items_own_text(encoder, iterations):
    built = whole(encoder, True)
    model, views = built.model(iterations=iterations), replace(item_views(built, "component", True), dropout=0.5)
    count = int((built.items["split"] == "train").sum())
    every = torch.arange(count) % 2 == 0
    kept, _ = keywords_of(built, model, views)
    found, _ = keywords_of(built, model, views, dropped={"dropped": every})
    torch.testing.assert_close(found.u_in[every], model.attention.isolated(views.vectors)[every])
    assert torch.equal(found.u_in[~every], kept.u_in[~every])
    assert not torch.allclose(found.u_in[every], kept.u_in[every])
