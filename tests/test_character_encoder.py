"""An encoder of a data set's own characters: vocabulary, vectors, the same bytes, and who may name it."""

import pytest
import torch

from keycontrast.errors import InputError
from models.common.encoders import load_encoder, special_ids
from models.common.transformer import embed
from pipeline.recipes import plan
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths
from stages.params import parse_params
from stages.psi import character_encoder
from stages.psi.character_encoder import run, vocabulary
from stages.psi.params import CharacterEncoder

TEXTS = ["今天天气很好 [SEP] 天气好", "明天天气不好", "iphone 很好用 [SEP] iphone", "我的 iPhone 不好用", "今天不好"]
VALUES = CharacterEncoder(min_word_count=3, size=16, layers=2, heads=2, feed_forward=32, epochs=2).plain()


def made(seed=13, **changes):
    return run({"train": TEXTS, "validation": ["今天 ipad 很贵"], "test": []}, VALUES | changes, seed)


def test_the_vocabulary_is_of_characters_frequent_words_and_what_spells_the_others():
    pieces = vocabulary(TEXTS, 2, 3)
    assert {"今", "天", "好", "iphone", "a", "9", "##a", "##9"} < set(pieces)
    assert not {"明", "我", "sep", "今天"} & set(pieces)  # once, once, a mark of turns, and no word to BERT
    assert pieces[:5] == list(character_encoder.SPECIAL) and len(set(pieces)) == len(pieces)
    assert "iphone" not in vocabulary(TEXTS, 2, 4) and "明" in vocabulary(TEXTS, 1, 4)


def test_unknown_pieces_are_counted_by_split_and_latin_words_are_spelt():
    _, tokenizer, metrics = made()
    assert metrics["share_unknown"] == {
        "train": pytest.approx(3 / 32, abs=1e-6), "validation": pytest.approx(1 / 8, abs=1e-6), "test": None}
    assert tokenizer.tokenize("今天 [SEP] iPad贵") == ["今", "天", "[SEP]", "i", "##p", "##a", "##d", "[UNK]"]


def test_untrained_layers_leave_each_text_the_mean_of_its_pieces(tmp_path):
    for part in made()[:2]:
        part.save_pretrained(tmp_path)
    encoder, tokenizer = load_encoder(tmp_path)
    assert sorted(special_ids(tokenizer).values()) == [0, 1, 2, 3, 4]
    read = tokenizer(["天气很好", "不好"], padding=True, return_tensors="pt")
    mask = read["attention_mask"].bool()
    pieces = encoder.embeddings(read["input_ids"])
    wanted = torch.stack([row[there].mean(0) for row, there in zip(pieces, mask, strict=True)])
    torch.testing.assert_close(embed(encoder, read["input_ids"], mask), wanted, atol=1e-5, rtol=0)
    encoder.train()
    embed(encoder, read["input_ids"], mask).square().sum().backward()
    assert encoder.encoder.layer[0].output.dense.weight.grad.abs().max() > 0  # and yet they can be trained


def test_the_same_texts_and_seed_give_the_same_bytes(tmp_path):
    for name, seed in (("one", 13), ("again", 13), ("other", 14)):
        for part in made(seed)[:2]:
            part.save_pretrained(tmp_path / name)
    files = {name: {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
             for name in ("one", "again", "other")}
    assert files["one"] == files["again"]
    assert files["one"]["model.safetensors"] != files["other"]["model.safetensors"]
    assert files["one"]["tokenizer.json"] == files["other"]["tokenizer.json"]


ENCODER = DatasetPaths("mine").character_encoder.as_posix()


def params(encoder=None, scorer=None, made=("mine",)):
    return parse_params({"recipe": "r", "encoder": encoder or {}, "character_encoder": {"datasets": list(made)},
                         "datasets": {"mine": {"source": "x.csv", "layout": "pairs",
                                               "columns": {"source": "a", "target": "b"}}},
                         "evaluation": {"bertscore": scorer or {}}}, "params")


def test_the_encoder_is_that_of_the_data_set_whose_folder_is_named():
    own = {"path": ENCODER}
    read = params({"source": "characters", **own}, {"encoder": "characters", **own})
    assert (read.encoder.source, read.evaluation.bertscore.encoder) == ("characters:mine", "characters:mine")
    assert params({"source": "path", "path": "my/encoder"}).encoder.source == "path:my/encoder"
    recipe = plan("cpu-hcl-dialogue", "x").params
    assert recipe.character_encoder.datasets == ["standins-all"]
    assert recipe.encoder.source == recipe.evaluation.bertscore.encoder == "characters:standins-all"


def test_the_encoder_is_found_by_its_data_set_and_marked_as_from_scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"characters:mine: .*holds no config.json"):
        resolve_encoder("characters:mine")
    for part in made()[:2]:
        part.save_pretrained(DatasetPaths("mine").character_encoder)
    assert resolve_encoder("characters:mine").description["name"] == "characters of mine (from scratch)"
