"""The stage generate_pgkpr with tiny saved models of every architecture."""

import numpy as np
import pandas as pd
import pytest
import tiny_rewriters

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import ModelPaths, RunPaths
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.tracks.pgkpr import generate
from stages.tracks.pgkpr.generate import Paraphraser, main, run
from stages.tracks.pgkpr.params import GeneratePgkpr

ARCHITECTURES = ("pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet")
PAIRS = tiny_rewriters.items()
TEST = PAIRS[PAIRS["split"] == "test"]


@pytest.fixture(scope="module")
def paraphrasers(tmp_path_factory):
    """A saved and loaded model of each architecture."""
    folder = tmp_path_factory.mktemp("models")
    return {name: Paraphraser(tiny_rewriters.save_model(folder / name, name)) for name in ARCHITECTURES}


def decode(**changes):
    return GeneratePgkpr.model_validate({"max_length": 6, **changes}).model_dump()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_writes_predictions_of_the_named_split(paraphrasers, name):
    rows = run(PAIRS, paraphrasers[name], decode(num_beams=2), seed=13)
    table = as_table(SCHEMAS["predictions"], rows).to_pylist()
    assert [row["example_id"] for row in table] == [9, 10]
    assert table[1]["source"] == "who can eat with the zebra ?"
    assert table[1]["references"] == ["who can play with the cat ?", "can i eat with a dog ?"]
    assert all(1 <= len(row["prediction"].split()) <= 6 for row in table)
    words = set(paraphrasers[name].vocabulary.word_numbers) | {"[unk]"}
    assert all(set(row["prediction"].split()) <= words for row in table)
    assert (table[0]["keyword"] is None) == (name not in ("pgkpr", "ianet"))
    assert run(PAIRS, paraphrasers[name], decode(split="validation"), 13)["example_id"].tolist() == [7, 8]


@pytest.mark.parametrize("name", ["pgkpr", "latent_bow", "ianet"])
def test_an_output_depends_on_its_source_alone(paraphrasers, name, monkeypatch):
    together = run(PAIRS, paraphrasers[name], decode(), seed=13)
    shuffled = run(PAIRS[::-1], paraphrasers[name], decode(), seed=13)
    pd.testing.assert_frame_equal(together, shuffled)
    monkeypatch.setattr(generate, "ROWS", 1)
    pd.testing.assert_frame_equal(together, run(PAIRS, paraphrasers[name], decode(), seed=13))


@pytest.mark.parametrize("which", ["xx", "xy", "psi_xx", "psi_xy", "s_tagger", "textrank", "random", "none", "all"])
def test_keywords_are_those_of_the_setting_and_the_seed(paraphrasers, which):
    rows = run(PAIRS, paraphrasers["pgkpr"], decode(keywords=which), seed=13)
    for number, keyword in zip(rows["example_id"], rows["keyword"], strict=True):
        pair = TEST[(TEST["example_id"] == number) & (TEST["reference"] == 0)].to_dict("records")[0]
        mask = tiny_rewriters.fixed_mask(pair, which, 13)
        assert keyword == " ".join(dict.fromkeys(np.array(pair["source_words"])[mask]))


def test_left_open_keywords_are_those_of_the_training(paraphrasers, tmp_path):
    assert paraphrasers["pgkpr"].which_keywords(None) == "xx"
    assert paraphrasers["ianet"].which_keywords(None) == "psi_xx"
    assert paraphrasers["transformer"].which_keywords(None) is None
    by_psi = Paraphraser(tiny_rewriters.save_model(tmp_path, "pgkpr", rule="psi"))
    assert by_psi.which_keywords(None) == "psi_xx" and by_psi.which_keywords("s_tagger") == "s_tagger"
    by_chance = Paraphraser(tiny_rewriters.save_model(tmp_path / "random", "ianet", rule="random"))
    assert by_chance.which_keywords(None) == "random" and by_chance.which_keywords("xx") == "xx"
    with pytest.raises(InputError, match="generate_pgkpr.keywords is 'xx', but this model reads no keywords"):
        run(PAIRS, paraphrasers["latent_bow"], decode(keywords="xx"), seed=13)


def test_unknown_words_may_be_banned(paraphrasers):
    """Of a model that writes nothing but [unk]."""
    model = paraphrasers["transformer"]
    weights = next(parameter for name, parameter in model.model.named_parameters()
                   if parameter.shape == (model.vocabulary.size,))
    before = weights.data.clone()
    weights.data[1] = 1000.0
    try:
        kept, banned = (run(PAIRS, model, decode(unknown=setting), 13)["prediction"] for setting in ("keep", "ban"))
    finally:
        weights.data.copy_(before)
    assert set(" ".join(kept).split()) == {"[unk]"} and "[unk]" not in " ".join(banned)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder with a saved model and its evaluated pairs."""
    monkeypatch.chdir(tmp_path)
    tiny_rewriters.write_params(tmp_path, {"model-a": {"dataset": tiny_rewriters.DATASET}},
                                {"run-a": {"model": "model-a"},
                                 "run-b": {"model": "model-a", "decode": {"keywords": "xy", "num_beams": 2}}})
    paths = ModelPaths("model-a", 13)
    tiny_rewriters.save_model(paths.weights)
    write_table(paths.paraphrase_items, SCHEMAS["paraphrase_items"], PAIRS[PAIRS["split"] != "train"],
                Provenance("train_pgkpr@model-a", "0"))
    return tmp_path


def test_stage_writes_the_same_bytes_twice(project):
    assert main(["run-a"]) == main(["run-b"]) == 0
    first = RunPaths("run-a", 13).predictions.read_bytes()
    rows = read_frame(RunPaths("run-a", 13).predictions, SCHEMAS["predictions"])
    assert rows["example_id"].tolist() == [9, 10] and rows["sample"].tolist() == [0, 0]
    metadata = read_metadata(RunPaths("run-a", 13).predictions)
    assert metadata["stage"] == "generate_pgkpr@run-a" and len(metadata["models"]["model"]["sha256"]) == 64
    assert metadata["precision"] == computed_in("fp32", False)
    assert main(["run-a"]) == 0
    assert RunPaths("run-a", 13).predictions.read_bytes() == first
    other = read_frame(RunPaths("run-b", 13).predictions, SCHEMAS["predictions"])
    assert other["keyword"].tolist() != rows["keyword"].tolist()
