"""The stage evaluate_pgkpr: scores of a run of the PGKPR track and of its baselines, raw and released."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny_rewriters
import yaml
from nltk.translate.bleu_score import corpus_bleu

from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import ModelPaths, RunPaths
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.metrics.bleu import RELEASED_WEIGHTS, batched_bleu, count_matches
from stages.tracks.common.evaluation import Evaluated, Resampling
from stages.tracks.pgkpr.evaluate import main, run, source_keywords
from stages.tracks.pgkpr.items import Vocabulary, as_text, as_words, released_form
from stages.tracks.pgkpr.train import plain_items

PAIRS = tiny_rewriters.items()
TEST = PAIRS[PAIRS["split"] == "test"]
VOCABULARY = Vocabulary.from_frame(tiny_rewriters.vocabulary_frame())
LIMIT = 5
FORM = {"known": VOCABULARY.word_numbers, "limit": LIMIT}
QUICK = Resampling(resamples=50, seed=3)
KEYWORDS = {9: ["school", "good"], 10: ["eat", "zebra"]}
OUTPUTS = {9: "what is the good school school", 10: "who can eat [unk] the cat ?"}


class Vectors:
    """A fixed random vector for every word."""

    def lookup(self, words):
        seeds = [int.from_bytes(word.encode()[:6], "big") for word in words]
        return (np.array([np.random.default_rng(seed).normal(size=6) for seed in seeds]),
                np.ones(len(words), dtype=bool))


def predictions(outputs=OUTPUTS, keyword=None):
    references = TEST.groupby("example_id")["target_words"].agg(lambda rows: [as_text(row) for row in rows])
    sources = TEST.drop_duplicates("example_id").set_index("example_id")["source"]
    return pd.DataFrame([
        {"example_id": number, "sample": 0, "source": sources[number], "keyword": keyword, "keyword_known": True,
         "prediction": output, "references": references[number]} for number, output in outputs.items()])


def evaluate(rows=None, pairs=PAIRS, keywords=KEYWORDS):
    given = Evaluated(predictions() if rows is None else rows, plain_items(pairs), Vectors(), resampling=QUICK)
    return run(given, keywords, **FORM)


def words_of_test():
    """Words of outputs, and of the references of each example: one for the first, two for the second."""
    return ([text.split() for text in OUTPUTS.values()],
            [[text.split() for text in texts] for texts in predictions()["references"]])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_corpus_bleu_equals_nltk_with_all_references_under_both_norms(order):
    outputs, references = words_of_test()
    # a text with matches of order 4, or NLTK's tiny numbers would stand for 0
    rows = predictions(OUTPUTS | {9: "what is the best school ?"})
    found = evaluate(rows).metrics["run"]
    outputs[0] = ["what", "is", "the", "best", "school", "?"]
    raw = corpus_bleu(references, outputs, (1 / order,) * order)
    assert found[f"corpus_bleu_{order}"] == pytest.approx(raw, abs=1e-12)
    printed = {1: (1, 0, 0, 0), 2: (.5, .5, 0, 0), 3: (.33, .33, .34, 0), 4: (.25, .25, .25, .25)}[order]
    known = set(VOCABULARY.word_numbers)

    def released(words):
        return [word if word in known else "[unk]" for word in words][:LIMIT]

    expected = corpus_bleu([[released(text) for text in item] for item in references],
                           [released(text) for text in outputs], printed)
    assert found[f"released_bleu_{order}"] == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx(raw, abs=1e-3)


def test_bleu_of_batches_is_the_mean_of_the_bleu_of_each():
    random = np.random.default_rng(0)
    outputs, targets = ([[str(word) for word in random.integers(0, 4, 12)] for _ in range(250)] for _ in range(2))
    found = batched_bleu(count_matches(outputs, [[target] for target in targets]), RELEASED_WEIGHTS)
    for order, weights in enumerate(RELEASED_WEIGHTS):
        whole = [corpus_bleu([[target] for target in targets[start:start + 100]], outputs[start:start + 100], weights)
                 for start in (0, 100, 200)]
        assert found[order] == pytest.approx(np.mean(whole), abs=1e-12)
    assert len({round(value, 6) for value in whole}) == 3
    few = evaluate().metrics    # fewer examples than a batch: that of the corpus
    for system in (few["run"], *few["baselines"].values()):
        assert [system[f"released_batch_bleu_{order}"] for order in (1, 2, 3, 4)] == pytest.approx(
            [system[f"released_bleu_{order}"] for order in (1, 2, 3, 4)])
    assert few["settings"]["bleu_batch"] == 100


def test_an_unknown_word_matches_an_unknown_word_in_the_released_norm_alone():
    pairs = PAIRS.assign(target_words=[["a", "zebra"] if split == "test" else words
                                       for split, words in zip(PAIRS["split"], PAIRS["target_words"], strict=True)])
    rows = predictions({9: "a [unk]", 10: "a zebra"}).assign(references=[["a zebra"], ["a zebra", "a zebra"]])
    found = evaluate(rows, pairs).metrics["run"]
    assert found["released_bleu_2"] == pytest.approx(1) and found["corpus_bleu_1"] == pytest.approx(3 / 4)
    assert found["released_py_rouge_2"] == pytest.approx(1) and found["py_rouge_2"] == pytest.approx(1 / 2)
    assert evaluate(rows, pairs).metrics["counts"]["unknown_words"] == 1


def test_released_texts_are_cut_and_mapped_and_stored():
    table = as_table(SCHEMAS["paraphrase_scores"], evaluate().scores).to_pandas()
    own = table[table["system"] == "run"].set_index("example_id")
    assert own["output"].to_dict() == OUTPUTS
    assert own["released_output"].to_dict() == {9: "what is the good school", 10: "[unk] can eat [unk] the"}
    assert [texts.tolist() for texts in own["released_references"]] == [
        ["what is the best school"], ["[unk] can play with the", "can i eat with a"]]
    copies = table[table["system"] == "copy"].set_index("example_id")
    assert copies.loc[10, "output"] == "who can eat with the zebra ?"
    assert released_form(as_words("the zebra  [unk] ?"), **FORM) == ["the", "[unk]", "[unk]", "?"]


def test_keywords_are_kept_by_stems_and_the_same_for_every_system():
    result = evaluate(predictions(keyword="eat zebra"))
    assert result.metrics["run"]["keywords_kept"] == (1 + 1 / 2) / 2
    # given: "eat" and "zebra" to both; the first output has neither
    assert result.metrics["run"]["given_keywords_kept"] == 1 / 4
    baselines = result.metrics["baselines"]
    assert baselines["keyword"]["keywords_kept"] == baselines["copy"]["keywords_kept"] == 1
    assert "given_keywords_kept" not in baselines["copy"] and "given_keywords_kept" not in evaluate().metrics["run"]
    outputs = result.scores.pivot(index="example_id", columns="system", values="output")
    assert outputs["keyword"].tolist() == ["school good", "eat zebra"]
    without = evaluate(keywords={9: [], 10: ["zebras"]}).metrics
    assert without["run"]["keywords_kept"] == 0 and without["counts"]["without_keywords"] == 1
    assert without["baselines"]["copy"]["keywords_kept"] == 1      # the mean is over items that have some


def test_keywords_of_a_source_are_those_of_the_fixed_coins():
    from tiny_rewriters import fixed_mask

    found = source_keywords(TEST, seed=13, max_length=4)
    assert sorted(found) == [9, 10]
    for row in TEST[TEST["reference"] == 0].to_dict("records"):
        mask = fixed_mask(row, "xx", 13)[:4]
        assert found[row["example_id"]] == [word for word, marked in zip(row["source_words"], mask, strict=False)
                                            if marked]
    assert source_keywords(TEST[::-1], 13, 4) == found
    twice = TEST.assign(source_words=[["a"] * len(words) for words in TEST["source_words"]],
                        score_xx=[[1.0] * len(words) for words in TEST["source_words"]])
    assert source_keywords(twice, 13, 4) == {9: ["a"], 10: ["a"]}


def write_params(folder, **settings):
    (folder / "params.yaml").write_text(yaml.safe_dump({
        "recipe": "tiny", "encoder": {"source": "path", "path": "none"}, "datasets": {"tiny": {"source": "x"}},
        "evaluation": {"bertscore": {"encoder": None}, "resamples": 50, "emb": "train", **settings},
        **{name: {"datasets": ["tiny"]} for name in ("keywords", "attribution")},
        "paraphrase_items": {"datasets": {"tiny": {}}}, "evaluate_pgkpr": {"reference_words": LIMIT},
        "models": {"pgkpr": {"model-a": {"dataset": "tiny"}}}, "runs": {"pgkpr": {"run-a": {"model": "model-a"}}}}))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder with what a model of the track leaves behind beside its weights, and a run's predictions."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    paths, provenance = ModelPaths("model-a", 13), Provenance("train_pgkpr@model-a", "0")
    write_table(paths.vocabulary, SCHEMAS["vocabulary"], VOCABULARY.to_frame(), provenance)
    write_table(paths.items, SCHEMAS["items"], plain_items(PAIRS), provenance)
    write_table(paths.paraphrase_items, SCHEMAS["paraphrase_items"], PAIRS[PAIRS["split"] != "train"], provenance)
    write_table(RunPaths("run-a", 13).predictions, SCHEMAS["predictions"], predictions(keyword="school"), provenance)
    return tmp_path


def test_stage_writes_metrics_and_scores_with_the_same_bytes(project):
    assert main(["run-a"]) == 0
    paths = RunPaths("run-a", 13)
    first = paths.metrics.read_bytes(), paths.scores.read_bytes()
    metrics = json.loads(first[0])
    assert metrics["settings"]["model"] == "model-a" and metrics["settings"]["bertscore"] is None
    assert metrics["settings"]["emb"]["origin"] == "trained on the training split"
    assert metrics["settings"]["vocabulary_words"] == VOCABULARY.kinds.count("word")
    scores = read_frame(paths.scores, SCHEMAS["paraphrase_scores"])
    assert metrics["settings"]["leading"] == [f"released_bleu_{order}" for order in (1, 2, 3, 4)]
    assert "target_keyword_kept" not in metrics["run"] and metrics["intervals"]["run"]["released_py_rouge_l"]
    of_hcl = set(SCHEMAS["scores"].arrow().names) - {"token_nll", "cluster", "known"}
    assert of_hcl <= set(SCHEMAS["paraphrase_scores"].arrow().names)     # whatever reads the others' reads these
    assert len(scores) == 10 and set(scores["system"]) == {"run", "copy", "nearest", "shuffled", "keyword"}
    own = scores[scores["system"] == "run"]
    for name in ("released_py_rouge_l", "py_rouge_1", "keywords_kept", "bleu_1"):
        assert round(own[name].mean(), 6) == metrics["run"][name]
    assert read_metadata(paths.scores)["counts"]["examples"] == 2
    assert read_metadata(paths.scores)["precision"] == computed_in("fp32", False)
    assert main(["run-a"]) == 0
    assert (paths.metrics.read_bytes(), paths.scores.read_bytes()) == first
