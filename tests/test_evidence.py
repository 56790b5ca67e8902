"""What is kept of trainings, and rows set against each other from it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from report_artifacts import ITEMS, KEYWORDS, TEXTS, provenance, write_project

from benchmarks.evidence import Kept, differences, keep, kept_file, main, monitors, pending, read_kept, table
from benchmarks.kept_items import _PGKPR, KEPT_ITEMS, _clld, _clld_statistics, _pgkpr, _pgkpr_statistics
from pipeline.schemas import SCHEMAS
from stages.common.paths import ModelPaths
from stages.common.tables import write_table
from stages.metrics import bleu, ibleu
from stages.run.errors import InputError


def kept(row, seed, values, cluster=0, known=False):
    items = pd.DataFrame({"example_id": range(len(values)), "cluster": cluster, "known": known,
                          **{metric: np.asarray(values, dtype=np.float32) for metric in KEPT_ITEMS["hcl"].shown}})
    return Kept(row, seed, items, {})


def test_a_difference_between_seeds_widens_the_interval_over_both_alone():
    """All texts agree, so that texts tell nothing; the seeds disagree about the sign."""
    first = [kept("a", 13, [0.5] * 40), kept("a", 14, [0.1] * 40)]
    second = [kept("b", 13, [0.3] * 40), kept("b", 14, [0.3] * 40)]
    found = differences(first, second, "bleu_1", "all")
    assert found["difference"] == pytest.approx(0.0, abs=1e-6)
    assert found["low"] == pytest.approx(found["high"], abs=1e-6)
    widest = 0.2 * 2**0.5   # two of two seeds drawn spread half as far as they should
    assert (found["low_seeds"], found["high_seeds"]) == pytest.approx((-widest, widest), abs=1e-6)
    assert found["p_seeds"] == pytest.approx(1.0, abs=1e-4)


def test_seeds_are_paired_so_that_what_they_share_is_no_difference():
    first = [kept("a", seed, np.full(20, seed / 10)) for seed in (1, 2, 3)]
    second = [kept("b", seed, np.full(20, seed / 10 - 0.05)) for seed in (1, 2, 3)]
    found = differences(first, second, "bleu_4", "all")
    assert found["low_seeds"] == pytest.approx(0.05, abs=1e-6) and found["high_seeds"] == pytest.approx(0.05, abs=1e-6)


def test_the_interval_over_texts_is_that_of_a_mean():
    values = np.random.default_rng(1).normal(0.1, 1.0, size=400)
    found = differences([kept("a", 1, values)], [kept("b", 1, np.zeros(400))], "bleu_1", "all", resamples=4000)
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_items_without_a_value_and_of_other_strata_take_no_part():
    first = kept("a", 1, [1.0, np.nan, 0.5, 0.0], cluster=[3, 3, 2, 0], known=[True, True, True, False])
    second = kept("b", 1, [0.0, 0.0, 0.0, 0.0], cluster=[3, 3, 2, 0], known=[True, True, True, False])
    found = {stratum: differences([first], [second], "bleu_1", stratum) for stratum in ("cluster of 3", "unseen")}
    assert found["cluster of 3"]["items"] == 1 and found["cluster of 3"]["difference"] == 1.0
    assert found["unseen"]["items"] == 1 and found["unseen"]["difference"] == 0.0


def test_seeds_scored_on_other_items_are_an_error():
    one, other = kept("a", 1, [1.0, 0.0]), kept("a", 2, [1.0, 0.0, 0.5])
    with pytest.raises(InputError, match="other items than those of the first row"):
        differences([one, other], [one, other], "bleu_1", "all")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project()
    items = pd.DataFrame({
        "example_id": range(6 + ITEMS), "split": ["train"] * 6 + ["test"] * ITEMS, "source": TEXTS[0],
        "target": TEXTS[1], "negatives": [[]] * (6 + ITEMS),
        "keyword": ["belly fat"] * 3 + ["author"] * 3 + ["belly fat", "elsewhere"] * (ITEMS // 2),
        "target_keyword": KEYWORDS[1], "negative_keyword": None, "references": [[TEXTS[1]]] * (6 + ITEMS)})
    for name, seed in (("full", 13), ("plain", 99)):
        write_table(ModelPaths(name, seed).items, SCHEMAS["items"], items, provenance("train_hcl"))
    params = yaml.safe_load(Path("params.yaml").read_text())
    for model in params["models"]["hcl"].values():
        model.setdefault("seeds", [13])
        model.setdefault("overrides", {})
        model.setdefault("init_from", None)
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return tmp_path


def test_what_is_kept_holds_figures_and_no_text(project):
    assert pending("tiny-recipe") == {"full": [13], "plain": [99]}
    path = keep("tiny-recipe", "full", 13)
    assert path == kept_file("tiny-recipe", "full", 13)
    assert pending("tiny-recipe") == {"plain": [99]}
    (found,) = read_kept("tiny-recipe", "full")
    assert found.items["bleu_1"].tolist() == [0.25] * ITEMS
    assert found.items["cluster"].tolist() == [3, 0] * (ITEMS // 2)
    assert found.items["known"].tolist() == [True, False] * (ITEMS // 2)
    assert [line["epoch"] for line in found.facts["history"]] == [1, 2, 3]
    assert "belly" not in json.dumps(found.facts)
    assert {kind.kind for kind in found.items.dtypes} <= {"i", "f", "b"}


def test_tables_are_made_from_what_is_kept_alone(project, capsys):
    keep("tiny-recipe", "full", 13), keep("tiny-recipe", "plain", 99)
    lines = table("tiny-recipe", ["full", "plain"], ["bleu_1"], ["all", "known"])
    assert len(lines) == 4 and "+0.0500" in lines[2] and "one seed" in lines[2]
    assert "2/3" in monitors("tiny-recipe", ["full"], ["validation_loss"])[2]
    assert main(["table", "tiny-recipe", "full", "plainn"]) == 1
    assert "plain" in capsys.readouterr().err


def test_bleu_of_the_corpus_follows_from_what_is_kept_of_its_items():
    texts = ["how do i lose belly fat ?", "who wrote it", "where is the exit of this house please"]
    references = [["how can i lose belly fat ?"], ["who has written it ?", "whose is it"], ["where is the exit"]]
    sources = ["how to lose belly fat", "who wrote this", "where is it"]
    scores = pd.DataFrame({"example_id": [1, 2, 3], "output": texts, "released_output": texts,
                           "released_references": references, **dict.fromkeys(_PGKPR, 0.5)})
    predictions = pd.DataFrame({"example_id": [3, 1, 2], "sample": 0, "source": [sources[at] for at in (2, 0, 1)],
                                "references": [references[at] for at in (2, 0, 1)]})
    found = _pgkpr_statistics(_pgkpr(scores, predictions))
    words = [text.split() for text in texts]
    against = [[text.split() for text in item] for item in references]
    assert found["corpus_bleu_2"].value() == pytest.approx(bleu(words, against, "corpus")[1])
    assert found["ibleu"].value() == pytest.approx(ibleu(words, against, [one.split() for one in sources]))
    assert found["released_bleu_4"].value() == pytest.approx(bleu(words, against, "corpus")[3])


def test_macro_f1_follows_from_the_classes_that_are_kept_by_number():
    said = pd.DataFrame({"example_id": range(4), "label": ["a", "b", "b", "c"], "predicted": ["a", "b", "a", "c"],
                         "probability": 0.9, "nll": 0.1, "brier": 0.1})
    kept = _clld(said)
    assert kept["label"].tolist() == [0, 1, 1, 2]
    assert _clld_statistics(kept)["macro_f1"].value() == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_how_often_two_classes_are_confused_counts_both_ways_and_no_other_class():
    items = pd.DataFrame({"label": [0, 0, 1, 2, 2], "predicted": [1, 0, 0, 1, 2], "probability": 1.0, "nll": 0.0,
                          "brier": 0.0})
    found = _clld_statistics(items)
    assert [found[f"confused_{pair}"].value() for pair in ("0_1", "0_2", "1_2")] == pytest.approx([0.4, 0.0, 0.2])


def test_another_recipe_and_an_unknown_run_are_errors(project):
    with pytest.raises(InputError, match="tiny-recipe"):
        pending("other")
    with pytest.raises(InputError, match="'ful' is no run"):
        pending("tiny-recipe", ["ful"])
