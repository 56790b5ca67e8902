"""CLLD classifiers: encoders, views, pooling, saving, the words of TextCNN, and what cannot be built."""

import numpy as np
import pytest
import tiny_bert
import torch
from tiny_clld import CLASSES, bert, textcnn, texts
from torch import nn
from torch.nn.functional import cosine_similarity
from transformers import (
    AlbertConfig,
    AlbertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from models.clld.clld import ClldModel, LabelledTexts, dropout_rate, load_text_encoder
from models.clld.textcnn import word_tokenizer

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 64}
LABEL_DISTANCE = {"kind": "label_distance"}


def inputs(count=5):
    batch = texts(count).batch(range(count))
    return batch["input_ids"], batch["attention_mask"]


def logits(model, *given):
    with torch.no_grad():
        return model(*given)


def by_loop(model, ids):
    """Features of one text of TextCNN, run by run."""
    words = model.encoder.embedding(torch.tensor(ids)).detach()
    features = []
    for convolution in model.encoder.convolutions:
        width = convolution.kernel_size[0]
        padded = torch.cat([words, torch.zeros(max(0, width - len(ids)), words.shape[1])])
        runs = [torch.stack([(convolution.weight[number] * padded[start:start + width].t()).sum()
                             + convolution.bias[number] for number in range(len(convolution.weight))])
                for start in range(len(padded) - width + 1)]
        features.append(torch.stack(runs).clamp(min=0).amax(0))
    return torch.cat(features)


def test_textcnn_is_the_maximum_of_each_filter_over_the_runs_of_a_text():
    model, batch = textcnn(), texts(6)
    batch = LabelledTexts([np.array([7]), *batch.ids], np.zeros(7, np.int64))
    given = batch.batch(range(7))
    with torch.no_grad():
        found = model.encode(given["input_ids"], given["attention_mask"])
        expected = torch.stack([by_loop(model, row.tolist()) for row in batch.ids])
    torch.testing.assert_close(found, expected)
    assert found.shape == (7, 18) and (found > 0).any()


def test_pooling_is_the_state_of_cls_or_the_mean():
    ids, mask = inputs()
    for pool in ("cls", "mean"):
        model = bert(pool=pool)
        with torch.no_grad():
            states = model.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            h = model.encode(ids, mask)
        means = torch.stack([states[row, mask[row]].mean(0) for row in range(5)])
        torch.testing.assert_close(h, means if pool == "mean" else states[:, 0])
        assert model.encoder.pooler is None


@pytest.mark.parametrize("make", [textcnn, bert])
def test_views_stand_one_behind_the_other_and_differ_by_dropout_alone(make):
    model, (ids, mask) = make(contrast=LABEL_DISTANCE), inputs()
    with torch.no_grad():
        answers, still = model.train_views(ids, mask)
        model.train()
        torch.manual_seed(0)
        _, moving = model.train_views(ids, mask)
    assert answers.shape == (5, 3) and still.shape == (10, 128)
    torch.testing.assert_close(still[:5], still[5:], atol=1e-6, rtol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(still[:5], model.head(model.eval().encode(ids, mask)), atol=1e-6, rtol=1e-5)
    assert (moving[:5] - moving[5:]).abs().amax(1).min() > 1e-4
    torch.testing.assert_close(answers, logits(model, ids, mask), atol=1e-6, rtol=1e-5)
    assert cosine_similarity(moving[:5], moving[5:]).max() < 1 - 1e-6


def test_further_views_have_dropout_rates_of_their_own():
    model = bert(contrast={"kind": "supervised"}).train()
    seen = []

    def spy(*_):
        seen.append([part.p for part in model.encoder.modules() if isinstance(part, nn.Dropout)])

    model.encoder.embeddings.word_embeddings.register_forward_hook(spy)
    answers, vectors = model.train_views(*inputs())
    assert vectors.shape == (20, 16) and answers.shape == (5, 3) and model.config.views == 4
    assert [set(rates) for rates in seen] == [{0.1}, {0.0}, {0.05}, {0.2}]
    assert {part.p for part in model.encoder.modules() if isinstance(part, nn.Dropout)} == {0.1}
    assert model.dropout.p == 0.5 and model.head is None
    with pytest.raises(KeyError), dropout_rate(model, 0.9):
        raise KeyError
    assert model.dropout.p == 0.5


ENCODERS = {"albert": lambda: AlbertModel(AlbertConfig(**SIZES, embedding_size=8)),
            "roberta": lambda: RobertaModel(RobertaConfig(**SIZES, pad_token_id=0))}


@pytest.mark.parametrize("kind", ENCODERS)
def test_any_encoder_may_be_handed_in(kind, tmp_path):
    encoder = ENCODERS[kind]()
    model, given = ClldModel.over(encoder, CLASSES, contrast=LABEL_DISTANCE).eval(), inputs()
    with torch.no_grad():
        expected = encoder.eval()(input_ids=given[0], attention_mask=given[1].long()).last_hidden_state[:, 0]
        torch.testing.assert_close(model.encode(*given), expected)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(ClldModel.from_pretrained(tmp_path), *given), logits(model, *given))


def test_encoders_are_loaded_without_their_pooler_and_with_the_dropout_of_the_papers(tmp_path):
    encoder, tokenizer = load_text_encoder(tiny_bert.save_encoder(tmp_path / "bert"))
    assert encoder.pooler is None
    albert = AlbertConfig(**SIZES, embedding_size=8)
    assert albert.hidden_dropout_prob == 0
    AlbertModel(albert).save_pretrained(tmp_path / "albert")
    tokenizer.save_pretrained(tmp_path / "albert")
    dropouts = [part.p for part in load_text_encoder(tmp_path / "albert")[0].modules() if isinstance(part, nn.Dropout)]
    assert dropouts and set(dropouts) == {0.1}


def test_words_of_textcnn_are_counted_on_the_training_texts(tmp_path):
    tokenizer = word_tokenizer(["How far is it from Denver to Aspen ?", "how far is NASA's lab?", "Rate it - 4.5"], 2)
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    assert words == ["[PAD]", "[UNK]", "?", "far", "how", "is", "it"]  # all twice, in the order of the alphabet
    assert tokenizer("How   FAR is Nasa's?")["input_ids"] == [4, 3, 5, 1, 2]
    assert tokenizer("")["input_ids"] == []
    every = word_tokenizer(["far far nasa's well-known 4.5"], 1)
    assert set(every.get_vocab()) == {"[PAD]", "[UNK]", "far", "nasa's", "well-known", "4", ".", "5"}
    assert len(word_tokenizer([" ".join(f"w{number}" for number in range(30001))], 1)) == 30000
    tokenizer.save_pretrained(tmp_path)
    assert PreTrainedTokenizerFast.from_pretrained(tmp_path)("how far?")["input_ids"] == [4, 3, 2]
    found = LabelledTexts.of(tokenizer, ["how far is it", "", "far"], [2, 0, 1], 3)
    assert [row.tolist() for row in found.ids] == [[4, 3, 5], [], [3]] and found.lengths.tolist() == [3, 0, 1]
    batch = found.batch([2, 0])
    assert batch["input_ids"].tolist() == [[3, 0, 0], [4, 3, 5]] and batch["labels"].tolist() == [1, 2]
    assert batch["attention_mask"].tolist() == [[True, False, False], [True] * 3]
