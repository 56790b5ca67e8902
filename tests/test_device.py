"""Every architecture is trained and used on a device that refuses what CUDA refuses, with the outputs of the CPU.

A stage that leaves a tensor on the CPU, takes an operation without a deterministic implementation on CUDA, or reads a
tensor of the device by NumPy, ends in an exception here.
"""

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import tiny_classes
import tiny_rewriters
import tiny_training
import yaml
from pretend_device import PretendTensor, stages_on_device
from test_attribution_stage import project as attribution_project  # noqa: F401 - a fixture
from test_attribution_stage import tokenizer  # noqa: F401 - which it asks for
from test_pair_classifier import encoder_folder  # noqa: F401 - likewise
from test_pair_classifier import project as classifier_project  # noqa: F401
from test_s_tagger import project as tagger_project  # noqa: F401

from pipeline.schemas import SCHEMAS
from stages.attribution import attribution, pair_classifier
from stages.common.paths import DatasetPaths, RunPaths
from stages.common.tables import read_frame
from stages.psi import s_tagger
from stages.tracks.clld import evaluate as evaluate_clld
from stages.tracks.clld import linear_baseline
from stages.tracks.clld import train as train_clld
from stages.tracks.hcl import generate as generate_hcl
from stages.tracks.hcl import train as train_hcl
from stages.tracks.pgkpr import generate as generate_pgkpr
from stages.tracks.pgkpr import train as train_pgkpr

AUTO = {"device": "auto"}
_NARROW = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 32}
HCL = {"cvae": {"embedding": 12, "encoder": 8, "context": 16, "width": 16, "latent": 6, "bag": 12},
       "seq2seq": {"embedding": 12, "width": 16}, "seq2seq_du": {}, "transformer": _NARROW,
       "group_wise": {**_NARROW, "pretrain_share": 0.0},
       "dialogpt": {**_NARROW, "positions": 40}, "simctg": {**_NARROW, "positions": 40}, "t5": _NARROW,
       "t5_claps": _NARROW}
OVERRIDES = {"hcl": {}, "hcl paper": {"preset": "paper"},
             **{name: {"architecture": name, name: block} for name, block in HCL.items()}}


@pytest.fixture
def on_device():
    """Stages choose the pretend device, and must use it."""
    PretendTensor.operations = 0
    with stages_on_device():
        yield
    assert PretendTensor.operations > 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change_params(folder, **blocks):
    """Lay ``blocks`` over ``params.yaml`` in ``folder``."""
    path = folder / "params.yaml"
    content = yaml.safe_load(path.read_text())
    for name, block in blocks.items():
        content[name] = {**content.get(name, {}), **block}
    path.write_text(yaml.safe_dump(content))


def predictions(stage, run, folder, schema="predictions"):
    """What the stage makes of a run on the device, and on the CPU."""
    found = []
    for wanted in ("auto", "cpu"):
        change_params(folder, runtime={"device": wanted})
        assert stage.main([run]) == 0
        found.append(read_frame(RunPaths(run, 13).predictions, SCHEMAS[schema]))
    return found


@pytest.mark.parametrize("name", OVERRIDES)
def test_hcl_and_its_baselines(folder, on_device, name):
    tiny_training.write_project(folder, {"m": {"dataset": "tiny", "overrides": OVERRIDES[name]}}, runtime=AUTO,
                                epochs=1, micro_batch=4)
    change_params(folder, runs={"hcl": {"m": {"model": "m"}}},
                  generate_hcl={"max_length": 6, "min_length": 2, "num_beams": 2})
    assert train_hcl.main(["m"]) == 0
    pd.testing.assert_frame_equal(*predictions(generate_hcl, "m", folder))


@pytest.mark.parametrize("name", ["pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet"])
def test_rewriters(folder, on_device, name):
    tiny_rewriters.write_project(
        folder, {"m": {"dataset": tiny_rewriters.DATASET, "overrides": {"architecture": name}}},
        runs={"m": {"model": "m", "decode": {"num_beams": 3}}}, runtime=AUTO, training={"epochs": 1})
    assert train_pgkpr.main(["m"]) == 0
    pd.testing.assert_frame_equal(*predictions(generate_pgkpr, "m", folder))


@pytest.mark.parametrize("model", [{"contrast": "adaptive"},
                                   {"encoder": "path", "path": "encoder", "contrast": "supcl_seq"}])
def test_classifiers(folder, on_device, model):
    tiny_classes.write_project(folder, {"m": model})
    change_params(folder, runtime=AUTO)
    assert linear_baseline.main(["tiny"]) == train_clld.main(["m"]) == 0
    there, here = predictions(evaluate_clld, "m", folder, "class_predictions")
    assert here["predicted"].tolist() == there["predicted"].tolist()
    np.testing.assert_allclose(np.stack(here["probabilities"]), np.stack(there["probabilities"]), atol=1e-5)


@pytest.mark.usefixtures("attribution_project")
def test_attribution_scores_as_on_the_cpu(tmp_path, on_device):
    tiny_bert.save_encoder(tmp_path / "encoder")
    change_params(tmp_path, encoder={"source": "path", "path": "encoder"}, attribution={"batch_size": 4})
    found = []
    for wanted in ("auto", "cpu"):
        change_params(tmp_path, runtime={"device": wanted})
        assert attribution.main(["tiny"]) == 0
        found.append(read_frame(DatasetPaths("tiny").table("attribution"), SCHEMAS["attribution"])["score"])
    for there, here in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, atol=1e-5)


@pytest.mark.parametrize(("project", "stage"), [("classifier_project", pair_classifier), ("tagger_project", s_tagger)])
def test_the_other_trainings(request, tmp_path, on_device, project, stage):
    request.getfixturevalue(project)
    change_params(tmp_path, runtime=AUTO)
    assert stage.main(["tiny"]) == 0
