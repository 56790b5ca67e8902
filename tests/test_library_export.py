"""Baselines that are models of transformers, exported: Auto classes load them, and they write the same."""

from dataclasses import asdict

import piece_cases
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from keycontrast.errors import InputError
from models.common.decoding import Rules
from models.hcl.pretrained import generated
from stages.common.training import save_notes
from stages.tracks.hcl.data import PieceOrigin
from stages.tracks.hcl.export import AUTO, export_library_model


@pytest.fixture(params=sorted(AUTO))
def trained(request, tmp_path):
    case = piece_cases.Case(request.param, tmp_path / "case")
    folder = tmp_path / "model"
    case.model.save_pretrained(folder)
    case.tokenizer.save_pretrained(folder)
    origin = PieceOrigin(request.param, "tiny", "from scratch", asdict(case.marks), 12, 8, "first")
    save_notes(folder, {"trained_on.json": asdict(origin)})
    return request.param, case, folder


def test_an_auto_class_loads_it_and_it_writes_the_same(trained, tmp_path):
    name, case, folder = trained
    said = export_library_model(folder, tmp_path / "out", "out")
    auto = AutoModelForCausalLM if name in ("dialogpt", "simctg") else AutoModelForSeq2SeqLM
    assert f'{auto.__name__}.from_pretrained("out")' in said and "It reads 12 tokens" in said
    found, told = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert found.config.architectures == [type(found).__name__] and not hasattr(found.config, "margin")
    marks = case.marks
    for item in range(3):
        batch = {key: value for key, value in case.batch([item]).items() if key in ("x_ids", "x_mask")}
        rules = Rules(marks.end, marks.pad, 1, 6, marks.banned)
        case.model.eval()
        with torch.no_grad():
            own = case.model.rewrite(batch, rules, 3)
            other = generated(found.eval(), rules, 3, 1.0, input_ids=batch["x_ids"],
                              attention_mask=batch["x_mask"].long())
        assert own.tolist() == other.tolist()
    assert AutoTokenizer.from_pretrained(tmp_path / "out").get_vocab() == case.tokenizer.get_vocab()


def test_other_weights_are_told(trained, tmp_path, monkeypatch):
    name, _, folder = trained
    monkeypatch.setattr("stages.tracks.hcl.export.load_pieces",
                        lambda *given: piece_cases.Case(name, tmp_path / "other", seed=1).model)
    with pytest.raises(InputError, match="has other weights, so nothing was written"):
        export_library_model(folder, tmp_path / "out", "out")
