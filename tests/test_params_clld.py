"""Params of the CLLD track: what is filled in for DVC, and every mistake told before any work."""

from pathlib import Path

import pytest
import yaml
from test_params import FILLED_IN, refused, with_clld

from stages.params import parse_params, stage_hash, stage_values
from stages.params.clld import NO_PAIRS, PAIRS, TrainClld
from stages.tracks.clld.rows import source_of

ROOT = Path(__file__).resolve().parent.parent
STATIC = {"dataset": "questions", "contrast": "static_tau_pairs"}


@pytest.fixture
def sample():
    """The default recipe without its own classifiers."""
    content = yaml.safe_load((ROOT / "recipes" / "sample.yaml").read_text())
    content["datasets"].pop("questions", None)
    return {name: value for name, value in content.items() if name not in FILLED_IN}


def test_dvc_learns_which_data_sets_and_models_take_part(sample):
    params = parse_params(with_clld(sample, sled={**STATIC, "pairs_of": "ct"}), "recipe")
    assert list(params.classified_datasets) == ["questions"] and list(params.consulted_models) == ["ct"]
    assert list(params.keyword_datasets) == ["sample", "questions"]
    assert list(params.paired_datasets) == ["sample"]
    content = with_clld(sample)
    content["datasets"]["questions"]["keywords"] = False
    without = parse_params(content, "recipe")
    assert list(without.keyword_datasets) == ["sample"] and not without.consulted_models
    assert not parse_params({**sample, "models": {}, "runs": {}, "probes": {}}, "recipe").classified_datasets
    for name in FILLED_IN:
        with pytest.raises(Exception, match=f"{name}: must name the .*leave it out"):
            parse_params({**content, name: {"other": {}}}, "recipe")


def test_dvc_watches_the_pairs_that_a_model_takes_and_the_data_set_of_a_run(sample):
    params = parse_params(with_clld(sample, sled={**STATIC, "pairs_of": "ct"}), "recipe")
    assert params.models.clld["sled"].pairs_from == "artifacts/confusing_pairs/ct"
    assert params.models.clld["sled"].pairs_from == PAIRS.format(model="ct")
    assert params.models.clld["ct"].pairs_from == NO_PAIRS and (ROOT / NO_PAIRS).is_file()
    assert params.runs.clld["ct"].dataset == "questions"
    # what was filled in is valid when it is read again
    again = parse_params(params.model_dump(mode="json"), "params.yaml")
    assert again == params


@pytest.mark.parametrize(("place", "value", "message"), [
    (("models", "clld", "ct", "pairs_from"), "x", "pairs_from: is 'x', and pairs_of asks for 'models/clld/"),
    (("runs", "clld", "ct", "dataset"), "sample", "runs.clld.ct.dataset: is 'sample', and its model is of")])
def test_what_is_filled_in_cannot_be_something_else(sample, place, value, message):
    content = with_clld(sample)
    node = content
    for name in place[:-1]:
        node = node[name]
    node[place[-1]] = value
    assert message in refused(content)[0]


def test_overrides_reach_one_model_only_and_encoders_are_the_projects_unless_named(sample):
    content = with_clld(sample, cnn={"dataset": "questions", "encoder": "textcnn", "seeds": [3],
                                     "overrides": {"training": {"epochs": 7}, "textcnn": {"widths": [2]}}})
    params = parse_params({**content, "encoder": {"source": "hub:bert-base-uncased"}}, "recipe")
    assert params.model("cnn").training.epochs == 7 and params.model("cnn").textcnn.widths == [2]
    assert params.model("ct") == params.train_clld
    assert (source_of(params, "ct"), source_of(params, "cnn")) == ("hub:bert-base-uncased", "textcnn")
    assert (params.model_seeds("ct"), params.model_seeds("cnn")) == ([params.seed], [3])


def test_defaults_are_the_papers():
    block = TrainClld()
    training = block.training
    assert (training.epochs, training.patience, training.batch_size, block.max_length) == (50, 10, 128, 128)
    assert (training.betas, block.dropout, block.encoder_dropout) == ((0.9, 0.999), 0.5, 0.1)
    assert (block.contrast.weight, block.distance.tau, block.distance.start) == (0.5, 5.0, 0.2)
    assert (block.distance.evaluations, block.distance.per_update, block.contrast.projection) == (10, 10, 128)
    assert (block.textcnn.embedding, block.textcnn.widths, block.textcnn.filters) == (300, [3, 4, 5], 100)


@pytest.mark.parametrize(("model", "line"), [
    ({"dataset": "question"}, "models.clld.m.dataset: no data set 'question'; did you mean 'questions'?"),
    ({"dataset": "sample"}, "models.clld.m.dataset: sample has pairs, and the model needs labelled texts; valid names: "
                            "more, questions."),
    ({"contrast": "adaptiv"}, "models.clld.m.contrast: no value is called 'adaptiv'; did you mean 'adaptive'?"),
    ({"encoder": "textcn"}, "models.clld.m.encoder: String should match pattern"),
    ({"overrides": {"training": {"epoch": 1}}}, "models.clld.m.overrides.training.epoch: unknown name; did you mean "
                                                "'epochs'?"),
    ({"overrides": {"distance": {"ald_count": "logp"}}}, "models.clld.m.overrides.distance.ald_count: no value is "
                                                         "called 'logp'; did you mean 'log1p'?"),
    ({"overrides": {"distance": {"tau": 0.5}}}, "models.clld.m.overrides.distance.tau: Input should be greater than or "
                                                "equal to 1, found 0.5."),
    ({"contrast": "static_tau_pairs"}, "models.clld.m: contrast static_tau_pairs needs either pairs, which name the "
                                       "confusable classes, or pairs_of, the CT model whose confusions say which; "
                                       "found none"),
    ({**STATIC, "pairs_of": "ct", "pairs": [["a", "b"]]}, "say which; found pairs and pairs_of"),
    ({"contrast": "uniform", "pairs_of": "ct"}, "models.clld.m: contrast uniform reads no pairs_of; take that out, or "
                                                "let contrast be static_tau_pairs"),
    ({"contrast": "adaptive", "pairs": [["a", "b"]]}, "contrast adaptive reads no pairs; take that out"),
    ({**STATIC, "pairs": [["person"]]}, "models.clld.m.pairs: ['person'] names one class; a group needs two, or a "
                                        "pattern such as comp.*"),
    ({**STATIC, "pairs": []}, "models.clld.m.pairs: List should have at least 1 item"),
    ({**STATIC, "pairs_of": "tc"}, "models.clld.m.pairs_of: no model 'tc'; valid names: ct."),
    ({**STATIC, "pairs_of": "cl"}, "models.clld.m.pairs_of: model 'cl' has contrast uniform, and pairs are read off a "
                                   "plain CT model (contrast none); valid names: ct."),
    ({**STATIC, "pairs_of": "m"}, "models.clld.m.pairs_of: model 'm' has contrast static_tau_pairs, and pairs are"),
    ({**STATIC, "pairs_of": "other"}, "models.clld.m.pairs_of: model 'other' is of data set more, and this one of "
                                      "questions; valid names: ct."),
    ({"overrides": {"distance": {"evaluations": 1}, "training": {"epochs": 9}}},
     "models.clld.m.overrides: distance.evaluations 1 in each of 9 epochs are fewer than the 10 that an update takes"),
])
def test_wrong_names_and_values_of_a_model_are_named(sample, model, line):
    content = with_clld(sample, m={"dataset": "questions", **model}, other={"dataset": "more"},
                        cl={"dataset": "questions", "contrast": "uniform"})
    content["datasets"]["more"] = content["datasets"]["questions"]
    lines = refused(content)
    assert len(lines) == 1 and line in lines[0], lines


def test_a_contrast_needs_a_second_text(sample):
    def model(**overrides):
        return {"dataset": "questions", "contrast": "uniform", "overrides": overrides}

    content = with_clld(sample, m=model(training={"batch_size": 1}), plain=model(training={"micro_batch": 1}),
                        alone=model(training={"batch_size": 1}, contrast={"weight": 1.0}),
                        ct1={**model(training={"batch_size": 1}), "contrast": "none"})
    assert refused(content) == ["models.clld.m: training.batch_size of 1 leaves the contrast nothing but the two views "
                                "of a text; give at least 2, or set contrast to none"]


def test_evaluations_that_make_one_update_are_enough(sample):
    overrides = {"distance": {"evaluations": 1}, "training": {"epochs": 10}}
    content = with_clld(sample, m={"dataset": "questions", "contrast": "adaptive", "overrides": overrides})
    assert parse_params(content, "recipe").model("m").distance.evaluations == 1


@pytest.mark.parametrize(("run", "line"), [
    ({"model": "tc"}, "runs.clld.r.model: no model 'tc'; valid names: ct."),
    ({"model": "ct", "split": "train"}, "runs.clld.r.split: no value is called 'train'; valid names: test, "
                                        "validation."),
    ({"model": "ct", "splits": "test"}, "runs.clld.r.splits: unknown name; did you mean 'split'?")])
def test_wrong_names_of_a_run_are_named(sample, run, line):
    content = with_clld(sample)
    content["runs"]["clld"]["r"] = run
    assert refused(content) == [line]


@pytest.mark.parametrize("earlier", ["hcl", "pgkpr"])
def test_models_and_runs_of_two_tracks_cannot_share_a_folder(sample, earlier):
    content = with_clld(sample)
    for block, value in (("models", {"dataset": "questions"}), ("runs", {"model": earlier})):
        content[block]["clld"][earlier] = value
    assert refused(content) == [f"{block}.clld.{earlier}: {block}.{earlier} has one of that name too, and both would "
                                f"write the same folder; rename one of them" for block in ("models", "runs")]


def test_pairs_cannot_do_without_keywords(sample):
    sample["datasets"]["sample"]["keywords"] = False
    assert "layout triples is of pairs, which are joined by their keywords" in refused(sample)[0]


def test_the_hash_of_a_training_sees_its_block_its_model_and_the_encoder(sample):
    def hashed(stage="train_clld", key="ct", **changes):
        content = {**with_clld(sample, sled={**STATIC, "pairs_of": "ct"}), **changes}
        return stage_hash(parse_params(content, "recipe"), stage, key)

    assert hashed() == hashed(evaluate_clld={"bins": 3}) == hashed(linear_floor={"ngrams": 2})
    assert len({hashed(), hashed(train_clld={"dropout": 0.4}), hashed(encoder={"source": "scratch"}),
                hashed(key="sled")}) == 4
    assert hashed("confusing_pairs") != hashed("confusing_pairs", confusing_pairs={"share": 0.5})
    assert hashed("linear_floor", "questions") == hashed("linear_floor", "questions", train_clld={"dropout": 0.4})
    values = stage_values(parse_params(with_clld(sample), "recipe"), "evaluate_clld", "ct")
    assert values["runs.clld.ct"] == {"model": "ct", "split": "test", "dataset": "questions"}
