"""Params: every mistake is reported at once with the nearest name, and stages see what they declare."""

from importlib import import_module
from pathlib import Path

import pytest
import yaml

from keycontrast.errors import InputError
from stages.common.settings import declared, module_of, read_params, stage_params, stage_values
from stages.params import load_params, parse_params, with_what_dvc_reads

ROOT = Path(__file__).resolve().parent.parent
OF = "artifacts/confusing_pairs/"
STATIC = {"dataset": "questions", "contrast": "static_tau_pairs"}


@pytest.fixture
def sample():
    return yaml.safe_load((ROOT / "recipes" / "sample.yaml").read_text())


def test_all_problems_come_at_once_with_the_nearest_name(sample):
    sample["sed"] = 3
    sample["train_hcl"]["training"]["epoch"] = 2
    sample["ingest"]["validation"] = 2.0
    del sample["datasets"]["sample"]["source"]
    with pytest.raises(InputError) as caught:
        parse_params(sample, "params.yaml")
    message = str(caught.value)
    assert "params.yaml: 4 problems" in message
    assert "sed: unknown name; did you mean 'seed'?" in message
    assert "train_hcl.training.epoch: unknown name; did you mean 'epochs'?" in message
    assert "ingest.validation: Input should be less than 0.5, found 2.0." in message
    assert "datasets.sample.source: missing." in message


def test_a_missing_or_broken_file_names_the_remedy(tmp_path):
    with pytest.raises(InputError, match="keycontrast use sample"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("a: [1,\n")
    with pytest.raises(InputError, match="not valid YAML.*line 2"):
        load_params(tmp_path / "params.yaml")


@pytest.mark.parametrize(("starts", "message"), [
    ({"hcl": "hlc"}, "models.hcl.hcl.init: no model 'hlc'; did you mean 'hcl'"),
    ({"hcl": "hcl"}, "models.hcl.hcl.init: the model would start from itself, by way of hcl"),
    ({"hcl": "hcl-no-graph", "hcl-no-graph": "hcl"}, "hcl.init: the model would start from itself, by way of "
                                                     "hcl-no-graph")])
def test_beginnings_that_cannot_be_are_refused(sample, starts, message):
    for name, start in starts.items():
        sample["models"]["hcl"][name]["init"] = f"artifacts/models/{start}"
    with pytest.raises(InputError, match=message):
        parse_params(sample, "params.yaml")


def test_every_stage_reads_only_existing_params(sample):
    content = with_clld(with_pgkpr(sample))
    content["datasets"]["notes"] = {"source": "x.csv", "layout": "texts"}
    params = parse_params(content, "recipe")
    for stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]:
        names = declared(stage)
        keys = {"text_datasets.": "notes", "datasets.{key}": "sample", "ranked_datasets.": "sample",
                "pgkpr.{key}": "pgkpr", "clld.{key}": "ct", "hcl.{key}": "hcl"}
        key = next((keys[part] for part in keys for name in names if part in name), "")
        assert set(stage_values(params.plain(), stage, key)) == {
            name.replace("{key}", key).replace("{model}", key).replace("{dataset}", "sample") for name in names}


def test_a_stage_sees_what_it_declares_with_what_a_model_overrides_and_nothing_else(sample, tmp_path):
    sample["models"]["hcl"]["literal"] = {"dataset": "sample", "overrides": {
        "preset": "paper", "training": {"learning_rate": "2e-5", "clip": 1}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sample))
    found = stage_params(read_params(tmp_path / "params.yaml"), "train_hcl", "literal")
    assert found.model("literal").plain() == parse_params(sample, "recipe").model("literal").plain()
    assert (found.model("literal").latent.free_bits, found.model("literal").training.learning_rate) == (0.0, 2e-5)
    assert found.model_seeds("literal") == [found.seed] and found.runtime.workers == sample["runtime"]["workers"]
    assert found.datasets == {"sample": {"layout": "triples"}}
    for undeclared in ("generate_hcl", "ingest", "runs"):
        with pytest.raises(AttributeError, match=f"no param is called '{undeclared}' here; a stage reads the params"):
            getattr(found, undeclared)
    with pytest.raises(InputError, match="params.yaml: models.hcl has no 'litteral'; did you mean 'literal'"):
        stage_params(read_params(tmp_path / "params.yaml"), "train_hcl", "litteral")


def test_what_models_lay_over_a_preset_is_written_out_so_that_dvc_sees_it(sample):
    sample["models"]["hcl"]["literal"] = {"dataset": "sample", "overrides": {"preset": "paper"}}
    spelt = parse_params(sample, "recipe").models.hcl["literal"].overrides
    assert spelt["latent"]["annealing_steps"] == 0 and spelt["graph"] == {
        "layer_norm": False, "own_edges": "leaking", "kw_dropout": 0.0}
    assert "training" not in spelt


def test_a_bare_stage_on_invalid_params_does_nothing_and_says_what_every_command_says(sample, tmp_path, monkeypatch,
                                                                                      capsys):
    sample["train_hcl"]["trainig"] = {}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sample))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="1 problem:\n  train_hcl.trainig: unknown name; did you mean") as error:
        load_params()
    for stage, key in (("train_hcl", ["hcl"]), ("manifest", ["sample"]), ("report", [])):
        assert import_module(module_of(stage)).main(key) == 1
        assert capsys.readouterr().err == f"{stage}: {error.value}\n"
    assert not (tmp_path / "artifacts").exists()


def refused(content):
    """Return what is wrong with params, a line per problem."""
    with pytest.raises(InputError) as caught:
        parse_params(content, "recipe")
    return [line.strip() for line in str(caught.value).split("\n")[1:]]


@pytest.mark.parametrize("architecture", ["transformer", "residual_lstm", "latent_bow"])
def test_keywords_of_a_run_need_a_model_that_reads_them(sample, architecture):
    content = with_pgkpr(sample)
    content["models"]["pgkpr"]["plain"] = {"dataset": "sample", "overrides": {"architecture": architecture}}
    content["runs"]["pgkpr"]["plain"] = {"model": "plain", "decode": {"keywords": "xy"}}
    said = f"'xy' is given, and model 'plain' ({architecture}) reads no keywords; "
    assert refused(content) == [f"runs.pgkpr.plain.decode.keywords: {said}take it out"]
    content["generate_pgkpr"] = {**content.get("generate_pgkpr", {}), "keywords": "xy"}
    content["runs"]["pgkpr"]["plain"]["decode"] = {}
    assert refused(content) == [f"generate_pgkpr.keywords: {said}write `keywords: null` under runs.pgkpr.plain.decode, "
                                f"or here"]
    content["runs"]["pgkpr"]["plain"]["decode"] = {"keywords": None}
    params = parse_params(content, "recipe")
    assert params.decoding("plain").keywords is None and params.decoding("pgkpr").keywords == "xy"


@pytest.mark.parametrize(("place", "value", "line"), [
    (("generate_hcl",), {"min_length": 21},
     "generate_hcl: min_length 21 is above max_length 20; lower the one or raise the other"),
    (("runs", "pgkpr", "pgkpr", "decode"), {"max_length": 0},
     "runs.pgkpr.pgkpr.decode.max_length: Input should be greater than or equal to 1, found 0."),
    (("models", "hcl", "hcl", "overrides"), {"keyword": {"condition": False}, "decoder": {"kw_memory": True}},
     "models.hcl.hcl.overrides: decoder.kw_memory needs keyword.condition; set the one to false or the other to true"),
    (("models", "pgkpr", "pgkpr", "overrides"), {"training": {"micro_batch": 1, "batch_size": 1}},
     "models.pgkpr.pgkpr: training.batch_size of 1 leaves the contrast without negatives; give at least 2, or set "
     "contrast.weight to 0"),
])
def test_values_that_would_stop_a_later_stage_are_refused_at_once(sample, place, value, line):
    content = with_pgkpr(sample)
    content["generate_pgkpr"] = {"max_length": 16}
    node = content
    for name in place[:-1]:
        node = node[name]
    node[place[-1]] = value
    assert refused(content) == [line]


@pytest.mark.parametrize(("track", "preset", "switch", "clash", "kept"), [
    ("pgkpr", "paper", {"contrast": {"weight": 0.0}}, "contrast.weight is 0.0 where the preset has 0.1",
     ("reconstruction", "reduction", "sent_mean")),
    ("pgkpr", "released", {"keywords": {"flip": "epoch"}}, "keywords.flip is 'epoch' where the preset has 'offline'",
     ("keywords", "mark_all", True)),
    ("hcl", "paper", {"latent": {"prior_share": 0.5}}, "latent.prior_share is 0.5 where the preset has 0.0",
     ("latent", "free_bits", 0.0))])
def test_a_model_leaves_the_preset_of_its_block(sample, track, preset, switch, clash, kept):
    content = with_pgkpr(sample)
    block = {name: value for name, value in sample.get(f"train_{track}", {}).items() if name in ("sizes", "training")}
    content[f"train_{track}"] = {**block, "preset": preset}
    content["models"][track] = {track: {"dataset": "sample", "overrides": switch}}  # the sample's begin with a start
    content["runs"][track] = {track: {"model": track}}
    content.pop("probes", None)
    assert refused(content) == [f"models.{track}.{track}.overrides: preset {preset} of all models contradicts 1 of the "
                                f"switches here: {clash}. Add `preset: null` to these overrides, and they change the "
                                f"preset's switches for this model; or take them out."]
    content["models"][track][track]["overrides"] = {"preset": None, **switch}
    params = parse_params(content, "recipe")
    found = params.model(track).model_dump()
    (group, values), (place, name, value) = next(iter(switch.items())), kept
    assert values.items() <= found[group].items() and found[place][name] == value and found["preset"] is None


def with_pgkpr(content):
    """Return params with a model and a run of the PGKPR track."""
    models, runs = content.get("models", {}), content.get("runs", {})
    return {**content, "models": {**models, "pgkpr": {"pgkpr": {"dataset": "sample"}}},
            "runs": {**runs, "pgkpr": {"pgkpr": {"model": "pgkpr"}}}}


def with_clld(content, **models):
    """Return params with a data set of labelled texts, a CT model of it, and further ones."""
    labelled = {"source": "x.csv", "layout": "labelled", "columns": {"label": "class"}}
    return {**content, "datasets": {**content["datasets"], "questions": labelled},
            "linear_baseline": {"datasets": ["questions"]},
            "models": {**content.get("models", {}), "clld": {"ct": {"dataset": "questions"}} | models}}


def test_what_dvc_reads_by_name_must_be_there(sample, tmp_path):
    file, whole = tmp_path / "params.yaml", with_what_dvc_reads(sample)[0]
    file.write_text(yaml.safe_dump(whole))
    assert load_params(file, complete=True) == load_params(file)
    del whole["probes"], whole["runtime"]["threads"], whole["models"]["clld"]["ct"]["path"]
    file.write_text(yaml.safe_dump(whole))
    assert load_params(file).runtime.threads == 1
    with pytest.raises(InputError, match="leaves out .*runtime.threads.*use sample-mine"):
        load_params(file, complete=True)


@pytest.mark.parametrize(("change", "line"), [
    ({"graph": {"datasets": []}}, "models.hcl.hcl needs graph.datasets to name 'sample'"),
    ({"keywords": {"datasets": []}}, "graph.datasets needs keywords.datasets to name 'sample'"),
    ({"keywords": {"datasets": ["sampel"]}}, "keywords.datasets: no data set 'sampel'; did you mean 'sample'?"),
    ({"attribution": {"datasets": []}, "keywords": {"datasets": ["sample"], "method": "attribution"}},
     "keywords.method attribution needs attribution.datasets to name 'sample'"),
    ({"models": {"clld": {"ct": {"dataset": "questions"}, "clsled": {**STATIC, "pairs_of": OF + "ct"}}}},
     "models.clld.clsled.pairs_of needs confusing_pairs.models to name 'ct'"),
    ({"encoder": {"source": "path"}}, "encoder.path: name the folder or file here, because encoder.source is path"),
    ({"models": {"clld": {"ct": {"dataset": "questions"}, "clsled": {**STATIC, "pairs_of": "artifacts/models/ct"}}}},
     "models.clld.clsled.pairs_of"),
    ({"encoder": {"path": "my/encoder"}}, "encoder.path: is my/encoder, and nothing reads it; let encoder.source be "
                                          "path, or write data/start/none"),
    ({"runs": {"clld": {}}}, "runs.clld: every model of models.clld is a row; take this out (evaluate_clld.split says "
                             "which texts are classified)"),
    ({"recipe": "../../escaped"}, "recipe: String should match pattern")])
def test_what_is_missing_elsewhere_is_said(sample, change, line):
    assert any(found.startswith(line) for found in refused({**sample, **change})), refused({**sample, **change})


@pytest.mark.parametrize(("overrides", "decode", "tables"), [
    ({"architecture": "ianet"}, {}, ["psi"]), ({"keywords": {"by": "psi"}}, {}, ["psi"]),
    ({}, {"keywords": "psi_xx"}, ["psi"]), ({}, {"keywords": "textrank"}, ["textrank"]),
    ({}, {"keywords": "s_tagger"}, ["psi", "s_tags"]), ({}, {"keywords": "random"}, [])])
def test_rows_of_the_pgkpr_track_say_which_tables_they_read(sample, overrides, decode, tables):
    content = with_pgkpr(sample)
    content["models"]["pgkpr"]["pgkpr"]["overrides"] = overrides
    content["runs"]["pgkpr"]["pgkpr"]["decode"] = decode
    content["paraphrase_items"] = {"datasets": {"sample": {}}}
    wanted = [f"models.pgkpr.pgkpr needs paraphrase_items.datasets.sample.{table} to be "
              f"artifacts/data/sample/{table}" for table in tables]
    if wanted:
        assert refused(content) == wanted
    else:
        assert parse_params(content, "recipe")


@pytest.fixture
def unclassified(sample):
    """The default recipe without its own classifiers."""
    sample["datasets"].pop("questions", None)
    del sample["linear_baseline"], sample["models"]["clld"]
    return sample


@pytest.mark.parametrize(("model", "line"), [
    ({"dataset": "question"}, "models.clld.m.dataset: no data set 'question'; did you mean 'questions'?"),
    ({"dataset": "sample"}, "models.clld.m.dataset: sample has pairs, and the model needs labelled texts"),
    ({"overrides": {"training": {"epoch": 1}}}, "models.clld.m.overrides.training.epoch: unknown name"),
    ({"overrides": {"textcnn": {"filters": 0}}}, "models.clld.m.overrides.textcnn.filters: Input should be"),
    ({"contrast": "static_tau_pairs"}, "models.clld.m: contrast static_tau_pairs needs either pairs"),
    ({**STATIC, "pairs_of": OF + "ct", "pairs": [["a", "b"]]}, "say which; found pairs and pairs_of"),
    ({"contrast": "uniform", "pairs_of": OF + "ct"}, "models.clld.m: contrast uniform reads no pairs_of"),
    ({**STATIC, "pairs_of": OF + "tc"}, "models.clld.m.pairs_of: no model 'tc'; valid names: ct."),
    ({**STATIC, "pairs_of": OF + "cl"}, "models.clld.m.pairs_of: model 'cl' has contrast uniform"),
    ({**STATIC, "pairs_of": OF + "other"}, "models.clld.m.pairs_of: model 'other' is of data set more"),
])
def test_wrong_names_and_values_of_a_model_are_named(unclassified, model, line):
    content = with_clld(unclassified, m={"dataset": "questions", **model}, other={"dataset": "more"},
                        cl={"dataset": "questions", "contrast": "uniform"})
    content["datasets"]["more"] = content["datasets"]["questions"]
    content["linear_baseline"] = {"datasets": ["questions", "more"]}
    lines = refused(content)
    assert len(lines) == 1 and line in lines[0], lines


@pytest.mark.parametrize("earlier", ["hcl", "pgkpr"])
def test_models_and_runs_of_two_tracks_cannot_share_a_folder(unclassified, earlier):
    content = with_clld(unclassified)
    content["models"]["clld"][earlier] = {"dataset": "questions"}
    assert refused(content) == [f"{block}.clld.{earlier}: {block}.{earlier} has one of that name too, and both would "
                                f"write the same folder; rename one of them" for block in ("models", "runs")]
