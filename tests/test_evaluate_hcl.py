"""The stage evaluate_hcl: scores of a run and of its floors."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.tables import Provenance, as_table, read_frame, read_metadata, write_table
from stages.evaluate_hcl import main, rounded, run
from stages.metrics import bleu, distinct, ibleu, source_bleu
from stages.runtime.errors import InputError

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


def items_frame():
    rows = [(number, "train", source, "k", [target]) for number, source, target in TRAIN]
    rows += [(number, "test", source, "k", references) for number, source, references, _ in TEST]
    rows += [(20, "validation", "an unused question", "k", ["another one"])]
    return pd.DataFrame(rows, columns=["example_id", "split", "source", "keyword", "references"])


def predictions_frame(samples=0):
    rows = [(number, sample, source, "k", True, output if sample == 0 else f"{output} {sample} more", references)
            for number, source, references, output in TEST for sample in range(samples + 1)]
    return pd.DataFrame(rows, columns=["example_id", "sample", "source", "keyword", "keyword_known", "prediction",
                                       "references"])


def test_every_metric_is_the_one_of_the_metrics_package():
    metrics = run(predictions_frame(), items_frame(), Vectors()).metrics
    outputs = [output for *_, output in TEST]
    sources = [source for _, source, *_ in TEST]
    references = [texts for _, _, texts, _ in TEST]
    found = metrics["run"]
    for style, prefix in (("individual_m7", "bleu"), ("cumulative_m7", "cumulative_m7"), ("corpus", "corpus_bleu")):
        assert [found[f"{prefix}_{order}"] for order in range(1, 5)] == list(bleu(outputs, references, style))
    assert found["sacrebleu"] == bleu(outputs, references, "sacrebleu")[3]
    assert found["distinct_1"] == distinct(outputs, 1) and found["distinct_2"] == distinct(outputs, 2)
    assert found["source_bleu"] == source_bleu(outputs, sources)
    assert found["ibleu"] == pytest.approx(ibleu(outputs, references, sources, 0.8))
    assert found["mean_length"] == (4 + 6 + 0) / 3
    assert metrics["settings"]["split"] == "test" and metrics["settings"]["ibleu_alpha"] == 0.8
    assert "case:lc" in metrics["settings"]["sacrebleu"]


def test_floors_copy_the_source_and_the_nearest_training_target():
    result = run(predictions_frame(), items_frame(), Vectors())
    outputs = result.scores.pivot(index="example_id", columns="system", values="output")
    assert outputs["copy"].tolist() == [source for _, source, *_ in TEST]
    # 11: examples 1 and 3 share one source, the smaller number wins; 13 shares no word with any.
    assert outputs["nearest"].tolist() == [TRAIN[0][2], TRAIN[1][2], TRAIN[0][2]]
    assert result.metrics["floors"]["copy"]["source_bleu"] == pytest.approx(1)
    assert result.metrics["floors"]["copy"]["mean_length"] == (8 + 5 + 4) / 3
    assert result.metrics["counts"] == {"examples": 3, "empty_outputs": 1, "skipped_extrema_average": 0,
                                        "training_items": 4, "nearest_without_shared_word": 1}


def test_nearest_floor_breaks_ties_by_example_id_whatever_the_row_order():
    items = items_frame()
    one = run(predictions_frame(), items, Vectors())
    other = run(predictions_frame()[::-1], items[::-1], Vectors())
    pd.testing.assert_frame_equal(one.scores, other.scores)
    assert one.metrics == other.metrics


def test_scores_fit_their_schema_and_hold_what_the_means_are_made_of():
    result = run(predictions_frame(), items_frame(), Vectors())
    table = as_table("scores", result.scores).to_pandas()
    assert sorted(set(table["system"])) == ["copy", "nearest", "run"]
    own = table[table["system"] == "run"]
    for name in ("bleu_1", "bleu_4", "extrema", "average", "greedy"):
        assert own[name].mean() == pytest.approx(result.metrics["run"][name])


def test_a_reference_without_known_words_is_skipped_and_counted():
    predictions = predictions_frame()
    predictions.at[0, "references"] = ["?"]
    result = run(predictions, items_frame(), Vectors(), floors=["copy"])
    assert result.metrics["counts"]["skipped_extrema_average"] == 1
    own = as_table("scores", result.scores).to_pandas()
    own = own[(own["system"] == "run") & (own["example_id"] == 11)].iloc[0]
    assert np.isnan(own["extrema"]) and np.isnan(own["average"]) and own["greedy"] == 0
    assert list(result.metrics["floors"]) == ["copy"]


def test_further_samples_count_only_for_variety_within_items():
    plain, sampled = (run(predictions_frame(samples), items_frame(), Vectors()) for samples in (0, 2))
    assert "intra_distinct_1" not in plain.metrics["run"]
    assert 0 < sampled.metrics["run"].pop("intra_distinct_1") < 1
    assert 0 < sampled.metrics["run"].pop("intra_distinct_2") < 1
    assert sampled.metrics == plain.metrics
    pd.testing.assert_frame_equal(sampled.scores, plain.scores)


def test_predictions_of_another_model_are_refused():
    items = items_frame()
    with pytest.raises(InputError, match="example 13 was predicted but is no item.*generate_hcl again"):
        run(predictions_frame(), items[items["example_id"] != 13], Vectors())
    with pytest.raises(InputError, match="2 examples of test, and 1 of that split are missing"):
        run(predictions_frame()[:2], items, Vectors())
    with pytest.raises(InputError, match="no predictions to score.*generate_hcl.split"):
        run(predictions_frame()[:0], items, Vectors())
    with pytest.raises(InputError, match="`nearest` needs training items"):
        run(predictions_frame(), items[items["split"] != "train"], Vectors())


def test_floats_are_rounded_at_any_depth():
    assert rounded({"a": {"b": 1 / 3}, "n": 2, "s": "x"}) == {"a": {"b": 0.333333}, "n": 2, "s": "x"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder with a tiny encoder, one model's items and one run's predictions."""
    from transformers import BertConfig, BertModel, BertTokenizer

    monkeypatch.chdir(tmp_path)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *letters, *(f"##{one}" for one in letters)]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizer(vocab={word: place for place, word in enumerate(vocabulary)})
    tokenizer.save_pretrained("encoder")
    BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=16)).save_pretrained("encoder")
    write_params(tmp_path)
    write_table(ModelPaths("model-a").items, "items", items_frame(), Provenance("train_hcl@model-a", "0"))
    write_table(RunPaths("run-a").predictions, "predictions", predictions_frame(),
                Provenance("generate_hcl@run-a", "0"))
    return tmp_path


def write_params(folder):
    (folder / "params.yaml").write_text(yaml.safe_dump({
        "recipe": "tiny", "encoder": {"source": "path:encoder"},
        "datasets": {"tiny": {"source": "data/tiny.tsv"}},
        "models": {"hcl": {"model-a": {"dataset": "tiny"}}}, "runs": {"hcl": {"run-a": {"model": "model-a"}}}}))


def test_stage_writes_metrics_and_scores_with_the_same_bytes(project):
    assert main(["run-a"]) == 0
    paths = RunPaths("run-a")
    first = paths.metrics.read_bytes(), paths.scores.read_bytes()
    metrics = json.loads(first[0])
    assert metrics["settings"]["bleu_style"] == "individual_m7" and metrics["settings"]["model"] == "model-a"
    assert metrics["settings"]["emb"]["name"] == "encoder" and len(metrics["settings"]["emb"]["sha256"]) == 64
    values = [*metrics["run"].values(), *metrics["floors"]["copy"].values()]
    assert all(value == round(value, 6) for value in values)
    assert metrics["run"]["average"] > 0
    assert len(read_frame(paths.scores, "scores")) == 9
    assert read_metadata(paths.scores)["counts"]["examples"] == 3
    assert main(["run-a"]) == 0
    assert (paths.metrics.read_bytes(), paths.scores.read_bytes()) == first


def test_stage_names_the_missing_predictions(project, capsys):
    RunPaths("run-a").predictions.unlink()
    assert main(["run-a"]) == 1
    assert "artifacts/runs/run-a/predictions.parquet: no such artifact" in capsys.readouterr().err
    assert not RunPaths("run-a").metrics.exists()


def test_help_says_what_the_stage_makes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "Score the outputs of an HCL run" in text and "python -m stages.evaluate_hcl run" in text


def test_module_imports_only_what_a_training_machine_has():
    probe = ("import sys, stages.evaluate_hcl; print([name for name in "
             "('nltk', 'sacrebleu', 'sklearn', 'spacy', 'pydantic', 'networkx', 'matplotlib') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
