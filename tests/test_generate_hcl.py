"""The generate_hcl stage and prediction with a tiny saved model."""

from pathlib import Path

import pandas as pd
import pytest
import tiny_bert
import tiny_items
import tiny_training
import torch
import yaml
from test_train_hcl import graph, settings

from keycontrast.errors import InputError
from pipeline.predict import predict
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.encoders import resolve_encoder
from stages.common.paths import ModelPaths, RunPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.params import Params
from stages.tracks.hcl import generate
from stages.tracks.hcl.data import joined_items, node_ids, word_pieces
from stages.tracks.hcl.generate import Paraphraser, main, unseen_warning, with_keywords
from stages.tracks.hcl.params import GenerateHcl


def save_model(folder, encoder, **groups):
    return tiny_training.save_hcl(folder, encoder, graph(), {**settings(), **groups})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path_factory.mktemp('encoder'))}")


@pytest.fixture(scope="module")
def paraphraser(encoder, tmp_path_factory):
    return Paraphraser(save_model(tmp_path_factory.mktemp("model"), encoder))


@pytest.fixture
def items():
    return pd.DataFrame({"example_id": range(10), "split": tiny_items.SPLITS, "source": tiny_items.SOURCES,
                         "keyword": ["unheard of" if i == 9 else word for i, word in enumerate(tiny_items.KEYWORDS)],
                         "references": [[text] for text in tiny_items.TARGETS]})


def run(items, *arguments, seed):
    """Table ``predictions``; sources stand for their targets."""
    return generate.run(items.assign(target=items["source"]), *arguments, seed=seed)[0].rows


def decode(**changes):
    return GenerateHcl.model_validate({"num_beams": 2, "max_length": 6, "min_length": 2, **changes}).model_dump()


@torch.no_grad()
def test_the_likelihood_of_a_target_is_that_of_its_tokens_one_after_another(paraphraser, items):
    rows = items.assign(target=tiny_items.TARGETS)
    found = pd.concat(paraphraser.likelihoods(rows, 4)).set_index("example_id")
    model, marks = paraphraser.model, paraphraser.marks
    given = paraphraser._conditions(rows, node_ids(paraphraser.keywords, rows["keyword"]))
    memory, mask = model.memory(given.hidden, given.mask, given.u_in, given.prior.mu)
    for number, pieces in enumerate(word_pieces(paraphraser.tokenizer, tiny_items.TARGETS, paraphraser.on.max_target)):
        one = slice(number, number + 1)
        steps, nll, token = model.steps(memory[one], mask[one], given.prior.mu[one], 20), 0.0, marks.start
        for word in [*pieces, marks.end]:
            scores = steps.logits(steps.step(torch.tensor([[token]]))).log_softmax(-1)
            nll, token = nll - float(scores[0, 0, word]), word
        assert found.loc[number, "nll"] == pytest.approx(nll, rel=1e-4)
        assert found.loc[number, "tokens"] == len(pieces) + 1


def test_what_a_model_cannot_do_is_refused(encoder, items, tmp_path):
    plain = Paraphraser(save_model(tmp_path, encoder, latent={"enabled": False}, keyword={"condition": False}))
    with pytest.raises(InputError, match="samples is 3, but this model has no latent variable"):
        run(items, plain, decode(samples=3), seed=1)
    limit = plain.model.config.encoder["max_position_embeddings"]
    with pytest.raises(InputError, match=f"generate_hcl.max_length: the model has {limit} positions"):
        run(items, plain, decode(max_length=limit + 1), seed=1)
    assert all(run(items, plain, decode(), seed=1)["keyword_known"])


def test_samples_are_drawn_by_seed(paraphraser, items):
    one, two, other = (run(items, paraphraser, decode(samples=3), seed=seed) for seed in (1, 1, 2))
    assert one.equals(two)
    assert len(one) == 8
    assert sorted(one["sample"].unique()) == [0, 1, 2, 3]
    means = [frame.loc[frame["sample"] == 0, "prediction"].tolist() for frame in (one, other)]
    assert means[0] == means[1]


def test_every_setting_of_the_search_reaches_the_decoder(paraphraser, items, monkeypatch):
    wanted = {"search": "contrastive", "num_beams": 3, "min_length": 1, "max_length": 7, "length_penalty": 0.4,
              "top_k": 4, "alpha": 0.2}
    given, search = [], type(paraphraser.model).generate_from
    monkeypatch.setattr(type(paraphraser.model), "generate_from", lambda model, conditions, z, **settings:
                        given.append(settings) or search(model, conditions, z, **settings))
    run(items, paraphraser, decode(**wanted), seed=1)
    assert given and all(settings == wanted for settings in given)


def test_draws_of_keywords_are_even_and_leave_out_the_own_one_and_none():
    frame = pd.DataFrame({"example_id": range(3000), "unseen_text": "x", "keyword": ["b", NO_KEYWORD, "unseen"] * 1000})
    drawn = with_keywords(frame, "random", ["c", NO_KEYWORD, "a", "b"], seed=4)["keyword"]
    for first, expected in ((0, ["a", "c"]), (1, ["a", "b", "c"]), (2, ["a", "b", "c"])):
        shares = drawn[first::3].value_counts(normalize=True).sort_index()
        assert shares.index.tolist() == expected
        assert shares.between(0.8 / len(expected), 1.2 / len(expected)).all()
    with pytest.raises(InputError, match="'random' needs a second keyword"):
        with_keywords(frame[:1], "random", ["b", NO_KEYWORD], seed=4)


def test_a_given_keyword_is_everyones(paraphraser, items):
    rows = run(items, paraphraser, decode(keyword="given: Dog "), seed=1)
    assert rows["keyword"].tolist() == ["dog", "dog"] and rows["keyword_known"].all()
    own = run(items, paraphraser, decode(), seed=1)
    assert rows["prediction"][0] == own["prediction"][0]  # its own keyword
    assert unseen_warning("given:dog", paraphraser.keywords) is None
    assert unseen_warning("own", paraphraser.keywords) is None
    with pytest.raises(InputError, match="no keyword follows 'given:'"):
        run(items, paraphraser, decode(keyword="given:\u200b"), seed=1)


def test_a_given_keyword_outside_the_graph_is_embedded_alone(paraphraser, items, monkeypatch):
    seen = []
    vectors = paraphraser._unseen.vectors
    monkeypatch.setattr(paraphraser._unseen, "vectors",
                        lambda frame: seen.extend(frame["unseen_text"].tolist()) or vectors(frame))
    rows = run(items, paraphraser, decode(keyword="given:Hot  Dogs"), seed=1)
    assert rows["keyword"].tolist() == ["hot dogs"] * 2 and not rows["keyword_known"].any()
    assert set(seen) == {"hot dogs"}
    assert "'hot dogs' is no node of the training graph: its vector is the frozen embedding of the keyword alone" in \
        unseen_warning("given:Hot Dogs", paraphraser.keywords)
    assert "did you mean 'dog'?" in unseen_warning("given:dogg", paraphraser.keywords)
    seen.clear()
    run(items, paraphraser, decode(), seed=1)  # "unheard of", the own keyword of the last text
    assert seen[-1] == tiny_items.SOURCES[9]


DECODING = {"num_beams": 2, "min_length": 2, "max_length": 6}
PROJECT = {
    "recipe": "r", "datasets": {"d": {"source": "raw"}}, "models": {"hcl": {"m": {"dataset": "d"}}},
    **{name: {"datasets": ["d"]} for name in ("keywords", "graph", "node_vectors")}, "generate_hcl": DECODING,
    "runs": {"hcl": {"plain": {"model": "m"}, "given": {"model": "m", "decode": {"keyword": "given:Cat"}},
                     "unseen": {"model": "m", "decode": {"keyword": "given:Catt", "samples": 1}},
                     "contrastive": {"model": "m", "decode": {"search": "contrastive", "top_k": 4, "alpha": 0.9}}}}}


@pytest.fixture
def params(encoder, tmp_path, monkeypatch):
    """Parameters of a project, the working folder, with runs of one trained model."""
    monkeypatch.chdir(tmp_path)
    save_model(ModelPaths("m", 13).weights, encoder)
    Path("params.yaml").write_text(yaml.safe_dump(PROJECT))
    items = joined_items(**tiny_items.tables())[SCHEMAS["items"].arrow().names]
    write_table(ModelPaths("m", 13).items, SCHEMAS["items"], items, Provenance("train_hcl@m", "0"))
    return Params.model_validate(PROJECT)


def test_the_stage_writes_predictions_and_says_what_it_fell_back_on(params):
    assert main(["plain"]) == 0 and main(["unseen"]) == 0
    plain, unseen = (read_frame(RunPaths(name, 13).predictions, SCHEMAS["predictions"]) for name in ("plain", "unseen"))
    assert plain["keyword"].tolist() == ["dog", "school"] and plain["keyword_known"].all()
    assert unseen[["example_id", "sample"]].values.tolist() == [[8, 0], [8, 1], [9, 0], [9, 1]]
    assert set(unseen["keyword"]) == {"catt"} and not unseen["keyword_known"].any()
    plain_origin, unseen_origin = (read_metadata(RunPaths(name, 13).predictions) for name in ("plain", "unseen"))
    assert plain_origin["fallbacks"] == []
    assert plain_origin["precision"] == computed_in("fp32", False)
    assert "keyword 'catt' is no node of the training graph" in unseen_origin["fallbacks"][0]
    assert "did you mean 'cat'?" in unseen_origin["fallbacks"][0]
    first = RunPaths("unseen", 13).predictions.read_bytes()
    assert main(["unseen"]) == 0 and RunPaths("unseen", 13).predictions.read_bytes() == first


def test_predict_decodes_as_the_run_does(params):
    texts = tiny_items.SOURCES[:3]
    lines = {run: list(predict(params, run, texts, "cat")) for run in ("plain", "given", "contrastive")}
    assert lines["plain"] == lines["given"] != lines["contrastive"]
    assert list(predict(params, "given", texts)) == lines["given"]
    assert [line["source"] for line in lines["plain"]] == texts
    assert {(line["keyword"], line["keyword_from"], line["keyword_in_graph"]) for line in lines["plain"]} == {
        ("cat", "given", True)}


def test_predict_draws_by_the_number_of_the_text(params):
    texts = tiny_items.SOURCES[:5]
    together, alone = (list(predict(params, "plain", texts, "Catt", 2, size)) for size in (5, 1))
    assert together == alone
    assert all(len(line["samples"]) == 2 and not line["keyword_in_graph"] for line in together)
