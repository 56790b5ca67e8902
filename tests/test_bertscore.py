"""BERTScore against a loop written from its equations, on a BERT of width 16."""

import math

import numpy as np
import pytest
import tiny_bert
import torch

from models.common.encoders import load_encoder
from stages.metrics import bertscore as module
from stages.metrics.bertscore import BertScorer

TEXTS = ["what is the best way to learn a new language ?", "how do i find a good school ?", "learn a language fast",
         "run running eat", "why", "who can tell me about the dog , the cat ?", "known unknown", "", "   ",
         "the the the"]
REFERENCES = [["how do i learn a language ?"], ["where can i find good school", "what is a school ?"], ["dog cat"],
              ["eat run play", "run"], ["why ?"], ["tell me about a dog"], ["unknown known"], ["dog"], ["cat"],
              ["the dog"]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tiny_bert.save_encoder(tmp_path_factory.mktemp("encoder"))
    model, tokenizer = load_encoder(str(folder))
    with torch.no_grad():   # default weights of 0.02 make all states alike at this width
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(15)
    return model, tokenizer


def bert_score(hypotheses, references, *encoder, **options):
    return BertScorer(*encoder, **options).score({"": hypotheses}, references)[""]


def states(encoder, text, layer):
    """Word pieces with [CLS] and [SEP], and their hidden states, one text at a time."""
    model, tokenizer = encoder
    ids = tokenizer(text.strip())["input_ids"]
    with torch.no_grad():
        hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
    return ids, [vector.tolist() for vector in hidden]


def cosine(left, right):
    return (sum(a * b for a, b in zip(left, right, strict=True))
            / math.sqrt(sum(a * a for a in left)) / math.sqrt(sum(b * b for b in right)))


def slow_score(encoder, hypothesis, references, layer=2, weight=lambda piece: 1.0):
    """Precision, recall and F1 of the best reference by F1."""
    special = {tiny_bert.VOCABULARY.index("[CLS]"), tiny_bert.VOCABULARY.index("[SEP]")}

    def side(these, those):
        ids, vectors = these
        weights = [0.0 if piece in special else weight(piece) for piece in ids]
        best = [max(cosine(one, other) for other in those[1]) for one in vectors]
        return sum(w * b for w, b in zip(weights, best, strict=True)) / sum(weights)

    found = []
    own = states(encoder, hypothesis, layer)
    for text in references:
        other = states(encoder, text, layer)
        if len(own[0]) == 2 or len(other[0]) == 2:
            found.append((0.0, 0.0, 0.0))
            continue
        precision, recall = side(own, other), side(other, own)
        found.append((precision, recall, 2 * precision * recall / (precision + recall)))
    return max(found, key=lambda score: score[2])


@pytest.mark.parametrize("layer", [None, 0, 1])
def test_equals_a_slow_loop(encoder, layer):
    found = bert_score(TEXTS, REFERENCES, *encoder, layer=layer)
    expected = [slow_score(encoder, text, others, 2 if layer is None else layer)
                for text, others in zip(TEXTS, REFERENCES, strict=True)]
    np.testing.assert_allclose(np.stack([found.precision, found.recall, found.f1], axis=1), expected, atol=2e-6)
    assert np.ptp(found.f1[:6]) > 0.05     # the encoder tells texts apart


def test_weights_by_idf_over_the_references(encoder):
    texts = [text for item in REFERENCES for text in item]
    pieces = [set(encoder[1](text)["input_ids"]) for text in texts]

    def weight(piece):
        return math.log((len(texts) + 1) / (sum(piece in one for one in pieces) + 1))

    found = bert_score(TEXTS, REFERENCES, *encoder, idf=True)
    expected = [slow_score(encoder, text, others, weight=weight)[2]
                for text, others in zip(TEXTS, REFERENCES, strict=True)]
    np.testing.assert_allclose(found.f1, expected, atol=2e-6)
    assert np.abs(found.f1 - bert_score(TEXTS, REFERENCES, *encoder).f1).max() > 1e-3


def test_identical_texts_score_one(encoder):
    texts = [text for text in TEXTS if text.strip()]
    for idf in (False, True):   # with one reference, no piece weighs anything: all weigh alike
        found = bert_score(texts, texts, *encoder, idf=idf)
        np.testing.assert_allclose([found.precision, found.recall, found.f1], 1, atol=1e-6)
    np.testing.assert_allclose(bert_score(texts[:1], texts[:1], *encoder, idf=True).f1, 1, atol=1e-6)


def test_values_depend_neither_on_order_nor_on_company_nor_on_blocks(encoder, monkeypatch):
    whole = bert_score(TEXTS, REFERENCES, *encoder)
    backwards = bert_score(TEXTS[::-1], REFERENCES[::-1], *encoder)
    np.testing.assert_allclose(backwards.f1[::-1], whole.f1, atol=1e-6)
    monkeypatch.setattr(module, "_ITEMS", 3)
    monkeypatch.setattr(module, "_BATCH", 2)
    np.testing.assert_allclose(bert_score(TEXTS, REFERENCES, *encoder).f1, whole.f1, atol=1e-6)
    assert (bert_score(TEXTS, REFERENCES, *encoder).f1 == bert_score(TEXTS, REFERENCES, *encoder).f1).all()


def test_roberta_words_begin_with_a_space_and_long_texts_are_cut_to_its_positions():
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import RobertaProcessing
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["a dog and a dog", "a cat"] * 5, vocab_size=280,
                                special_tokens=["<s>", "</s>", "<pad>"])
    trained.post_processor = RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, cls_token="<s>", sep_token="</s>",
                                        pad_token="<pad>")
    torch.manual_seed(0)
    model = RobertaModel(RobertaConfig(vocab_size=280, hidden_size=16, num_hidden_layers=1, pad_token_id=2,
                                       num_attention_heads=2, intermediate_size=16, max_position_embeddings=18),
                         add_pooling_layer=False).eval()
    scorer = BertScorer(model, tokenizer)
    (ids, special), = scorer._encoded(["dog"])
    assert tokenizer.convert_ids_to_tokens(ids) == ["<s>", "\u0120dog", "</s>"]
    assert special.tolist() == [True, False, True]
    assert bert_score(["dog " * 40], ["dog " * 50], model, tokenizer).f1[0] == pytest.approx(1, abs=1e-6)
