"""The stage evaluate_hcl: scores of a run and of its baselines."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import yaml
from test_metrics import bleu

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import ModelPaths, RunPaths
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.metrics.bertscore import BertScores
from stages.metrics.bleu import distinct, sacrebleu, self_bleu
from stages.metrics.rouge import rouge
from stages.tracks.common.evaluation import Evaluated, Resampling, word_vectors
from stages.tracks.common.schemas import keyword_columns
from stages.tracks.hcl.evaluate import main, run

TRAIN = [(1, "how do i lose belly fat", "what helps against belly fat"),
         (2, "who invented the telephone", "who is the inventor of the telephone"),
         (3, "how do i lose belly fat", "a later target of the same source"),
         (4, "best way to learn chess", "how can i learn chess well")]
TEST = [(11, "how can i lose my belly fat fast", ["what are good ways to lose belly fat ?"], "how to lose fat"),
        (12, "who made the first telephone", ["who invented the telephone ?", "who built the telephone ?"],
         "who invented the first telephone ?"),
        (13, "zebra quilt pattern ideas", ["what is a zebra quilt ?"], "")]


class Vectors:
    """A fixed random vector for every word but '?'."""

    def lookup(self, words):
        seeds = [int.from_bytes(word.encode()[:6], "big") for word in words]
        return (np.array([np.random.default_rng(seed).normal(size=6) for seed in seeds]),
                np.array([word != "?" for word in words]))


KEYWORDS = {11: "belly fat", 12: "telephone", 13: "<nokw>"}
QUICK = Resampling(resamples=50, seed=3)


def items_frame():
    rows = [(number, "train", source, "k", [target]) for number, source, target in TRAIN]
    rows += [(number, "test", source, KEYWORDS[number], references) for number, source, references, _ in TEST]
    rows += [(20, "validation", "an unused question", "k", ["another one"])]
    frame = pd.DataFrame(rows, columns=["example_id", "split", "source", "keyword", "references"])
    return frame.assign(target=[texts[0] for texts in frame["references"]], target_keyword="lose",
                        negative_keyword=None, negatives=[["a negative text"]] * len(frame))


def evaluate(predictions=None, items=None, **changes):
    given = Evaluated(predictions_frame() if predictions is None else predictions,
                      items_frame() if items is None else items, Vectors(), **{"resampling": QUICK, **changes})
    return run(given, likelihoods_frame())


def likelihoods_frame():
    return pd.DataFrame({"example_id": [number for number, *_ in TEST], "nll": [6.0, 8.0, 3.0], "tokens": [3, 2, 1]})


def predictions_frame(samples=0):
    rows = [(number, sample, source, KEYWORDS[number], True, output if sample == 0 else f"{output} {sample} more",
             references)
            for number, source, references, output in TEST for sample in range(samples + 1)]
    return pd.DataFrame(rows, columns=["example_id", "sample", "source", "keyword", "keyword_known", "prediction",
                                       "references"])


def test_every_metric_is_the_one_of_the_metrics_package():
    metrics = evaluate().metrics
    outputs = [output for *_, output in TEST]
    sources = [source for _, source, *_ in TEST]
    references = [texts for _, _, texts, _ in TEST]
    found = metrics["run"]
    for style, prefix in (("individual_m7", "bleu"), ("cumulative_m7", "cumulative_m7"), ("corpus", "corpus_bleu")):
        assert [found[f"{prefix}_{order}"] for order in range(1, 5)] == pytest.approx(
            list(bleu(outputs, references, style)), abs=1e-12)
    assert found["sacrebleu"] == sacrebleu(outputs, references)[0]
    assert found["distinct_1"] == distinct(outputs, 1) and found["distinct_2"] == distinct(outputs, 2)
    copied = [[one] for one in sources]
    assert found["source_bleu"] == bleu(outputs, copied, "corpus")[3]
    assert found["source_bleu_4"] == pytest.approx(bleu(outputs, copied, "cumulative_m7")[3])
    assert found["ibleu"] == pytest.approx(0.8 * found["corpus_bleu_4"] - 0.2 * found["source_bleu"])
    assert found["self_bleu"] == self_bleu(outputs)
    assert found["rouge_1"] == pytest.approx(rouge(outputs, references, "rouge_score")[:, 0].mean())
    assert found["py_rouge_l"] == pytest.approx(rouge(outputs, references, "py_rouge")[:, 2].mean())
    assert found["mean_length"] == (4 + 6 + 0) / 3
    assert found["token_nll"] == 3 and "token_nll" not in metrics["baselines"]["copy"]
    assert found["keyword_kept"] == 1 / 2           # the telephone; the third item has no keyword
    assert found["target_keyword_kept"] == 1 / 3    # "to lose fat"
    assert metrics["settings"]["split"] == "test" and metrics["settings"]["ibleu_alpha"] == 0.8
    assert "case:lc" in metrics["settings"]["sacrebleu"]


def test_baselines_need_no_model():
    result = evaluate()
    outputs = result.scores.pivot(index="example_id", columns="system", values="output")
    assert outputs["copy"].tolist() == [source for _, source, *_ in TEST]
    # 11: examples 1 and 3 share one source, the smaller number wins; 13 shares no word with any.
    assert outputs["nearest"].tolist() == [TRAIN[0][2], TRAIN[1][2], TRAIN[0][2]]
    assert outputs["keyword"].tolist() == ["belly fat", "telephone", ""]
    firsts = [texts[0] for _, _, texts, _ in TEST]
    assert sorted(outputs["shuffled"]) == sorted(firsts)
    assert all(other != own for other, own in zip(outputs["shuffled"], firsts, strict=True))
    baselines = result.metrics["baselines"]
    assert baselines["copy"]["source_bleu"] == pytest.approx(1)
    assert baselines["copy"]["mean_length"] == (8 + 5 + 4) / 3
    assert baselines["keyword"]["keyword_kept"] == baselines["copy"]["keyword_kept"] == 1
    assert result.metrics["counts"] == {"examples": 3, "empty_outputs": 1, "skipped_extrema_average": 0,
                                        "training_items": 4, "nearest_without_shared_word": 1}


def test_nothing_depends_on_the_order_of_rows_even_in_ties():
    one, other = evaluate(), evaluate(predictions_frame()[::-1], items_frame()[::-1])
    pd.testing.assert_frame_equal(one.scores, other.scores)
    assert one.metrics == other.metrics


class Scorer:
    """BERTScore by length of the output, and what was asked for."""

    def __init__(self, baseline=None):
        self.baseline, self.asked = baseline, []

    def score(self, systems, references):
        self.asked.append((sorted(systems), len(references)))
        lengths = {name: np.array([len(text) / 100 for text in outputs]) for name, outputs in systems.items()}
        return {name: BertScores(values, values, values) for name, values in lengths.items()}


def test_bertscore_of_all_systems_at_once_raw_and_rescaled():
    scorer = Scorer()
    result = evaluate(scorer=scorer)
    assert scorer.asked == [(["copy", "keyword", "nearest", "run", "shuffled"], 3)]
    found, baselines = result.metrics["run"], result.metrics["baselines"]
    assert found["bertscore"] == pytest.approx(np.mean([len(output) for *_, output in TEST]) / 100)
    shuffled = baselines["shuffled"]["bertscore"]
    assert baselines["shuffled"]["bertscore_over_shuffled"] == 0
    assert found["bertscore_over_shuffled"] == pytest.approx((found["bertscore"] - shuffled) / (1 - shuffled))
    assert "bertscore_rescaled" not in found    # no baseline is known
    assert len(result.metrics["intervals"]["run"]["bertscore"]) == 2
    own = result.scores[result.scores["system"] == "run"]
    assert own["bertscore"].tolist() == [len(output) / 100 for *_, output in TEST]
    known = evaluate(scorer=Scorer(baseline=0.05), baselines=["copy"]).metrics["run"]
    assert known["bertscore_rescaled"] == pytest.approx((known["bertscore"] - 0.05) / 0.95)
    assert "bertscore_over_shuffled" not in known


def test_a_keyword_other_than_the_sources_own_is_looked_for():
    assert "prior_keyword_kept" not in evaluate().metrics["run"]
    predictions = predictions_frame().assign(keyword=["lose", "zebra", None])
    assert evaluate(predictions).metrics["run"]["prior_keyword_kept"] == 1 / 2


def test_a_reference_without_known_words_is_skipped_and_counted():
    predictions = predictions_frame()
    predictions.at[0, "references"] = ["?"]
    result = evaluate(predictions, baselines=["copy"])
    assert result.metrics["counts"]["skipped_extrema_average"] == 1
    own = as_table(SCHEMAS["scores"], result.scores).to_pandas()
    own = own[(own["system"] == "run") & (own["example_id"] == 11)].iloc[0]
    assert np.isnan(own["extrema"]) and np.isnan(own["average"]) and own["greedy"] == 0
    assert list(result.metrics["baselines"]) == ["copy"]


def test_further_samples_count_only_for_variety_within_items():
    plain, sampled = (evaluate(predictions_frame(samples)) for samples in (0, 2))
    assert "intra_distinct_1" not in plain.metrics["run"]
    assert 0 < sampled.metrics["run"].pop("intra_distinct_1") < 1
    assert 0 < sampled.metrics["run"].pop("intra_distinct_2") < 1
    assert sampled.metrics == plain.metrics
    pd.testing.assert_frame_equal(sampled.scores, plain.scores)


def test_predictions_of_another_model_are_refused():
    items = items_frame()
    with pytest.raises(InputError, match="example 13 was predicted but is no item.*generate_hcl again"):
        evaluate(items=items[items["example_id"] != 13])
    with pytest.raises(InputError, match="2 examples of test, and 1 of that split are missing"):
        evaluate(predictions_frame()[:2])
    with pytest.raises(InputError, match="`nearest` needs training items"):
        evaluate(items=items[items["split"] != "train"])
    with pytest.raises(InputError, match="`shuffled` needs at least two examples"):
        evaluate(predictions_frame()[:1], items[~items["example_id"].isin([12, 13])])


def strata_items():
    training = [("pan", "lid", "cat"), ("pan", "pan", None), ("pan", "oil", "cat"), ("<nokw>", "lid", None)]
    rows = [(number, "train", *keywords) for number, keywords in enumerate(training)]
    rows += [(number, "test", keyword, "new", "newer") for number, keyword in enumerate(
        ("pan", "lid", "cat", "dog", "new", "<nokw>", "oil"), 10)]
    return pd.DataFrame(rows, columns=["example_id", "split", "keyword", "target_keyword", "negative_keyword"])


def test_columns_count_training_items_alone():
    wanted = pd.Series([16, 10, 11, 12, 13, 14, 15])
    found = keyword_columns(strata_items(), wanted)
    assert found["cluster"].tolist() == [0, 3, 0, 0, 0, 0, 0]      # <nokw> forms none
    assert found["known"].tolist() == [True, True, True, True, False, False, True]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder with a tiny encoder, one model's items and one run's predictions."""
    monkeypatch.chdir(tmp_path)
    tiny_bert.save_encoder(tmp_path / "encoder")
    write_params(tmp_path)
    write_table(ModelPaths("model-a", 13).items, SCHEMAS["items"], items_frame(), Provenance("train_hcl@model-a", "0"))
    write_table(RunPaths("run-a", 13).generated("likelihoods"), SCHEMAS["likelihoods"], likelihoods_frame(),
                Provenance("generate_hcl@run-a", "0"))
    write_table(RunPaths("run-a", 13).predictions, SCHEMAS["predictions"], predictions_frame(),
                Provenance("generate_hcl@run-a", "0"))
    return tmp_path


def write_params(folder, **settings):
    (folder / "params.yaml").write_text(yaml.safe_dump({
        "evaluation": {"bertscore": {"encoder": "path", "path": "encoder"}, "resamples": 50, **settings},
        "recipe": "tiny", "encoder": {"source": "path", "path": "encoder"},
        "datasets": {"tiny": {"source": "data/tiny.tsv"}},
        **{name: {"datasets": ["tiny"]} for name in ("keywords", "graph", "node_vectors")},
        "models": {"hcl": {"model-a": {"dataset": "tiny"}}}, "runs": {"hcl": {"run-a": {"model": "model-a"}}}}))


def test_stage_writes_metrics_and_scores_with_the_same_bytes(project):
    assert main(["run-a"]) == 0
    paths = RunPaths("run-a", 13)
    first = paths.metrics.read_bytes(), paths.scores.read_bytes()
    metrics = json.loads(first[0])
    assert metrics["settings"]["model"] == "model-a"
    assert metrics["settings"]["emb"]["name"] == "encoder" and len(metrics["settings"]["emb"]["sha256"]) == 64
    values = [*metrics["run"].values(), *metrics["baselines"]["copy"].values()]
    assert all(value == round(value, 6) for value in values)
    assert metrics["run"]["average"] > 0 and 0 < metrics["run"]["bertscore"] < 1
    assert metrics["settings"]["bertscore"] == {**metrics["settings"]["bertscore"], "name": "encoder", "layer": 2,
                                                "idf": False, "baseline": None}
    assert metrics["settings"]["leading"] == ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    assert (metrics["settings"]["seed"], metrics["settings"]["resamples"]) == (13, 50)
    scores = read_frame(paths.scores, SCHEMAS["scores"])
    assert len(scores) == 15 and scores["bertscore"].notna().all()
    metadata = read_metadata(paths.scores)
    assert metadata["counts"]["examples"] == 3
    assert metadata["precision"] == computed_in("fp32", False)
    assert metadata["models"]["word_vectors"]["origin"].startswith("static word-piece table")
    assert main(["run-a"]) == 0
    assert (paths.metrics.read_bytes(), paths.scores.read_bytes()) == first


def test_vectors_are_trained_on_the_texts_of_the_training_split_alone():
    items = pd.DataFrame({"split": ["train", "train", "test"], "source": ["a red fox", "a fox", "an owl"],
                          "references": [["red fox"], ["the fox"], ["owls"]], "negatives": [[], [], []],
                          "keyword": ["red", "fox", "owl"]})
    asked = SimpleNamespace(evaluation=SimpleNamespace(emb="train"), seed=1)
    assert word_vectors(asked, items, items, str)[1]["texts"] == 4    # no keyword is a text


def test_stage_takes_vectors_from_a_file_or_the_training_split_and_may_leave_bertscore_out(project):
    (project / "vectors.txt").write_text("how 1 0\nfat 0 1\nlose 1 1\n")
    write_params(project, emb="path", emb_path="vectors.txt", bertscore={"encoder": None})
    assert main(["run-a"]) == 0
    metrics = json.loads(RunPaths("run-a", 13).metrics.read_text())
    assert metrics["settings"]["emb"]["origin"] == "file" and metrics["settings"]["emb"]["size"] == 2
    assert metrics["settings"]["bertscore"] is None and "bertscore" not in metrics["run"]
    write_params(project, emb="train", bertscore={"encoder": None})
    assert main(["run-a"]) == 0
    metrics = json.loads(RunPaths("run-a", 13).metrics.read_text())
    assert metrics["settings"]["emb"]["origin"] == "trained on the training split"
    assert metrics["settings"]["emb"]["size"] == 200
