"""`sizes: auto`: what fits which machine and data set, what a recipe spells out, and what `use` says and writes."""

import csv
from types import SimpleNamespace

import pytest
import yaml
from source_imports import ROOT

from pipeline import recipes
from pipeline.recipes import plan, read_recipe
from pipeline.sizing import extent, machine
from pipeline.sizing.extent import extent_of
from pipeline.sizing.machine import Machine
from pipeline.sizing.sizes import fitting_sizes, kind_of, sized_datasets
from stages.common.settings import laid_over
from stages.params import Params, parse_params
from stages.run.errors import InputError
from stages.tracks.clld import cost as clld
from stages.tracks.common.cost import Extent
from stages.tracks.hcl import cost as hcl
from stages.tracks.pgkpr import cost as pgkpr

SMALL, MANY, GPU, LARGE = Machine(2, 24), Machine(16, 64), Machine(16, 64, 24), Machine(32, 256, 80)
MACHINES = {"few cores": SMALL, "many cores": MANY, "GPU": GPU, "large GPU": LARGE}
BUDGETS = {"hcl": hcl.BUDGET, "pgkpr": pgkpr.BUDGET, "clld": clld.BUDGET}
QUESTIONS = Extent(1640, 91, 91, 17, 18, 11.2)
MODELS = {"hcl": {"hcl": {"dataset": "pairs"}}, "pgkpr": {"pgkpr": {"dataset": "pairs"}},
          "clld": {"ct": {"dataset": "classes"}}}
RECIPE = {"recipe": "mine", "datasets": {
    "pairs": {"source": "pairs.csv", "columns": {"source": "a", "target": "b", "label": "same"}},
    "classes": {"source": "x.csv", "layout": "labelled", "columns": {"label": "label"}, "keywords": False}},
    "models": MODELS, "ingest": {"neg_source": "retrieved"}}


def fitted(on, extent=QUESTIONS, **changes):
    """Params of all tracks with the sizes that fit machine ``on``."""
    content = laid_over(RECIPE, changes)
    params = parse_params(content, "recipe")
    return parse_params(laid_over(fitting_sizes(params, dict.fromkeys(params.datasets, extent), on), content), "recipe")


@pytest.mark.parametrize(("kind", "on"), MACHINES.items())
def test_machines_are_told_apart(kind, on):
    assert kind_of(on) == kind


@pytest.mark.parametrize("track", ["hcl", "pgkpr", "clld"])
@pytest.mark.parametrize("on", [SMALL, MANY])
def test_trainings_on_a_cpu_keep_to_their_budget_and_take_enough_steps(track, on):
    for items in (400, 1640, 30_000):
        params = fitted(on, Extent(items, 90, 90, 17, 18, 11.0))
        training, passes = getattr(params, f"train_{track}").training, 2 if track == "pgkpr" else 1
        seen, most = items * passes * training.epochs, BUDGETS[track].items[kind_of(on)]
        assert training.epochs in (1, BUDGETS[track].epochs) or most / 2 < seen <= most
        assert training.batch_size == BUDGETS[track].batch[0] or seen >= 500 * training.batch_size


def test_more_machine_is_never_less_model():
    found = [fitted(on) for on in MACHINES.values()]
    layers = [params.train_hcl.decoder.layers for params in found]
    assert layers == [2, 4, 6, 6]
    assert [params.train_hcl.training.freeze_layers for params in found] == [4, 2, 0, 0]
    assert [params.train_pgkpr.sizes.width for params in found] == [128, 256, 512, 512]
    for track in ("hcl", "pgkpr", "clld"):
        epochs = [getattr(params, f"train_{track}").training.epochs for params in found]
        assert epochs == sorted(epochs) and epochs[0] < epochs[-1] == BUDGETS[track].epochs


def test_a_large_gpu_with_much_data_has_the_sizes_of_the_papers():
    paper, found = parse_params(RECIPE, "recipe"), fitted(LARGE, Extent(140_000, 5000, 5000, 17, 18, 11.0))
    assert found.train_hcl.decoder == paper.train_hcl.decoder and found.train_pgkpr.sizes == paper.train_pgkpr.sizes
    for track in ("hcl", "pgkpr", "clld"):
        ours, theirs = (getattr(one, f"train_{track}").training for one in (found, paper))
        assert (ours.epochs, ours.batch_size, ours.learning_rate) == (theirs.epochs, theirs.batch_size,
                                                                      theirs.learning_rate)
    assert found.s_tagger == paper.s_tagger and found.pair_classifier.epochs == paper.pair_classifier.epochs


def test_texts_are_read_as_long_as_they_are_and_the_machine_bears():
    short, long = (fitted(SMALL, Extent(1640, 90, 90, words, words, 9.0)) for words in (6, 300))
    assert short.train_hcl.training.max_source == 8 and short.generate_hcl.max_length == 8
    assert long.train_hcl.training.max_source == long.train_hcl.training.max_target == 32
    assert long.train_clld.max_length == 34 and long.paraphrase_items.max_length == 32
    assert fitted(LARGE, Extent(1640, 90, 90, 300, 300, 200.0)).train_hcl.training.max_source == 126


def test_threads_are_shared_by_what_runs_side_by_side():
    assert fitted(SMALL).runtime.threads == 1 and fitted(MANY).runtime.threads == 8
    assert fitted(Machine(1, 4)).runtime.threads == 1 and fitted(Machine(64, 256)).runtime.threads == 8
    assert fitted(SMALL).runtime.workers == 2 and fitted(LARGE).runtime.threads == 4


def test_only_encoders_whose_depth_is_known_are_frozen(tmp_path):
    assert fitted(SMALL, encoder={"source": "hub:someone/encoder"}).train_hcl.training.freeze_layers == 0
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 3}')
    assert fitted(SMALL, encoder={"source": f"path:{tmp_path}"}).pair_classifier.freeze_layers == 2


def test_what_a_recipe_spells_out_wins(monkeypatch, tmp_path):
    write_pairs(tmp_path)
    monkeypatch.setattr(recipes, "this_machine", lambda device: SMALL)
    spelt = recipe(tmp_path, train_hcl={"training": {"epochs": 3}}, runtime={"threads": 1})
    change = plan("mine", root=tmp_path)
    assert change.params.train_hcl.training.epochs == 3 and change.params.runtime.threads == 1
    assert change.params.train_hcl.decoder.layers == 2 and change.params.sizes == "auto"
    said = "\n".join(change.sizes)
    assert "few cores (2 cores, 24 GiB, no GPU)" in said and "about 162 training items of pairs" in said
    assert "decoder.layers 2" in said and "epochs" not in said and "threads" not in said
    (tmp_path / "recipes" / "mine.yaml").write_text(yaml.safe_dump({**spelt, "sizes": "paper"}))
    paper = plan("mine", root=tmp_path)
    assert paper.params.train_hcl.decoder.layers == 6 and paper.sizes == []
    assert plan("mine", root=tmp_path, changes=["sizes=auto"]).params.train_hcl == change.params.train_hcl


def test_a_recipe_without_models_reads_no_data(monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "this_machine", lambda device: MANY)
    recipe(tmp_path, models={"hcl": {}})
    assert plan("mine", root=tmp_path).params.runtime.workers == 8
    recipe(tmp_path)
    with pytest.raises(InputError, match=r"(?s)pairs.csv: no such file.*or write `sizes: paper`"):
        plan("mine", root=tmp_path)


def test_shipped_recipes_are_the_same_on_every_machine():
    for name in recipes.recipe_names(ROOT / "recipes"):
        assert read_recipe(name, "{data}", ROOT / "recipes").sizes == "paper", name


# The extent of a data set

def recipe(folder, **changes):
    content = {**RECIPE, "models": {"hcl": MODELS["hcl"]}, **changes}
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / "mine.yaml").write_text(yaml.safe_dump(content))
    return content


def write_pairs(folder, count=200):
    with (folder / "pairs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "same"])
        for number in range(count):
            rows.writerow([f"source number {number} of ten", f"target {number}", "1" if number % 10 else "0"])
        rows.writerow(["", "nothing", "1"])


def test_the_extent_counts_what_becomes_an_item(tmp_path):
    write_pairs(tmp_path)
    params = parse_params(RECIPE, "recipe")
    assert extent_of(params, "pairs", tmp_path) == Extent(162, 9, 9, 5, 2, 5.0)
    limited = parse_params({**RECIPE, "ingest": {"max_train": 50, "neg_source": "retrieved"}}, "recipe")
    assert extent_of(limited, "pairs", tmp_path).train == 50


def test_beyond_the_first_rows_files_are_measured(tmp_path, monkeypatch):
    write_pairs(tmp_path, 3000)
    params = parse_params(RECIPE, "recipe")
    whole = extent_of(params, "pairs", tmp_path)
    monkeypatch.setattr(extent, "LOOKED_AT", 300)
    assert whole.train == 2430 and extent_of(params, "pairs", tmp_path).train == pytest.approx(2430, rel=0.15)


def test_captions_are_counted_by_group_and_classes_by_text(tmp_path):
    rows = [f'{{"text": "a dog runs {n}", "group": "g{n // 5}"}}\n' for n in range(100)]
    (tmp_path / "c.jsonl").write_text("".join(rows))
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(f"one two {n},c{n % 2}\n" for n in range(40)))
    content = {**RECIPE, "models": {}, "datasets": {**RECIPE["datasets"], "c": {"source": "c.jsonl",
                                                                              "layout": "captions"}}}
    params = parse_params(content, "recipe")
    assert extent_of(params, "c", tmp_path).items == 20
    assert extent_of(params, "classes", tmp_path).items == 40


def test_tracks_without_models_have_no_say():
    params = parse_params({**RECIPE, "models": {"clld": MODELS["clld"]}}, "recipe")
    assert sized_datasets(params) == {"clld": ["classes"]}
    found = fitting_sizes(params, {"classes": QUESTIONS}, SMALL)
    assert set(found) == {"runtime", "train_clld", "linear_floor"} and isinstance(params, Params)


def no_tool(*_, **__):
    raise FileNotFoundError("nvidia-smi")


@pytest.mark.parametrize(("listing", "available", "gib"), [
    ("24576\n81920\n", True, 24.0), ("81920\n", False, 0.0), ("", True, 0.0)])
def test_the_smallest_gpu_that_torch_can_use_counts(monkeypatch, listing, available, gib):
    import torch

    monkeypatch.setattr(machine, "visible_gpus", lambda device: [] if device == "cpu" else ["0", "1"])
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listing))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert machine.this_machine("auto").gpu_gib == gib and machine.this_machine("cpu").gpu_gib == 0
    monkeypatch.setattr(machine.subprocess, "run", no_tool)
    assert machine.this_machine("auto").gpu_gib == 0
    assert machine.this_machine("cpu").cores >= 1 and machine.this_machine("cpu").memory_gib > 0
