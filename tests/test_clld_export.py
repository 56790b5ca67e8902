"""CLLD classifiers as sequence classifiers of the library: equal logits, or a refusal that says what to do."""

import pytest
import tiny_bert
import torch
from tiny_clld import CLASSES
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaModel,
)

from models.clld.clld import ClldModel
from models.clld.export import sequence_classifier

SIZES = {"vocab_size": len(tiny_bert.VOCABULARY), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 64, "initializer_range": 0.5}
ENCODERS = {"bert": lambda: BertModel(BertConfig(**SIZES)),
            "albert": lambda: AlbertModel(AlbertConfig(**SIZES, embedding_size=8)),
            "roberta": lambda: RobertaModel(RobertaConfig(**SIZES, pad_token_id=0))}


def made(kind):
    torch.manual_seed(1)
    encoder = ENCODERS[kind]()
    model = ClldModel.over(encoder, CLASSES, contrast={"kind": "label_distance"}).eval()
    torch.nn.init.normal_(model.classifier.weight, std=2.0)  # logits that are far apart
    torch.nn.init.normal_(model.classifier.bias)
    return model


@pytest.mark.parametrize("kind", ENCODERS)
def test_exports_load_with_equal_logits_and_the_names_of_the_classes(kind, tmp_path):
    model = made(kind)
    sequence_classifier(model).save_pretrained(tmp_path / "exported")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported")
    tokenizer = tiny_bert.tokenizer(tmp_path)
    batch = tokenizer(["what is the best way", "why ?", "dog cat run eat play"], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(batch["input_ids"], batch["attention_mask"])
        found = loaded(**batch).logits
    assert expected.abs().max() > 1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert loaded.config.id2label == dict(enumerate(CLASSES)) and loaded.config.label2id["person"] == 1
    drops = [part.p for part in loaded.modules() if isinstance(part, torch.nn.Dropout)]
    assert 0.5 in drops  # the classifier's own, for further training
    assert not {"head", "ldm"} & set(loaded.state_dict())
