"""The recipes of the CLLD track: which rows they have, that these differ in the contrast alone, and their size."""

import pytest
from source_imports import ROOT

from models.clld import NEWSGROUPS
from pipeline.recipes import read_recipe, recipe_names
from stages.tracks.clld.rows import source_of

NAMES = [name for name in recipe_names(ROOT / "recipes") if "clld" in name]
DATASETS = ("20ng", "trec6", "r8", "r52", "mr")
ROWS = ["none", "uniform", "static_tau_pairs", "adaptive"]


def params_of(name, **options):
    return read_recipe(name, data="/data", folder=ROOT / "recipes", **options)


def rows_of(params):
    """Contrasts and seeds of each data set and encoder."""
    found = {}
    for name, model in params.models.clld.items():
        cell = found.setdefault((model.dataset, source_of(params, name)), {})
        for seed in model.seeds:
            cell.setdefault(seed, []).append(model.contrast)
    return found


def test_every_data_set_has_recipes_with_the_papers_settings():
    wanted = {f"paper-clld-{dataset}{more}" for dataset in DATASETS for more in ("", "-others")}
    assert wanted == {name for name in NAMES if name.startswith("paper")}
    for name in wanted:
        params = params_of(name)
        (dataset,) = params.datasets
        training = params.train_clld.training
        assert dataset == name.removeprefix("paper-clld-").removesuffix("-others")
        assert (training.epochs, training.patience, training.batch_size, training.micro_batch) == (50, 10, 128, 128)
        assert (training.schedule, training.warmup) == ("constant", None)  # none: see the test of rates
        assert params.train_clld.max_length == 128 and not any(model.overrides for model in params.models.clld.values())
        encoders = ["hub:albert-base-v2", "textcnn"] if name.endswith("others") else ["hub:bert-base-uncased"]
        further = [] if name.endswith("others") else ["supcl_seq", "simcse"]
        for encoder in encoders:
            assert rows_of(params)[dataset, encoder] == dict.fromkeys((13, 14, 15), ROWS + further)


def test_bert_may_be_another_encoder():
    params = params_of("paper-clld-mr", changes=["encoder.source=bundled"])
    assert {source_of(params, name) for name in params.models.clld} == {"bundled"}


def test_recipes_for_processors_have_the_rows_that_they_promise():
    seeds = {("cpu-clld-textcnn-sentences", "trec6"): 3, ("cpu-clld-textcnn-sentences", "mr"): 3,
             ("cpu-clld-textcnn-documents", "r8"): 3, ("cpu-clld-textcnn-documents", "r52"): 1,
             ("cpu-clld-textcnn-documents", "20ng"): 1}
    for (name, dataset), count in seeds.items():
        params = params_of(name)
        assert rows_of(params)[dataset, "textcnn"] == dict.fromkeys((13, 14, 15)[:count], ROWS)
        assert params.train_clld.training.epochs <= 4 and params.train_clld.max_length == 128
    params = params_of("cpu-clld-minilm")
    assert rows_of(params) == {("trec6", "bundled"): dict.fromkeys((13, 14, 15), ROWS),
                               ("mr", "bundled"): {13: ["none", "adaptive"]},
                               ("r8", "bundled"): {13: ["none", "adaptive"]}}


def test_trainings_to_the_end_have_their_control_and_seeds_for_small_differences():
    params = params_of("cpu-clld-converged")
    rows = ["none", "none", "uniform", "uniform", "static_tau_pairs", "adaptive"]
    assert rows_of(params) == {(dataset, "textcnn"): dict.fromkeys(range(13, 13 + count), rows) for dataset, count in
                               (("trec6", 30), ("mr", 14), ("r8", 8), ("r52", 8), ("20ng", 4))}
    training = params.train_clld.training
    assert (training.precision, training.epochs, training.patience) == ("fp32", 30, 5)
    assert params.model("r8-ct-two").ce_views == "both" and params.model("r8-ct").ce_views == "first"
    assert params.model("r8-ct-cl-sharp").contrast.temperature == 0.05


def test_ten_seeds_of_the_bundled_encoder_have_their_control():
    params = params_of("cpu-clld-minilm-seeds")
    rows = ["none", "none", "uniform", "adaptive", "none", "none", "uniform"]
    assert rows_of(params) == {("trec6", "bundled"): dict.fromkeys(range(13, 23), rows)}
    assert params.model("ct-two").ce_views == "both" and params.model("ct-constant").training.schedule == "constant"
    bucketed = {name for name in params.models.clld if params.model(name).training.bucket}
    assert bucketed == {"ct-bucketed", "ct-cl-bucketed"}


@pytest.mark.parametrize("name", NAMES)
def test_rows_differ_in_their_contrast_alone(name):
    params = params_of(name)
    models = params.models.clld
    for model in models.values():
        if model.contrast != "static_tau_pairs":
            continue
        if model.dataset == "20ng":
            assert [tuple(group) for group in model.pairs] == list(NEWSGROUPS)
            continue
        plain = models[model.pairs_of]
        assert (plain.dataset, plain.encoder, plain.seeds, plain.overrides) == (
            model.dataset, model.encoder, model.earlier_seeds, model.overrides)
    for dataset in params.datasets:
        ingest = params.ingest_settings(dataset)
        assert (ingest.validation, ingest.labelled_copies) == (0.1, "keep")
        assert params.datasets[dataset].splits == {"train": ["train.parquet"], "test": ["test.parquet"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_model_is_evaluated_and_dvc_can_bear_them(name):
    params = params_of(name)
    assert {run.model for run in params.runs.clld.values()} == set(params.models.clld)
    assert {run.split for run in params.runs.clld.values()} == {"test"}
    runs = len(params.runs.clld)
    # ingest, manifest and linear floor of a data set; compare and report
    instances = 3 * len(params.datasets) + len(params.models.clld) + len(params.consulted_models) + runs + 2
    assert runs <= 30 and instances <= 90 and not params.keyword_datasets
