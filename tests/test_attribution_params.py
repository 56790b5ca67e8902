"""The params block attribution: presets, and switches that do not go together."""

import pytest
from pydantic import ValidationError

from keycontrast.errors import InputError
from stages.attribution.params import Attribution
from stages.attribution.saliency.scorers import BUGS, settings
from stages.params import parse_params

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


def test_a_switch_that_contradicts_its_preset_is_named_with_it():
    with pytest.raises(InputError) as raised:
        parse_params({"recipe": "r", "datasets": {"d": {"source": "f"}}, "attribution": {
            "preset": "released", "attr_target": "pos_logit", "token_types": True, "normalisation": "minmax"}}, "p")
    assert ("attribution: preset released contradicts 2 of the switches beside it: attr_target is 'pos_logit' where "
            "the preset has 'argmax_logit'; token_types is True where the preset has False. Take these out, or set "
            "preset to null.") in str(raised.value)
    with pytest.raises(ValidationError, match="method is 'siamese' where the preset has 'gradient'"):
        Attribution(preset="paper", method="siamese")


def test_unknown_presets_and_bad_content_keep_their_own_message():
    with pytest.raises(ValidationError, match="Input should be 'paper' or 'released'"):
        Attribution(preset="code")
    with pytest.raises(ValidationError, match="valid dictionary"):
        Attribution.model_validate(["released"])


def test_switches_without_effect_are_errors():
    with pytest.raises(ValidationError, match="argmax_of first_row is about attr_target argmax_logit, and attr_target "
                                              "is pos_logit"):
        Attribution(argmax_of="first_row")
    with pytest.raises(ValidationError, match="method siamese has no pair classifier, so these mean nothing to it: "
                                              "attr_target pos_prob, token_types False"):
        Attribution(method="siamese", attr_target="pos_prob", token_types=False)
    bug = Attribution(attr_target="argmax_logit", argmax_of="first_row").model_dump()
    assert settings(bug)["bugs_of_the_released_code"] == ["argmax_of: first_row"]
