"""The recipes of the CLLD track: which rows they have, that these differ in the contrast alone, and their size."""

import pytest
from source_imports import ROOT

from pipeline.recipes import read_recipe
from stages.tracks.clld.tables import source_of

ALL = ("trec6", "mr", "r8", "r52", "20ng")
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
