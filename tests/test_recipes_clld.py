"""The recipes of the CLLD track: which rows they have, that these differ in the contrast alone, and their size."""

import pytest
from source_imports import ROOT

from pipeline.recipes import read_recipe
from stages.common.settings import earlier_model
from stages.tracks.clld.track import source_of

ALL = ("trec6", "mr", "r8", "r52", "20ng")
CASES = [(name, dataset) for name, datasets in {"paper-clld": ALL, "cpu-clld-textcnn": ALL,
                                                "cpu-clld-minilm": ALL[:3]}.items() for dataset in datasets]
ROWS = ["none", "uniform", "static_tau_pairs", "adaptive"]


def params_of(name, dataset, changes=()):
    return read_recipe(name, data="/data", folder=ROOT / "recipes", changes=[f"dataset={dataset}", *changes])


def rows_of(params):
    """Contrasts and seeds of each encoder."""
    found = {}
    for name, model in params.models.clld.items():
        cell = found.setdefault(source_of(params, name), {})
        for seed in model.seeds:
            cell.setdefault(seed, []).append(model.contrast)
    return found


@pytest.mark.parametrize("dataset", ALL)
def test_every_data_set_has_the_papers_settings(dataset):
    params = params_of("paper-clld", dataset)
    training = params.train_clld.training
    assert (training.epochs, training.patience, training.batch_size, training.micro_batch) == (50, 10, 128, 128)
    assert training.schedule == "constant"
    assert params.train_clld.max_length == 128 and not any(model.overrides for model in params.models.clld.values())
    seeds = (13, 14, 15)
    assert rows_of(params) == {"hub:bert-base-uncased": dict.fromkeys(seeds, [*ROWS, "supcl_seq", "simcse"]),
                               "hub:albert-base-v2": dict.fromkeys(seeds, ROWS),
                               "textcnn": dict.fromkeys(seeds, ROWS)}


def test_trainings_to_the_end_have_their_control_and_seeds_for_small_differences():
    for dataset, count in zip(ALL, (30, 14, 8, 8, 4), strict=True):
        params = params_of("cpu-clld-textcnn", dataset)
        rows = ["none", "none", "uniform", "uniform", "static_tau_pairs", "adaptive"]
        assert rows_of(params) == {"textcnn": dict.fromkeys(range(13, 13 + count), rows)}
        training = params.train_clld.training
        assert (training.precision, training.epochs, training.patience) == ("fp32", 30, 5)
        assert params.model("ct-two").ce_views == "both" and params.model("ct").ce_views == "first"
        assert params.model("ct-cl-sharp").contrast.temperature == 0.05


def test_ten_seeds_of_the_bundled_encoder_have_their_control():
    params = params_of("cpu-clld-minilm", "trec6")
    rows = ["none", "none", "uniform", "static_tau_pairs", "adaptive", "none", "none", "uniform"]
    assert rows_of(params) == {"bundled": dict.fromkeys(range(13, 23), rows)}
    assert params.model("ct-two").ce_views == "both" and params.model("ct-constant").training.schedule == "constant"
    bucketed = {name for name in params.models.clld if params.model(name).training.bucket}
    assert bucketed == {"ct-bucketed", "ct-cl-bucketed"}
    for dataset in ("mr", "r8"):
        assert rows_of(params_of("cpu-clld-minilm", dataset)) == {"bundled": {13: rows}}


@pytest.mark.parametrize(("name", "dataset"), CASES)
def test_rows_differ_in_their_contrast_alone(name, dataset):
    params = params_of(name, dataset)
    models = params.models.clld
    for row, model in models.items():
        if model.contrast != "static_tau_pairs":
            continue
        if dataset == "20ng":
            assert len(model.pairs) == 5 and ["comp.*"] in model.pairs
            continue
        plain, earlier = models[earlier_model(model)], params.plain()["models"]["clld"][row]["earlier_seeds"]
        assert (plain.dataset, plain.encoder, plain.seeds, plain.overrides) == (
            model.dataset, model.encoder, earlier, model.overrides)
    assert {model.dataset for model in models.values()} == {*params.datasets} == {dataset}
    ingest = params.ingest_settings(dataset)
    assert (ingest.validation, ingest.labelled_copies) == (0.1, "keep")
    assert params.datasets[dataset].splits == {"train": ["train.parquet"], "test": ["test.parquet"]}


@pytest.mark.parametrize(("name", "dataset"), CASES)
def test_every_model_is_evaluated_and_dvc_can_bear_them(name, dataset):
    params = params_of(name, dataset)
    assert {run.model for run in params.runs.clld.values()} == set(params.models.clld)
    assert {run.split for run in params.runs.clld.values()} == {"test"}
    runs = len(params.runs.clld)
    # ingest, manifest and linear floor of a data set; compare and report
    instances = 3 * len(params.datasets) + len(params.models.clld) + len(params.confusing_pairs.models) + runs + 2
    assert runs <= 30 and instances <= 90 and not params.keywords.datasets
