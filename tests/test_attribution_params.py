"""The params block attribution: presets, and switches that do not go together."""

import pytest
from pydantic import ValidationError

from stages.attribution.params import Attribution
from stages.attribution.saliency.scorers import BUGS, settings

RELEASED = {"attr_target": "argmax_logit", "argmax_of": "first_row", "embedding": "block_output",
            "token_types": False, "normalisation": "minmax", "method": "gradient"}


def test_defaults_are_the_papers_reading():
    paper, default = Attribution(preset="paper").model_dump(), Attribution().model_dump()
    assert {**paper, "preset": None} == default
    assert default["attr_target"] == "pos_logit" and default["embedding"] == "lookup" and default["token_types"]
    assert settings(default)["bugs_of_the_released_code"] == []


def test_released_sets_every_switch():
    values = Attribution(preset="released", batch_size=8).model_dump()
    assert {name: values[name] for name in RELEASED} == RELEASED and values["batch_size"] == 8
    assert {name: values[name] for name in BUGS} == BUGS
    assert Attribution(**values).model_dump() == values  # spelt out in full, as `keycontrast use` writes it


def test_switches_without_effect_are_errors():
    with pytest.raises(ValidationError, match="argmax_of first_row is about attr_target argmax_logit, and attr_target "
                                              "is pos_logit"):
        Attribution(argmax_of="first_row")
    with pytest.raises(ValidationError, match="method siamese has no pair classifier, so these mean nothing to it: "
                                              "attr_target pos_prob, token_types False"):
        Attribution(method="siamese", attr_target="pos_prob", token_types=False)
    bug = Attribution(attr_target="argmax_logit", argmax_of="first_row").model_dump()
    assert settings(bug)["bugs_of_the_released_code"] == ["argmax_of: first_row"]
