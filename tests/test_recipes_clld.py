"""The recipes of the CLLD track: which rows they have, that these differ in the contrast alone, and their size."""

import pytest
from source_imports import ROOT

from pipeline.recipes import read_recipe
from stages.common.settings import earlier_model
from stages.tracks.clld.tables import source_of

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
