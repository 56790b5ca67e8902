"""Params of the CLLD track: what is filled in for DVC, and every mistake told before any work."""

from pathlib import Path

import pytest
import yaml
from test_params import refused, with_clld

from stages.common.settings import stage_hash, stage_values
from stages.params import parse_params
from stages.tracks.clld.track import source_of

ROOT = Path(__file__).resolve().parent.parent
OF = "artifacts/confusing_pairs/"
STATIC = {"dataset": "questions", "contrast": "static_tau_pairs"}


@pytest.fixture
def sample():
    """The default recipe without its own classifiers."""
    content = yaml.safe_load((ROOT / "recipes" / "sample.yaml").read_text())
    content["datasets"].pop("questions", None)
    del content["linear_floor"], content["confusing_pairs"], content["models"]["clld"]
    return content


def test_overrides_reach_one_model_only_and_encoders_are_the_projects_unless_named(sample):
    content = with_clld(sample, cnn={"dataset": "questions", "encoder": "textcnn", "seeds": [3],
                                     "overrides": {"training": {"epochs": 7}, "textcnn": {"filters": 2}}})
    params = parse_params({**content, "encoder": {"source": "hub:bert-base-uncased"}}, "recipe")
    assert params.model("cnn").training.epochs == 7 and params.model("cnn").textcnn.filters == 2
    assert params.model("ct") == params.train_clld
    assert (source_of(params, "ct"), source_of(params, "cnn")) == ("hub:bert-base-uncased", "textcnn")
    assert (params.model_seeds("ct"), params.model_seeds("cnn")) == ([params.seed], [3])


@pytest.mark.parametrize(("model", "line"), [
    ({"dataset": "question"}, "models.clld.m.dataset: no data set 'question'; did you mean 'questions'?"),
    ({"dataset": "sample"}, "models.clld.m.dataset: sample has pairs, and the model needs labelled texts"),
    ({"overrides": {"training": {"epoch": 1}}}, "models.clld.m.overrides.training.epoch: unknown name"),
    ({"overrides": {"textcnn": {"filters": 0}}}, "models.clld.m.overrides.textcnn.filters: Input should be"),
    ({"contrast": "static_tau_pairs"}, "models.clld.m: contrast static_tau_pairs needs either pairs"),
    ({**STATIC, "pairs_of": OF + "ct", "pairs": [["a", "b"]]}, "say which; found pairs and pairs_of"),
    ({"contrast": "uniform", "pairs_of": OF + "ct"}, "models.clld.m: contrast uniform reads no pairs_of"),
    ({**STATIC, "pairs_of": OF + "tc"}, "models.clld.m.pairs_of: no model 'tc'; valid names: ct."),
    ({**STATIC, "pairs_of": OF + "cl"}, "models.clld.m.pairs_of: model 'cl' has contrast uniform"),
    ({**STATIC, "pairs_of": OF + "other"}, "models.clld.m.pairs_of: model 'other' is of data set more"),
])
def test_wrong_names_and_values_of_a_model_are_named(sample, model, line):
    content = with_clld(sample, m={"dataset": "questions", **model}, other={"dataset": "more"},
                        cl={"dataset": "questions", "contrast": "uniform"})
    content["datasets"]["more"] = content["datasets"]["questions"]
    content["linear_floor"] = {"datasets": ["questions", "more"]}
    lines = refused(content)
    assert len(lines) == 1 and line in lines[0], lines


def test_a_contrast_needs_a_second_text(sample):
    def model(**overrides):
        return {"dataset": "questions", "contrast": "uniform", "overrides": overrides}

    content = with_clld(sample, m=model(training={"batch_size": 1}), plain=model(training={"micro_batch": 1}),
                        ct1={**model(training={"batch_size": 1}), "contrast": "none"})
    assert refused(content) == ["models.clld.m: training.batch_size of 1 leaves the contrast nothing but the two views "
                                "of a text; give at least 2, or set contrast to none"]


@pytest.mark.parametrize("earlier", ["hcl", "pgkpr"])
def test_models_and_runs_of_two_tracks_cannot_share_a_folder(sample, earlier):
    content = with_clld(sample)
    content["models"]["clld"][earlier] = {"dataset": "questions"}
    assert refused(content) == [f"{block}.clld.{earlier}: {block}.{earlier} has one of that name too, and both would "
                                f"write the same folder; rename one of them" for block in ("models", "runs")]


def test_the_hash_of_a_training_sees_its_block_its_model_and_the_encoder(sample):
    def hashed(stage="train_clld", key="ct", **changes):
        content = {**with_clld(sample, sled={**STATIC, "pairs_of": OF + "ct"}),
                   "confusing_pairs": {"models": ["ct"]}, **changes}
        return stage_hash(parse_params(content, "recipe").plain(), stage, key)

    of_words = {"datasets": ["questions"], "min_count": 3}
    assert hashed() == hashed(evaluate_clld={"split": "validation"}) == hashed(linear_floor=of_words)
    assert len({hashed(), hashed(train_clld={"pool": "mean"}), hashed(encoder={"source": "scratch"}),
                hashed(key="sled")}) == 4
    assert hashed("confusing_pairs") != hashed("confusing_pairs", confusing_pairs={"models": ["ct"], "share": 0.5})
    assert hashed("linear_floor", "questions") == hashed("linear_floor", "questions", train_clld={"pool": "mean"})
    values = stage_values(parse_params(with_clld(sample), "recipe").plain(), "evaluate_clld", "ct")
    assert values["evaluate_clld"]["split"] == "test" and values["models.clld.ct.seeds"] == [13]
