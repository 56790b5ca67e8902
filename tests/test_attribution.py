"""Gradient saliency: facts C-K1 to C-K7 of the method, on a linear classifier and on a tiny BERT."""

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import torch
import yaml
from torch import nn

from models.attribution import SaliencyBatch, word_saliency
from stages import attribution
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, read_metadata, write_table
from stages.runtime.errors import InputError

SOURCES = ["what is the best way to learn a new language", "unknown's dog", "cat"]
TARGETS = ["how do i learn language fast ?", "a cat", "what"]
SWITCHES = ["pos_logit", "argmax_logit", "logit_diff", "pos_prob"]


class Linear(nn.Module):
    """f(X) = sum_j c_j w . e_j, the negative logit being -f."""

    def __init__(self, coefficients, width=4):
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(30, width)
        self.direction = nn.Parameter(torch.randn(width))
        self.coefficients, self.scale = torch.tensor(coefficients), 1.0

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask):
        terms = (self.table(input_ids) @ self.direction) * self.coefficients * attention_mask
        f = self.scale * terms.sum(1)
        return SimpleNamespace(logits=torch.stack([-f, f], dim=1))


def linear_batch(length, words):
    return SaliencyBatch({"input_ids": torch.arange(length).unsqueeze(0) + 3,
                          "attention_mask": torch.ones(1, length)}, [words])


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_bert.tokenizer(tmp_path)


@pytest.fixture
def encode(tokenizer):
    def encoded(sources=SOURCES, targets=TARGETS, **options):
        return tokenizer(list(sources), list(targets), return_tensors="pt", padding=True, **options)
    return encoded


@pytest.mark.parametrize("target", SWITCHES)
def test_ck1_scores_are_probabilities_one_per_source_word(encode, target):
    scores = word_saliency(tiny_bert.classifier(), encode(), target)
    assert [len(row) for row in scores] == [10, 4, 1]  # unknown ' s dog: basic tokens
    for row in scores[:2]:
        assert row.min() == 0.0 and row.max() == 1.0
    assert scores[2].tolist() == [0.5]  # a single word


def test_ck2_equal_norms_give_a_half():
    batch = linear_batch(5, [[1], [2], [3]])
    for normalisation in ("minmax", "max", "sum"):
        assert word_saliency(Linear([1.0] * 5), batch, "pos_logit", normalisation)[0].tolist() == [0.5] * 3


def test_ck3_linear_classifier_scores_are_its_coefficients():
    coefficients = [9.0, 3.0, -1.0, 2.0, -5.0, 7.0]
    words = [[1], [2], [3], [4]]  # positions 0 and 5 stand outside the source
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit")
    assert scores.tolist() == pytest.approx([(abs(c) - 1) / 4 for c in (3, 1, 2, 5)])
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit", "max")
    assert scores.tolist() == pytest.approx([3 / 5, 1 / 5, 2 / 5, 1])
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit", "sum")
    assert scores.tolist() == pytest.approx([3 / 11, 1 / 11, 2 / 11, 5 / 11])


def test_pieces_are_averaged_into_words_and_words_without_pieces_get_zero():
    scores, = word_saliency(Linear([0.0, 1.0, 3.0, 6.0, 4.0]), linear_batch(5, [[1, 2], [], [3], [4]]), "pos_logit")
    assert scores.tolist() == pytest.approx([0.0, 0.0, 1.0, 0.5])  # means 2, none, 6, 4
    only_unaligned, = word_saliency(Linear([1.0, 2.0]), linear_batch(2, [[], []]), "pos_logit")
    assert only_unaligned.tolist() == [0.0, 0.0]
    assert word_saliency(Linear([1.0, 2.0]), linear_batch(2, []), "pos_logit")[0].shape == (0,)


def test_ck4_expected_number_of_keywords_is_the_sum(encode):
    scores = word_saliency(tiny_bert.classifier(), encode(), "pos_logit")[0]
    draws = torch.rand(20_000, len(scores), generator=torch.Generator().manual_seed(1)) < scores
    assert draws.sum(1).float().mean().item() == pytest.approx(scores.sum().item(), abs=0.05)


@pytest.mark.parametrize("target", ["pos_logit", "argmax_logit", "logit_diff"])
def test_ck5_scaling_the_output_changes_nothing(encode, target):
    classifier = tiny_bert.classifier()
    before = word_saliency(classifier, encode(), target)
    with torch.no_grad():
        classifier.classifier.weight.mul_(3.0)
        classifier.classifier.bias.mul_(3.0)
    for one, other in zip(before, word_saliency(classifier, encode(), target), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_ck6_target_words_never_score(encode):
    scores = word_saliency(tiny_bert.classifier(), encode(["dog cat"], ["dog cat run eat play"]), "pos_logit")
    assert [len(row) for row in scores] == [2]


def test_ck7_padding_and_company_do_not_matter(encode):
    classifier = tiny_bert.classifier()
    together = word_saliency(classifier, encode(), "pos_logit")
    padded = word_saliency(classifier, encode(pad_to_multiple_of=40), "pos_logit")
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone, = word_saliency(classifier, encode([source], [target]), "pos_logit")
        torch.testing.assert_close(alone, together[row], atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[row], together[row], atol=1e-5, rtol=0)


@pytest.mark.parametrize("target", SWITCHES)
def test_norms_are_the_gradient_by_the_word_embedding(encode, target):
    """Against finite differences on the look-up, position by position, written from the definition."""
    classifier = tiny_bert.classifier().double()
    encoding = encode(SOURCES[1:2], TARGETS[1:2])
    table = classifier.get_input_embeddings()

    def value(shift, position, axis):
        def move(module, arguments, output):
            output = output.clone()
            output[0, position, axis] += shift
            return output
        handle = table.register_forward_hook(move)
        with torch.no_grad():
            logits = classifier(**encoding).logits[0]
        handle.remove()
        return {"pos_logit": logits[1], "argmax_logit": logits.max(), "logit_diff": logits[1] - logits[0],
                "pos_prob": torch.softmax(logits, -1)[1]}[target].item()

    norms = []
    for position in range(1, 6):  # un ##known ' s dog
        slopes = [(value(1e-5, position, axis) - value(-1e-5, position, axis)) / 2e-5 for axis in range(16)]
        norms.append(sum(slope ** 2 for slope in slopes) ** 0.5)
    words = torch.tensor([(norms[0] + norms[1]) / 2, *norms[2:]])
    expected = (words - words.min()) / (words.max() - words.min())
    torch.testing.assert_close(word_saliency(classifier, encoding, target)[0], expected.float(), atol=1e-4, rtol=0)


def test_pos_prob_ranks_as_logit_diff_even_when_it_is_certain():
    classifier = Linear([3.0, -1.0, 2.0, -5.0])
    batch = linear_batch(4, [[0], [1], [2], [3]])
    classifier.scale = 25.0 / classifier(**batch.inputs).logits[0, 1].item()
    assert torch.sigmoid(torch.tensor(50.0, dtype=torch.float64)) == 1.0  # what the two logits amount to
    for sign in (1.0, -1.0):
        classifier.scale *= sign
        torch.testing.assert_close(word_saliency(classifier, batch, "pos_prob")[0],
                                   word_saliency(classifier, batch, "logit_diff")[0])


def test_argmax_is_taken_sample_by_sample():
    classifier = tiny_bert.classifier()

    class Opposed(nn.Module):
        """Gives each sample another winner."""

        def get_input_embeddings(self):
            return classifier.get_input_embeddings()

        def forward(self, **inputs):
            logits = classifier(**inputs).logits
            return SimpleNamespace(logits=logits + torch.tensor([[100.0, 0.0], [0.0, 100.0]]))

    inputs = {"input_ids": torch.tensor([[2, 5, 6, 8, 3], [2, 25, 26, 8, 3]])}
    batch = SaliencyBatch(inputs, [[[1], [2], [3]]] * 2)
    argmax, positive = (word_saliency(Opposed(), batch, target) for target in ("argmax_logit", "pos_logit"))
    torch.testing.assert_close(argmax[1], positive[1])
    assert (argmax[0] - positive[0]).abs().max() > 1e-3


def test_segments_reach_the_classifier(encode):
    encoding = encode()
    same = dict(encoding)
    same["token_type_ids"] = torch.zeros_like(encoding["token_type_ids"])
    words = [[[1 + j] for j in range(3)] for _ in SOURCES]
    classifier = tiny_bert.classifier()
    one = word_saliency(classifier, SaliencyBatch(dict(encoding), words), "pos_logit")[0]
    assert (one - word_saliency(classifier, SaliencyBatch(same, words), "pos_logit")[0]).abs().max() > 1e-4


def test_the_classifier_is_left_as_it_was(encode):
    classifier = tiny_bert.classifier()
    classifier.train()
    classifier.bert.eval()
    encoding = encode()
    with torch.no_grad():  # works inside no_grad, and dropout is off whatever the mode
        first, second = (word_saliency(classifier, encoding, "pos_logit") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert classifier.training and not classifier.bert.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in classifier.parameters())
    assert not classifier.get_input_embeddings()._forward_hooks


def test_unknown_names_are_errors(encode, tokenizer):
    with pytest.raises(ValueError, match="target: no 'logit'; valid names: pos_logit, argmax_logit"):
        word_saliency(Linear([1.0]), linear_batch(1, [[0]]), "logit")
    with pytest.raises(ValueError, match="normalisation: no 'softmax'; valid names: minmax, max, sum"):
        word_saliency(Linear([1.0]), linear_batch(1, [[0]]), "pos_logit", "softmax")
    with pytest.raises(ValueError, match="a fast tokenizer's output"):
        word_saliency(Linear([1.0]), {"input_ids": torch.ones(1, 1)}, "pos_logit")


TEXTS = ["what is the best way to learn a language ?", "how do i learn a new language", "don't eat dog , cat",
         "why dog eat cat", "you can run", "cat"]
VALUES = {"attr_target": "pos_logit", "normalisation": "minmax", "modes": ["xx", "xy"], "batch_size": 4}


def tables(texts=TEXTS):
    sources, targets = [0, 2, 0, 5, 4], [1, 3, 1, 4, 5]  # the pair (0, 1) stands twice
    examples = pd.DataFrame({
        "example_id": range(5), "split": ["train", "train", "train", "validation", "test"], "source_id": sources,
        "target_id": targets, "negative_id": [None] * 5, "reference_ids": [[t] for t in targets], "group": range(5),
        "negative_origin": [None] * 5})
    words = [list(re.finditer(r"\w+(?=n't)|n't|\w+|[^\w\s]", text)) for text in texts]
    tokens = pd.DataFrame({"text_id": range(len(texts)), "token": [[m.group() for m in row] for row in words],
                           "start": [[m.start() for m in row] for row in words],
                           "end": [[m.end() for m in row] for row in words]})
    return examples, pd.DataFrame({"text_id": range(len(texts)), "text": texts, "language": "en"}), tokens


def attributed(tokenizer, texts=TEXTS, **values):
    made = attribution.run(*tables(texts), tiny_bert.classifier(), tokenizer, {**VALUES, **values})
    return made, pd.DataFrame(made.columns)


def test_every_source_is_scored_with_itself_and_with_its_targets(tokenizer):
    _, rows = attributed(tokenizer)
    assert list(rows[["text_id", "mode", "pair"]].itertuples(index=False, name=None)) == [
        (0, "xx", 0), (0, "xy", 1), (2, "xx", 2), (2, "xy", 3), (4, "xx", 4), (4, "xy", 5), (5, "xx", 5),
        (5, "xy", 4)]
    assert all(len(word) == len(score) for word, score in zip(rows["word"], rows["score"], strict=True))
    assert list(attributed(tokenizer, modes=["xy"])[1]["mode"].unique()) == ["xy"]


def test_stage_scores_are_those_of_each_pair_alone(tokenizer):
    _, rows = attributed(tokenizer)
    classifier = tiny_bert.classifier()
    for text, pair, score in rows[["text_id", "pair", "score"]].itertuples(index=False):
        alone, = word_saliency(classifier, tokenizer([TEXTS[text]], [TEXTS[pair]], return_tensors="pt"), "pos_logit")
        if text == 2:  # the tokenizer cuts "don't" into don ' t, the annotation into do n't
            continue
        np.testing.assert_allclose(score, alone.numpy(), atol=1e-5)


def test_pieces_meet_words_by_their_characters(tokenizer):
    # pieces: [CLS] un ##known ' s dog run [SEP] cat ...
    encoded = tokenizer(["unknown's dogrun"], ["cat dog"])
    starts, ends = zip((0, 7), (7, 9), (10, 13), (13, 16), (16, 20), strict=True)
    assert attribution.align(encoded, 0, starts, ends) == [[1, 2], [3, 4], [5], [5], []]
    # "unknown" 1-2, "'s" 3-4, and the one [UNK] piece over "dogrun" counts for both of its words


def test_words_that_were_cut_off_score_zero_and_are_reported(tokenizer):
    tokenizer.model_max_length = 12
    made, rows = attributed(tokenizer)
    long = rows[(rows["text_id"] == 0) & (rows["mode"] == "xx")].iloc[0]
    assert len(long["score"]) == len(long["word"]) == 10
    assert list(long["score"][5:]) == [0.0] * 5 and max(long["score"]) == 1.0
    assert made.counts["unaligned_words"] >= 5
    assert made.fallbacks[0].startswith(f"{made.counts['unaligned_words']} of {made.counts['words']} words score 0")
    tokenizer.model_max_length = 64
    assert attributed(tokenizer)[0].fallbacks == []


def test_bytes_of_a_text_do_not_depend_on_its_company(tokenizer):
    _, rows = attributed(tokenizer)
    examples, texts, tokens = tables()
    few = attribution.run(examples.iloc[3:4], texts, tokens, tiny_bert.classifier(), tokenizer, VALUES)
    expected = rows[rows["text_id"] == 5]["score"]
    for score, other in zip(few.columns["score"], expected, strict=True):
        assert score.tobytes() == other.tobytes()
    for size in (1, 3, 64):
        for score, other in zip(attributed(tokenizer, batch_size=size)[1]["score"], rows["score"], strict=True):
            np.testing.assert_allclose(score, other, atol=1e-5)


def test_a_source_without_tokens_is_named(tokenizer):
    examples, texts, tokens = tables()
    with pytest.raises(InputError, match=r"tokens.parquet: text 2 has no row \(and 1 more\)"):
        attribution.run(examples, texts, tokens[~tokens["text_id"].isin([2, 4])], tiny_bert.classifier(), tokenizer,
                        VALUES)


@pytest.fixture
def project(tmp_path, monkeypatch, tokenizer):
    monkeypatch.chdir(tmp_path)
    examples, texts, tokens = tables()
    for name in ("lemma", "pos", "tag"):
        tokens[name] = tokens["token"]
    for name in ("is_stop", "sentence_start"):
        tokens[name] = [[False] * len(row) for row in tokens["token"]]
    for name in ("chunk_start", "chunk_end"):
        tokens[name] = [[] for _ in tokens["token"]]
    paths = DatasetPaths("tiny")
    for kind, rows in (("examples", examples), ("texts", texts), ("tokens", tokens)):
        write_table(paths.table(kind), kind, rows, Provenance("test", "0"))
    tiny_bert.classifier().save_pretrained(paths.pair_classifier)
    tokenizer.save_pretrained(paths.pair_classifier)
    params = {"recipe": "test", "datasets": {"tiny": {"source": "data.jsonl"}}, "attribution": VALUES}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return paths


def test_stage_writes_the_table_and_says_what_made_it(project, tokenizer):
    assert attribution.main(["tiny"]) == 0
    path = project.table("attribution")
    written, (_, rows) = read_frame(path, "attribution"), attributed(tokenizer)
    for score, expected in zip(written["score"], rows["score"], strict=True):
        assert score.tobytes() == expected.tobytes()
    metadata = read_metadata(path)
    assert metadata["counts"]["rows_xx"] == metadata["counts"]["rows_xy"] == 4
    assert len(metadata["models"]["pair_classifier"]["sha256"]) == 64
    first = path.read_bytes()
    assert attribution.main(["tiny"]) == 0 and path.read_bytes() == first


def test_stage_without_a_classifier_says_how_to_make_it(project, capsys):
    shutil.rmtree(project.pair_classifier)
    assert attribution.main(["tiny"]) == 1
    assert "Make it with `keycontrast stage pair_classifier`" in capsys.readouterr().err
