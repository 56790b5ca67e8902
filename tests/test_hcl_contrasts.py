"""A contrast of one's own, registered by name alone, is trained, validated, watched, drawn and told of."""

import json

import pandas as pd
import pytest
import tiny_training
import torch
from torch.nn.functional import softplus

from models.hcl import HclConfig
from models.hcl.contrasts import CONTRASTS, Contrast
from models.hcl.output import Contrasted
from stages.common.paths import ModelPaths
from stages.results.model import Model
from stages.results.page.curves import curve_groups
from stages.results.tracks.hcl import HCL
from stages.tracks.hcl import params
from stages.tracks.hcl.train import main


class TopicContrast(Contrast):
    """The mean of the prior should be nearer to the output keyword, mapped by a learned matrix, than to the input's."""

    name = "topic"
    defaults = {"weight": 0.5, "temperature": 100.0}
    needs_latent = needs_keyword = True
    modules = {"topic_map": lambda config: torch.nn.Linear(config.hidden_size, config.latent_size)}

    def of(self, network, keyword, latent):
        points = network.topic_map(torch.stack([keyword.u_out, keyword.u_in], 1))
        right, wrong = (latent.prior.mu.unsqueeze(1) - points).square().mean(-1).unbind(1)
        gap = (wrong - right) / network.config.contrasts[self.name]["temperature"]
        return Contrasted(right, wrong, softplus(-gap), gap, torch.ones_like(gap, dtype=torch.bool))

    def count(self, totals):
        return totals.items


@pytest.fixture
def topic(monkeypatch):
    monkeypatch.setitem(CONTRASTS, "topic", TopicContrast())


def test_the_three_contrasts_of_the_paper_are_there_in_its_order():
    assert list(CONTRASTS) == ["instance", "keyword", "mahalanobis"]
    blocks = params.Contrasts().model_dump()
    for name, contrast in CONTRASTS.items():
        assert contrast.defaults["weight"] and HCL.row({"contrasts": {name: {"weight": 0}}}, {}) != HCL.full
        assert blocks.pop(name) == dict(contrast.defaults) == HclConfig().contrasts[name]
    assert blocks == {"added_to": HclConfig().contrasts["added_to"]}


def test_a_registered_contrast_has_its_settings(topic):
    assert HclConfig().contrasts["topic"] == TopicContrast.defaults
    assert HclConfig(latent={"enabled": False}).uses_contrast("topic") is False


@pytest.mark.whole
def test_a_registered_contrast_is_trained_watched_drawn_and_told_of(topic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_training.write_project(tmp_path, epochs=3)
    assert main(["hcl"]) == 0
    paths = ModelPaths("hcl", 13)
    history = pd.read_csv(paths.history)
    for column in ("train_topic", "train_topic_masked", "train_topic_vanished", "train_topic_gap",
                   "validation_topic_loss", "validation_topic_ahead"):
        assert column in history, column
    assert (history["train_topic_masked"] == 0).all()
    metrics = json.loads(paths.metrics.read_text())
    assert "contrast_stuck_topic" in [alarm["name"] for alarm in metrics["alarms"]]  # under a temperature of 100
    groups = curve_groups([Model("hcl", "hcl", "tiny", 13, metrics=metrics, history=history)], HCL.questions)
    drawn = {group.title: [plot.title for plot in group.plots] for group in groups}
    assert "topic" in drawn["The loss and its parts"]
    assert {"topic gap", "topic loss", "topic vanished"} <= set(drawn["Do the contrasts still teach?"])
