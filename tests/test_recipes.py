"""`keycontrast use`: writing params, putting artifacts away and bringing them back."""


import pytest
import yaml
from small_project import RECIPES, dvc, lock, make_project, order
from source_imports import ROOT

from keycontrast.errors import InputError
from pipeline.recipes import apply, params_text, plan, recipe_names
from stages.common.settings import NOTHING, laid_over
from stages.common.yaml_files import read_yaml
from stages.graph.params import Graph
from stages.params import Params, load_params, parse_params
from stages.results.published import paper
from stages.results.tracks.hcl import HCL
from stages.tracks.hcl.params import TrainHcl


@pytest.fixture
def recipes(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name, text in RECIPES.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("name", recipe_names(ROOT / "recipes"))
def test_every_shipped_recipe_is_valid_and_carries_its_own_name_and_title(name):
    assert plan(name, "/data", ROOT).params.recipe == name
    assert recipe_names(ROOT / "recipes")[name]
    for dataset in read_yaml(ROOT / "recipes" / f"{name}.yaml").get("by_dataset", ()):
        one = plan(name, "/data", ROOT, [f"dataset={dataset}"], called="mine").params
        assert {*one.datasets} == {dataset} and one.recipe == "mine"


@pytest.mark.parametrize(("block", "preset"), [
    (name, preset) for name, field in Params.model_fields.items()
    for preset in getattr(field.annotation, "presets", ())])
def test_every_preset_sets_its_switches_and_may_be_spelt_out(block, preset):
    content = {"recipe": "r", "datasets": {"d": {"source": "f"}}}
    values = getattr(parse_params({**content, block: {"preset": preset}}, "params"), block).model_dump()
    assert laid_over(values, Params.model_fields[block].annotation.presets[preset]) == values
    assert getattr(parse_params({**content, block: values}, "params"), block).model_dump() == values


def test_a_recipe_holds_several_data_sets_and_what_all_models_say(recipes):
    (recipes / "many.yaml").write_text("""
        recipe: many
        dataset: a
        seed: 1
        by_dataset:
          a: {datasets: {a: {source: x}}, seed: 2, every_model: {seeds: [1, 2]}}
          b: {datasets: {b: {source: y}}, models: {hcl: {m: {overrides: {training: {clip: 5.0}}}}}}
        keywords: &own {datasets: ["{dataset}"]}
        graph: *own
        node_vectors: *own
        every_model: {overrides: {training: {epochs: 7}}}
        models: {hcl: {m: {}, n: {seeds: [9]}}}
        """)
    one, two = (plan("many", root=recipes.parent, changes=changes).params for changes in (["seed=3"], ["dataset=b"]))
    assert (one.seed, {*one.datasets}, one.model_seeds("m"), one.model_seeds("n")) == (3, {"a"}, [1, 2], [9])
    assert (two.seed, {*two.datasets}, two.model_seeds("m")) == (1, {"b"}, [1])
    assert one.models.hcl["n"].dataset == "a" and two.models.hcl["m"].dataset == "b"
    assert (one.graph.datasets, two.graph.datasets) == (["a"], ["b"])
    assert (two.model("m").training.epochs, two.model("m").training.clip) == (7, 5.0)
    assert (two.model("n").training.epochs, two.model("n").training.clip) == (7, 1.0)


@pytest.mark.parametrize("name", ["qqp", "rocstories", "douban"])
def test_a_papers_recipe_can_be_taken_to_the_letter(name):
    presets = ["graph.preset=paper", "train_hcl.preset=paper"]
    paper, literal = (plan("paper-hcl", "/data", ROOT, [f"dataset={name}", *changes]).params
                      for changes in ([], presets))
    assert literal.graph == Graph(datasets=[name], preset="paper") != paper.graph
    row = literal.model("hcl")
    assert literal.models.hcl["hcl"].init == NOTHING and not literal.models.hcl["hcl"].overrides
    usual = paper.train_hcl.model_dump()
    assert row.model_dump() == {**laid_over(usual, TrainHcl.presets["paper"]), "preset": "paper"} != usual


@pytest.mark.parametrize("name", ["qqp", "rocstories", "douban"])
def test_a_papers_recipe_has_the_rows_of_tables_1_and_2_under_one_budget(name):
    params = plan("paper-hcl", "/data", ROOT, [f"dataset={name}"]).params
    rows = {row: params.model(row) for row in params.models.hcl}
    printed = {found for row in rows.values() for found in HCL.printed_as(HCL.row(row.model_dump(), {}))}
    assert printed == {*paper("hcl").tables["1a"].rows, "w/o keyword", "w/o graph", "w/o MA"}
    assert rows["leaking"].graph.own_edges == "leaking" and rows["simctg"].architecture == "simctg"
    own = {"encoder_rate", "learning_rate", "clip"}     # what an architecture needs; none is tuned
    assert len({row.training.model_dump_json(exclude=own) for row in rows.values()}) == 1
    assert all(params.model_seeds(row) == [13, 14, 15] for row in ("hcl", "no-graph", "leaking"))
    assert {run.model for run in params.runs.hcl.values()} == rows.keys()
    assert {run.decode.get("search") for run in params.runs.hcl.values() if run.model == "simctg"} == {
        None, "contrastive"}
    began = {kind: getattr(rows[name], kind).source for name, kind in (
        ("dialogpt", "dialogpt"), ("simctg", "simctg"), ("t5", "t5"), ("t5-claps", "t5_claps"))}
    assert all(source.startswith("hub:") for source in began.values())
    assert began["dialogpt"] == began["simctg"] and began["t5"] == began["t5_claps"]


def test_params_yaml_has_what_dvc_reads_and_comes_back_the_same(recipes, tmp_path):
    change = plan("one", root=tmp_path)
    params, text = change.params, change.text
    assert text.startswith("# Written by `keycontrast use one`")
    (tmp_path / "params.yaml").write_text(text)
    assert load_params(tmp_path / "params.yaml", complete=True) == params
    content = yaml.safe_load(text)
    assert content["train_hcl"] == {} and content["models"]["hcl"]["m1"] == {
        "dataset": "d", "seeds": [13], "init": NOTHING}    # all other settings have a default


def test_texts_stay_texts_as_yaml_1_1_reads_them_and_comments_stay():
    content = {"recipe": "r", "texts": ["no", "on", "12:30", "1e3", "0o7", "null", "x: y", "a\nb", "", "a"], "one": 1}
    assert yaml.safe_load(params_text(content)) == content
    text = params_text({**content, "one": 2}, "# Questions & answers\nrecipe: r\none: 1  # of them\n")
    assert text.startswith("# Questions & answers\n") and "one: 2  # of them" in text
    assert yaml.safe_load(text) == {**content, "one": 2}


def test_a_part_of_a_recipe_has_the_models_named_and_what_they_start_from():
    whole = plan("cpu-hcl-qqp", "data").params
    part = plan("cpu-hcl-qqp", "data", models=["hcl", "transformer"]).params
    assert list(part.models.hcl) == ["backbone", "start", "hcl", "transformer-start", "transformer"]
    assert list(part.runs.hcl) == ["hcl", "hcl-chosen", "transformer"] and list(part.probes.hcl) == ["hcl"]
    assert all(part.models.hcl[name] == whole.models.hcl[name] for name in part.models.hcl)
    assert part.datasets == whole.datasets and part.recipe == whole.recipe
    assert not plan("cpu-hcl-qqp", "data", models=["transformer"]).params.probes.hcl
    with pytest.raises(InputError, match="transfomer.*did you mean 'transformer'"):
        plan("cpu-hcl-qqp", "data", models=["transfomer"])


@pytest.mark.whole
def test_there_and_back_without_computing_again(tmp_path):
    root = make_project(tmp_path / "p")
    assert dvc(root, "repro").returncode == 0
    first, made = lock(root), (root / "artifacts/models/m2/train_x@m2").read_text()
    assert order(root)

    apply(plan("two", root=root), root)
    assert dvc(root, "repro").returncode == 0
    assert "train_x@m1" in order(root)

    apply(plan("one", root=root), root)
    assert dvc(root, "repro").returncode == 0
    assert order(root) == [] and lock(root) == first
    assert (root / "artifacts/models/m2/train_x@m2").read_text() == made
