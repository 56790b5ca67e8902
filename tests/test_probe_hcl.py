"""The probe_hcl stage: points of the latent space, t-SNE, keyword swaps, on models of width 16."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import tiny_items
import tiny_training
import torch

from models.hcl.graph import KeywordGraph
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.encoders import resolve_encoder
from stages.common.tables import Provenance, as_table, read_frame, read_metadata
from stages.tracks.hcl.data import joined_items
from stages.tracks.hcl.generate import Paraphraser
from stages.tracks.hcl.latent_space import KINDS, latent_points, separation, tsne
from stages.tracks.hcl.params import GenerateHcl, ProbeHcl, TrainHcl
from stages.tracks.hcl.probe import _write, draw, frequent_negatives, keyword_choices, run, swap_measures

LATENT = 6


@pytest.fixture(scope="module")
def items():
    """Ten items, the last eight of them to be probed; the last one's keywords are no nodes."""
    rows = joined_items(**tiny_items.tables())
    rows["split"] = ["train"] * 2 + ["test"] * 8
    rows.loc[9, ["keyword", "target_keyword"]] = "unheard of"
    return rows[["example_id", "split", "source", "target", "negatives", "keyword", "target_keyword",
                 "negative_keyword", "references"]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path_factory.mktemp('encoder'))}")


def graph():
    """A ring: each node receives positively from the next, negatively from the one after."""
    count = len(tiny_items.NODES)
    vectors = torch.randn(count, 16, generator=torch.Generator().manual_seed(0))
    target = torch.arange(count).repeat(2)
    source = torch.cat([(torch.arange(count) + 1) % count, (torch.arange(count) + 2) % count])
    return KeywordGraph.from_edges(vectors, target, source, torch.tensor([1] * count + [-1] * count))


def save_model(folder, encoder, **groups):
    values = TrainHcl.model_validate({"latent": {"size": LATENT}, "decoder": {"layers": 1}}).model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return tiny_training.save_hcl(folder, encoder, graph(), values, max_target=12)


@pytest.fixture(scope="module")
def paraphraser(encoder, tmp_path_factory):
    return Paraphraser(save_model(tmp_path_factory.mktemp("model"), encoder))


DECODE = GenerateHcl(num_beams=2, max_length=6, min_length=2).plain()


def probe(paraphraser, rows, seed=1, **params):
    return run("hcl", paraphraser, rows, ProbeHcl(**{"items": 8, "swaps": 2, "perplexity": 5, **params}), DECODE, seed)


@pytest.fixture(scope="module")
def probed(paraphraser, items):
    return probe(paraphraser, items)


def test_points_are_those_of_the_model(paraphraser, items):
    item = items[items["example_id"] == 2]
    found = latent_points(paraphraser, item)[0].set_index("kind")["vector"]
    model, tokenizer = paraphraser.model, paraphraser.tokenizer

    def vector(text):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        return model.encode(ids, torch.ones_like(ids)).mean(1)

    row = item.iloc[0]
    x, y, negative = (vector(text) for text in (row["source"], row["target"], row["negatives"][0]))
    node = {word: number for number, word in enumerate(tiny_items.NODES)}
    u = model.keyword_vectors()
    out = node[row["target_keyword"]]
    with torch.no_grad():
        prior = model.prior(x, u[[node[row["keyword"]]]])
        posterior = model.posterior(x.unsqueeze(1), torch.stack([y, negative], 1)).mu
        expected = {"input": prior.mu, "positive": posterior[:, 0], "negative": posterior[:, 1],
                    "output_keyword": model.keyword_points(u[[out]]),
                    # The node has one negative neighbour, which is the whole of its impostor.
                    "impostor_keyword": model.keyword_points(u[[(out + 2) % len(u)]])}
    assert set(found.index) == set(KINDS)
    for kind, point in expected.items():
        assert torch.allclose(torch.tensor(found[kind]), point[0], atol=1e-5), kind


def test_items_that_lack_something_are_taken_last():
    items = pd.DataFrame({"example_id": [5, 3, 8, 1]})
    fits = np.array([False, True, True, False])
    for seed in range(4):
        sample, counts = draw(items, fits, 3, seed, "latent")
        assert set(sample["example_id"].head(2)) == {3, 8}
        assert counts == {"items": 3, "fitting_items": 2, "filled_with_others": 1}
        assert draw(items.iloc[::-1], fits[::-1], 3, seed, "latent")[0].equals(sample)
    assert draw(items, fits, 2, 0, "latent")[1]["filled_with_others"] == 0
    assert len(draw(items, fits, 9, 0, "latent")[0]) == 4


@pytest.mark.parametrize("vectors", [np.zeros((0, 2)), np.eye(3), np.ones((9, 4))])
def test_points_without_neighbourhoods_lie_together(vectors):
    places, _ = tsne(vectors, 20.0, 0)
    assert not places.any()
    assert len(places) == len(vectors)


def test_measures_against_a_loop():
    rng = np.random.default_rng(1)
    rows = [(item, kind, rng.normal(size=3)) for item in range(6) for kind in KINDS if (item, kind) != (2, "negative")]
    points = pd.DataFrame(rows, columns=["example_id", "kind", "vector"])
    pairs = pd.DataFrame({"example_id": range(6), "kl_positive": 1.0, "kl_negative": [2, 2, np.nan, 0.5, 2, 2],
                          "level_output": np.nan, "level_impostor": np.nan})
    measures = separation(points, pairs)
    at = {(item, kind): vector for item, kind, vector in rows}
    gaps = {kind: [np.linalg.norm(at[item, kind] - at[item, "input"]) for item in range(6) if (item, kind) in at]
            for kind in KINDS}
    for kind, value in measures["distance_from_input"].items():
        assert value == pytest.approx(np.mean(gaps[kind]))
    positive = [gap for item, gap in enumerate(gaps["positive"]) if item != 2]
    assert measures["share_positive_nearer"] == pytest.approx(np.mean(np.array(positive) < gaps["negative"]))
    assert measures["share_positive_nearer_kl"] == pytest.approx(4 / 5)
    assert measures["share_output_keyword_nearer"] is None
    own = [min(range(6), key=lambda other: np.linalg.norm(at[other, "positive"] - at[item, "input"])) == item  # noqa: B023
           for item in range(6)]
    assert measures["share_own_target"] == pytest.approx(np.mean(own))


def test_what_a_swap_does_is_measured_beside_what_is_there_without_it():
    outputs = {"own": ["how to lose fat", "who is he", "a cat"],
               "random": ["how to lose fat", "who runs", "a dog"]}
    words = {"own": ["fat", "he", None], "random": ["fat", "runner", "dog"]}
    table = pd.DataFrame([
        {"example_id": number, "choice": choice, "keyword": words[choice][number], "prediction": text,
         "same_as_own": text == outputs["own"][number], "shows_keyword": shown}
        for choice, texts in outputs.items() for number, (text, shown) in enumerate(zip(
            texts, {"own": [True, True, None], "random": [True, False, True]}[choice], strict=True))])
    found = swap_measures(table)
    assert found["random"]["share_changed"] == pytest.approx(2 / 3)
    assert found["random"]["edit_distance"] == pytest.approx((0 + 2 / 3 + 1 / 2) / 3)
    assert found["random"]["share_shows_keyword"] == pytest.approx(2 / 3)
    assert found["random"]["share_shows_unasked"] == pytest.approx(1 / 3)  # "fat" was there without being asked for
    assert found["own"]["share_changed"] == 0.0 and found["own"]["intervals"]["share_changed"] == [0.0, 0.0]
    assert found["given"] == {"items": 0, **{name: None for name in (
        "share_changed", "edit_distance", "share_shows_keyword", "share_shows_unasked")}, "intervals": {name: None for
        name in ("share_changed", "edit_distance", "share_shows_keyword", "share_shows_unasked")}}


def training(*rows):
    return pd.DataFrame(rows, columns=["keyword", "target_keyword", "negative_keyword"])


def test_the_most_frequent_negative_neighbour_is_counted_over_clusters():
    words = tiny_items.NODES
    a, n1, n2 = words[0], words[1], words[2]
    count = len(words)
    both = KeywordGraph.from_edges(torch.zeros(count, 4), torch.tensor([0, 0]), torch.tensor([1, 2]),
                                   torch.tensor([-1, -1]))
    # Cluster c holds a twice; its members' negatives count for each of them: 2 x n1 and 4 x n2, then 3 x n1 in d.
    rows = training(("c", a, n1), ("c", a, n2), ("c", "z", n2), ("d", a, n1), ("d", "z", n1), ("d", "z", n1),
                    ("e", "z", n2), ("e", "z", n2), ("e", "z", n2))
    assert frequent_negatives([a], rows, words, both) == {a: n1}
    more = pd.concat([rows, training(("c", "z", n2), ("c", "z", None))])
    assert frequent_negatives([a], more, words, both) == {a: n2}
    # A tie goes to the smaller node; a keyword without negative neighbours has none, nor has a stranger.
    assert frequent_negatives([a, n1, "unheard of"], rows.head(0), words, both) == {a: n1}


def test_every_choice_has_its_keyword(paraphraser, items):
    words, model = tiny_items.NODES, paraphraser.model
    sample = items.tail(4)
    choices = keyword_choices(sample, items[items["split"] == "train"], words, model.graph, 1)
    assert choices["own"].tolist() == sample["keyword"].tolist()
    assert all(other in words and other != own for own, other in zip(choices["own"], choices["random"],
                                                                     strict=True))
    # On the ring each node has one negative neighbour; the stranger falls back on its own negative, if it is a node.
    for own, given, negative in zip(choices["own"], choices["given"], sample["negative_keyword"], strict=True):
        expected = words[(words.index(own) + 2) % len(words)] if own in words else negative
        assert given == expected


@pytest.mark.parametrize(("groups", "absent", "reason"), [
    ({"latent": {"enabled": False}}, set(KINDS), "no latent variable"),
    ({"keyword": {"condition": False}}, set(KINDS[3:]), "no keyword"),
    ({"contrasts": {"mahalanobis": {"weight": 0.0}}}, set(KINDS[3:]), "trained by the Mahalanobis contrast"),
    ({"graph": {"iterations": 0}}, set(), ""),
])
def test_ablations_lack_what_they_lack_and_say_so(encoder, items, tmp_path, groups, absent, reason):
    model = Paraphraser(save_model(tmp_path, encoder, **groups))
    made = probe(model, items)
    as_table(SCHEMAS["latent"], made.latent)
    swap = as_table(SCHEMAS["keyword_swap"], made.swap).to_pandas()
    assert set(made.metrics["latent"]["left_out"]) == absent
    assert all(reason in text for text in made.metrics["latent"]["left_out"].values())
    assert set(made.latent["kind"]) == set(KINDS) - absent
    assert made.plot.svg.startswith("<?xml")
    if model.uses_keyword:
        assert "remark" not in made.metrics["keyword_swap"]
    else:
        assert "a swap changes nothing" in made.metrics["keyword_swap"]["remark"]
        assert swap["choice"].tolist() == ["own"] * 2
        assert swap["keyword"].isna().all()


def test_everything_is_written(probed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write("first", probed, Provenance("probe_hcl@first", "0123", precision=computed_in("fp32", False)))
    folder = tmp_path / "artifacts/probes/first"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")} == {
        "latent.parquet", "keyword_swap.parquet", "metrics.json", "figures/latent.svg"}
    assert read_metadata(folder / "latent.parquet")["stage"] == "probe_hcl@first"
    assert read_metadata(folder / "latent.parquet")["precision"] == computed_in("fp32", False)
    assert len(read_frame(folder / "latent.parquet", SCHEMAS["latent"])) == len(probed.latent)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["settings"] == {"model": "hcl", "split": "test"}
    for measures in (metrics["keyword_swap"]["random"], metrics["keyword_swap"]["given"]):
        assert 0 <= measures["share_changed"] <= 1
    assert metrics["keyword_swap"]["own"]["share_changed"] == 0.0
