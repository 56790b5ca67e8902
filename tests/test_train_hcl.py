"""The train_hcl stage on ten triples and a BERT of width 16."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import tiny_hcl
import tiny_items
import tiny_training
import torch
from memory_store import Killed
from tiny_training import DyingStore
from transformers import AutoTokenizer, BertModel

import stages.tracks.hcl.train
from keycontrast.errors import InputError
from models.common.task import Step
from models.hcl.hcl import objective
from models.hcl.model import HclModel
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.hcl.data import TrainedOn, TripleBatches, UnseenKeywords, joined_items, word_pieces
from stages.tracks.hcl.item_views import ItemViews
from stages.tracks.hcl.params import TrainHcl
from stages.tracks.hcl.train import HclTask, _model, keyword_graph, main, run, training_metrics


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path_factory.mktemp('encoder'))}")


def trained_on(encoder):
    return TrainedOn("tiny", "en", f"path:{encoder.location}", encoder.description, "mean", 32, 12, 8, "first")


def graph():
    nodes = tiny_items.tables()["nodes"]
    return keyword_graph(nodes, tiny_training.edges(), tiny_training.vectors(nodes))


def settings(latent=None, **training):
    values = {"epochs": 2, "batch_size": 4, "micro_batch": 4, "max_source": 12, "max_target": 8,
              "learning_rate": 1e-2}
    return TrainHcl.model_validate({"latent": {"size": 6, **(latent or {})}, "decoder": {"layers": 1},
                                    "training": {**values, **training}}).model_dump()


def train(encoder, store, items=None, **training):
    items = joined_items(**tiny_items.tables()) if items is None else items
    torch.use_deterministic_algorithms(True)
    return run(items, graph(), settings(**training), encoder, UnseenKeywords(trained_on(encoder)), 13, store)


@pytest.fixture
def items():
    return joined_items(**tiny_items.tables())


def test_items_list_their_negative_and_batches_read_it(items, tmp_path):
    assert items["negatives"].tolist() == [[text] if text else [] for text in tiny_items.NEGATIVES]
    tokenizer = tiny_bert.tokenizer(tmp_path)
    batches = TripleBatches(items, tokenizer, 8, 8)
    batch, words = batches.batch([0, 5]), tokenizer(tiny_items.NEGATIVES[0])["input_ids"]
    assert batch["neg_ids"][0][batch["neg_mask"][0]].tolist() == words
    assert batch["neg_ids"][1][batch["neg_mask"][1]].tolist() == [words[0], words[-1]]  # there is none
    assert batches.has_negative.tolist() == [text is not None for text in tiny_items.NEGATIVES]


def test_batches_wrap_cut_and_shift(items, tmp_path):
    tokenizer = tiny_bert.tokenizer(tmp_path)
    batches = TripleBatches(items, tokenizer, max_source=4, max_target=3)
    batch = batches.batch([0, 5])
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    words = tokenizer(tiny_items.SOURCES[0], add_special_tokens=False)["input_ids"]
    assert batch["x_ids"][0].tolist() == [cls, *words[:4], sep]
    assert batch["y_in"][0, 0] == cls
    assert batch["y_out"][0].tolist() == [*batch["y_in"][0, 1:].tolist(), sep]
    assert batch["y_in_mask"].sum(1).tolist() == (batch["y_out"] != tokenizer.pad_token_id).sum(1).tolist()
    assert batch["has_negative"].tolist() == [True, False]
    assert batch["kneg"].tolist()[1] == -1
    assert batches.mean_target_length == pytest.approx(np.mean([4] * len(items)))


def test_dialogues_keep_the_end_of_what_is_too_long(tmp_path):
    tokenizer = tiny_bert.tokenizer(tmp_path)
    whole = word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 99)
    assert len(whole[0]) > 3
    assert word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 3) == [row[:3] for row in whole]
    assert word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 3, "last") == [row[-3:] for row in whole]
    turn, special = ["cat [SEP] mat"], tokenizer.sep_token_id  # between turns of a source, and as written by an author
    assert [special in word_pieces(tokenizer, turn, 9, keep)[0] for keep in ("first", "last", None)] == [1, 1, 0]


@pytest.mark.parametrize("changes", [
    {"latent": {"prior_share": 0.5}}, {"precision": "bf16"}, {"freeze_layers": 1}], ids=str)
def test_a_killed_training_ends_with_the_same_weights(encoder, tmp_path, changes):
    whole = train(encoder, FolderCheckpoints(tmp_path / "whole", "a"), **changes)
    with pytest.raises(Killed):
        train(encoder, DyingStore(tmp_path / "killed", "a"), **changes)
    resumed = train(encoder, FolderCheckpoints(tmp_path / "killed", "a"), **changes)
    for (name, one), two in zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    assert whole.history == resumed.history


@pytest.fixture
def task(encoder, tmp_path):
    items = joined_items(**tiny_items.tables())
    tokenizer = tiny_bert.tokenizer(tmp_path)
    parts = [TripleBatches(items[items["split"] == split], tokenizer, 12, 8) for split in ("train", "validation")]
    torch.manual_seed(0)
    model = _model(settings(), encoder, tokenizer, graph(), 5.0).eval()
    fixed = {"eps": torch.zeros(1, 6), "unseen_vectors": torch.zeros(1, 16)}
    return HclTask(model, *parts, fixed, settings()["training"], 10)


def test_micro_batches_add_up_to_the_batch(task):
    # Free bits are granted to each micro-batch by itself, so they are off here.
    task.model.config.latent = replace(task.model.config.latent, free_bits=0.0)
    items = list(range(7))
    eps = torch.randn(7, 6)
    original = task.train.batch
    task.train.batch = lambda chosen: {**original(chosen), "eps": eps[list(chosen)]}
    step = Step(5, 10, 0, items)
    whole, parts = task.train_batch(task.load(items), step)
    shares = [task.train_batch(task.load(items[:3]), step), task.train_batch(task.load(items[3:]), step)]
    assert whole.item() == pytest.approx(sum(loss.item() for loss, _ in shares), rel=1e-5)
    for name, value in parts.items():
        assert float(value) == pytest.approx(sum(float(share[name]) for _, share in shares), rel=1e-4, abs=1e-6), name
    assert float(parts["beta"]) == 0.5
    expected, terms = objective(task.model(task.load(items)), task.model.config, 0.5)     # counts of the batch itself
    assert whole.item() == pytest.approx(expected.item(), rel=1e-5)
    for name in terms.keys() & parts.keys():
        assert float(parts[name]) == pytest.approx(float(terms[name]), rel=1e-4), name


def test_a_batch_has_the_views_of_its_items_and_loses_keywords_by_epoch(task, monkeypatch):
    views = ItemViews("every view", torch.arange(7) + 1, torch.randn(7, 16), torch.linspace(0, 0.9, 7), 0.5)
    planned, read, plan, items = [], [], task.planner.plan, [4, 1, 3]

    def planning(batch, training):
        planned.append(batch)
        return plan({name: part for name, part in batch.items() if name != "view"}, training)

    monkeypatch.setattr(type(task.planner), "plan", lambda _, batch, training: planning(batch, training))
    task.item_views = views
    task.model.register_forward_pre_hook(lambda _, given: read.append(given[0]["dropped"].tolist()))
    batch = task.load(items)
    assert planned[0]["view"].tolist() == [5, 2, 4]
    assert torch.equal(planned[0]["unseen_vectors"], views.vectors[items])
    for epoch in range(3):
        task.train_batch(batch, Step(5, 10, epoch, items))
    assert read == [views.dropped(views.draws[items], epoch).tolist() for epoch in range(3)]
    assert {any(lost) for lost in read} | {all(lost) for lost in read} == {True, False}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_unseen_keywords_are_embedded_as_nodes_are(encoder, pooling):
    texts, on = ["dog", "the cat sat on the mat"], replace(trained_on(encoder), pooling=pooling, max_length=4)
    model, tokenizer = BertModel.from_pretrained(encoder.location).eval(), AutoTokenizer.from_pretrained(
        encoder.location)
    found = UnseenKeywords(on).embedded(texts)
    for text, vector in zip(texts, found, strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=4)).last_hidden_state[0]
        torch.testing.assert_close(vector, states[0] if pooling == "cls" else states.mean(0), atol=1e-5, rtol=1e-5)


def test_every_parameter_learns_at_the_rate_of_its_origin(task):
    task.restarted = frozenset(name for name, _ in task.model.named_parameters() if name.startswith("decoder."))
    groups = {group.name: group for group in task.parameter_groups()}
    assert groups["restarted"].rate == groups["rest"].rate == 1e-2
    task.settings = {**task.settings, "restart_learning_rate": 3e-4}
    rates = {group.name: group.rate for group in task.parameter_groups()}
    assert rates == {"encoder": 5e-5, "restarted": 3e-4, "rest": 1e-2}
    known = [id(parameter) for group in groups.values() for parameter in group.parameters]
    assert len(set(known)) == len(known) == len(list(task.model.parameters()))
    assert {id(parameter) for parameter in groups["restarted"].parameters} == {
        id(parameter) for parameter in task.model.decoder.parameters()}


def test_the_oracle_reads_the_keyword_of_the_target_in_training_and_validation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_training.write_project(tmp_path, {"oracle": {"dataset": "tiny", "overrides": {"keyword": {
        "condition": "target"}}}})
    tables, place = tiny_items.tables(), DatasetPaths("tiny").table("keywords")
    targets = tables["examples"]["target_id"]
    words = [*tiny_items.KEYWORDS[1:7], "dog", "hot dog", "cat", "cat"]
    keywords = tables["keywords"].set_index("text_id").assign(method="textrank", score=1.0)
    keywords.loc[targets, "keyword"] = words
    write_table(place, SCHEMAS["keywords"], keywords.reset_index(), Provenance("test", "0"))
    caught = []

    def stop(task, loop, *_):
        caught.append(task)
        assert loop.final_from_step == task.annealing_steps == 1
        raise Killed

    monkeypatch.setattr(stages.tracks.hcl.train, "fit", stop)
    with pytest.raises(Killed):
        main(["oracle"])
    task, embedded = caught[0], UnseenKeywords(trained_on(resolve_encoder("path:encoder"))).embedded
    assert [tiny_items.NODES[node] for node in task.train.nodes["kx"]] == words[:7]
    assert torch.equal(task.train.nodes["kx"], task.train.nodes["ky"])
    # Where the keyword is hidden or no node, the target's text would tell more than its keyword.
    torch.testing.assert_close(task.item_views.vectors, embedded(words[:7]))
    torch.testing.assert_close(task.fixed["unseen_vectors"], embedded(["hot dog"]))


@pytest.mark.parametrize(("enabled", "first"), [(True, 1), (False, 0)])
def test_epochs_are_candidates_from_the_end_of_annealing_if_there_is_a_latent_variable(
        encoder, tmp_path, monkeypatch, enabled, first):
    values, caught = settings(), []
    values["latent"]["enabled"] = enabled
    monkeypatch.setitem(globals(), "settings", lambda **_: values)
    monkeypatch.setattr(stages.tracks.hcl.train, "fit", lambda task, loop, *_: caught.append(loop.final_from_step))
    train(encoder, FolderCheckpoints(tmp_path, "a"))
    assert caught == [first]


def test_another_encoder_in_the_same_place_is_noticed(encoder):
    on = trained_on(encoder)
    with pytest.raises(InputError, match="is no longer the encoder that the model was trained with"):
        UnseenKeywords(TrainedOn(**{**vars(on), "encoder": {**on.encoder, "sha256": "0"}})).embedded(["a"])


def test_bad_inputs_are_named(encoder, tmp_path):
    items = joined_items(**tiny_items.tables())
    with pytest.raises(InputError, match="the validation split is empty"):
        train(encoder, FolderCheckpoints(tmp_path, "a"), items[items["split"] != "validation"])
    with pytest.raises(InputError, match=r"train_hcl\.training\.freeze_layers: .*the encoder has 2"):
        train(encoder, FolderCheckpoints(tmp_path, "a"), freeze_layers=9)
    nodes = pd.DataFrame({"node_id": [0, 1]})
    with pytest.raises(InputError, match="does not have the nodes of"):
        keyword_graph(nodes, pd.DataFrame(), pd.DataFrame({"node_id": [0], "vector": [[1.0]]}))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of three models: ``hcl``, ``later``, which starts from it, and ``fresh``, which differs from none."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        models = {"hcl": {"dataset": "tiny"},
                  "later": {"dataset": "tiny", "init": "artifacts/models/hcl", "seeds": [5]},
                  "fresh": {"dataset": "tiny", "seeds": [5]}}
        tiny_training.write_project(folder, models, epochs=3)
        for name in models:
            assert main([name]) == 0
    return folder


@pytest.fixture
def trained(project, monkeypatch):
    monkeypatch.chdir(project)
    return {name: ModelPaths(name, seed) for name, seed in (("hcl", 13), ("later", 5), ("fresh", 5))}


def test_stage_writes_model_history_items_and_metrics(trained):
    items = read_frame(trained["hcl"].items, SCHEMAS["items"])
    assert items["target_keyword"].tolist() == tiny_items.KEYWORDS
    assert read_metadata(trained["hcl"].items)["precision"] == computed_in("fp32", False)
    config = json.loads((trained["hcl"].weights / "config.json").read_text())
    assert config["computed_in"] == computed_in("fp32", False)
    assert items["negative_keyword"][4] == "dog" and pd.isna(items["negative_keyword"][5])
    assert list(map(list, items["negatives"]))[4:6] == [["who can play with the dog"], []]
    history, metrics = pd.read_csv(trained["hcl"].history), json.loads(trained["hcl"].metrics.read_text())
    assert metrics["epochs"] == len(history) == 3 and not metrics["stopped_early"]
    best = history.loc[history["validation_loss"].idxmin()]
    assert metrics["best_epoch"] == best["epoch"]
    for name, value in metrics["validation"].items():
        assert value == pytest.approx(best[f"validation_{name}"], rel=1e-6), name
    for name in ("active_units", "kl", "kl_train", "reconstruction_prior",
                 "reconstruction_mean", "reconstruction_zero", "instance_vanished"):
        assert f"validation_{name}" in history, name
    # every keyword of validation and test is one of training
    assert metrics["keywords"] == {"validation": 1.0, "test": 1.0}
    # Each item is a component of its own, and some have a keyword that no other has.
    assert metrics["graph"]["train"]["unseen"] > metrics["graph"]["test"]["unseen"] == 0.0
    assert HclModel.from_pretrained(trained["hcl"].weights).config.latent.size == 6


@pytest.mark.parametrize(("share", "names"), [(0.9, ["leak"]), (0.2, [])])
def test_a_leak_of_the_graph_is_an_alarm(encoder, tmp_path, monkeypatch, share, names):
    trained = train(encoder, FolderCheckpoints(tmp_path, "a"))
    told = {"train": {"target_is_neighbour": share}, "validation": {"target_is_neighbour": 0.1}}
    monkeypatch.setattr(stages.tracks.hcl.train, "leaks", lambda *_: told)
    assert [alarm["name"] for alarm in training_metrics(trained)["alarms"] if alarm["name"] == "leak"] == names


def test_a_model_starts_from_another_and_says_so(trained):
    described = read_metadata(trained["later"].items)["models"]["init_from"]
    weights = trained["hcl"].weights / "model.safetensors"
    assert described == {"name": "hcl", "sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    assert "- Initialised from model hcl: " in (trained["later"].weights / "README.md").read_text()
    assert "Initialised from" not in (trained["fresh"].weights / "README.md").read_text()
    # Same seed, other start: the first epoch is that of another model, and a better one.
    later, fresh = (pd.read_csv(trained[name].history)["train_reconstruction"][0] for name in ("later", "fresh"))
    assert later < fresh


def test_a_start_that_is_not_trained_or_does_not_fit_is_named(tmp_path, monkeypatch, encoder, capsys):
    monkeypatch.chdir(tmp_path)
    models = {"hcl": {"dataset": "tiny", "init": "artifacts/models/other"}, "other": {"dataset": "tiny"}}
    tiny_training.write_project(tmp_path, models)
    assert main(["hcl"]) == 1
    assert "artifacts/models/other/13/model: no trained HCL model" in capsys.readouterr().err
    with pytest.raises(InputError, match="models.hcl: init: .*vocabulary .* here and 30 there"):
        run(joined_items(**tiny_items.tables()), graph(), settings(), encoder, UnseenKeywords(trained_on(encoder)), 13,
            FolderCheckpoints(tmp_path, "a"), start=tiny_hcl.model())


def test_a_text_without_a_keyword_row_is_named():
    tables = tiny_items.tables()
    tables["keywords"] = tables["keywords"].iloc[1:]
    with pytest.raises(ValueError, match="example 0 refers to a text without keyword row"):
        joined_items(**tables)
