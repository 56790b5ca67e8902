"""The train_pgkpr stage on eight pairs and models of width 16: batches, loss shares, every row, resuming, artifacts."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny_rewriters
import torch
from memory_store import Killed
from tiny_training import DyingStore

from keycontrast.errors import InputError
from models.common import BOS, EOS
from models.common.task import Step
from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import load_rewriter, rewriter_of
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.tables import read_frame, read_metadata
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.pgkpr.export import TrainedOn, load_lookup
from stages.tracks.pgkpr.items import Vocabulary
from stages.tracks.pgkpr.train import (
    RATES,
    PairBatches,
    RewriteTask,
    bags,
    fit_rewriter,
    main,
    part_weights,
    plain_items,
    training_batches,
)

ARCHITECTURES = ("pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet")
N = 8  # training pairs: seven examples, one of them with two references


def vocabulary():
    return Vocabulary.from_frame(tiny_rewriters.vocabulary_frame())


def pairs(split=None):
    frame = tiny_rewriters.items()
    return frame if split is None else frame[frame["split"] == split]


def masks(frame):
    return [np.asarray(row, dtype="f4") for row in frame["primary_xy"]]


def batches(max_length=tiny_rewriters.MAX_LENGTH, **options):
    frame = pairs("train")
    return PairBatches(frame, vocabulary(), max_length, [masks(frame)], **options)


def test_batches_are_words_tags_and_targets_padded_at_the_right():
    words, frame = vocabulary(), pairs("train")
    batch = batches(max_length=6).batch([0, 4])
    for row, item in enumerate((0, 4)):
        source, target = frame["source_words"].iloc[item][:6], frame["target_words"].iloc[item][:6]
        assert batch["x_lengths"][row] == len(source) and batch["t_lengths"][row] == len(target)
        assert words.text(batch["x_ids"][row].tolist()) == " ".join(source)
        assert words.text(batch["t_ids"][row].tolist()) == " ".join(target)
        assert batch["x_tags"][row, :len(source)].tolist() == words.tag_ids(frame["source_tags"].iloc[item][:6])
        assert batch["t_tags"][row, :len(target)].tolist() == words.tag_ids(frame["target_tags"].iloc[item][:6])
        assert batch["y_in"][row, :len(target) + 1].tolist() == [BOS, *words.words_ids(target)]
        assert batch["y_out"][row, :len(target) + 1].tolist() == [*words.words_ids(target), EOS]
        assert batch["p"][row, :len(source)].tolist() == masks(frame)[item][:6].tolist()
        for name in ("x_ids", "x_tags", "p"):
            assert not batch[name][row, len(source):].any()
        assert not batch["y_out"][row, len(target) + 1:].any()
    assert batch["group"].tolist() == [0, 4]
    assert batch["p"].dtype == torch.float32
    assert {value.dtype for name, value in batch.items() if name != "p"} == {torch.int64}
    assert set(batch) == {"x_ids", "x_tags", "x_lengths", "p", "t_ids", "t_tags", "t_lengths", "y_in", "y_out", "group"}


def test_an_epoch_of_both_scores_has_every_pair_twice():
    train, _ = training_batches(pairs(), vocabulary(), tiny_rewriters.settings(), 8, seed=1)
    assert len(train) == 2 * N and train.words["x"].tolist()[:N] == train.words["x"].tolist()[N:]
    first, second = train.batch([2, 2 + N]), train.batch([2 + N, 2])
    frame = pairs("train")
    assert torch.equal(first["x_ids"][0], first["x_ids"][1])
    for row, column in enumerate(("score_xy", "score_xx")):
        expected = torch.tensor(frame[column].iloc[2][:8])
        assert torch.equal(first["p"][row], expected) and torch.equal(second["p"][1 - row], expected)
    once = tiny_rewriters.settings(keywords={"train_scores": "xy"})
    alone, _ = training_batches(pairs(), vocabulary(), once, 8, seed=1)
    plain, _ = training_batches(pairs(), vocabulary(), tiny_rewriters.settings("transformer"), 8, seed=1)
    assert len(alone) == len(plain) == N


def test_validation_reads_fixed_keywords():
    """From the source alone by attribution; primary words of the pair by PSI."""
    for architecture, by, which in (("pgkpr", "attribution", None), ("pgkpr", "psi", "primary_xy"),
                                    ("ianet", "attribution", "primary_xy"), ("pgkpr", "textrank", "primary_textrank")):
        values = tiny_rewriters.settings(architecture, keywords={"by": by})
        _, validation = training_batches(pairs(), vocabulary(), values, 8, seed=1)
        found = validation.batch(range(len(validation)))["p"]
        assert set(found.unique().tolist()) <= {0.0, 1.0}
        if which is None:
            certain = pairs("validation")["score_xx"].map(np.argmax)
            assert all(found[row, place] == 1 for row, place in enumerate(certain) if place < 8)
        else:
            expected = [[float(word) for word in row[:8]] for row in pairs("validation")[which]]
            assert [found[row, :len(values)].tolist() for row, values in enumerate(expected)] == expected


def test_bags_hold_the_content_words_of_all_references():
    words, frame = vocabulary(), pairs()
    found = bags(frame, words, max_length=8, most=4)
    texts = [[words.tokens[number] for number in bag] for bag in found]
    assert texts[0] == ["learn", "language"]
    assert texts[4] == texts[5] == ["cat", "play", "dog"]  # of "a cat can play with a dog", "the cat and the dog play"
    assert [words.tokens[number] for number in bags(frame, words, 8, most=2)[4]] == ["cat", "play"]
    assert "?" not in texts[1] and texts[1] == ["good", "school"]
    batch = batches(bag=4).batch([0, 4])
    assert batch["bow_ids"].tolist() == [[*found[0], 0], found[4]]


def make_task(architecture="pgkpr", micro_batch=3, fixed=True, **blocks):
    """A task without dropout; ``fixed`` keywords are all certain, so that no coin matters."""
    blocks["keywords"] = {"flip": "offline" if fixed else "epoch", "train_scores": "xy", **blocks.get("keywords", {})}
    values = tiny_rewriters.settings(architecture, **blocks)
    train, validation = training_batches(pairs(), vocabulary(), values, tiny_rewriters.MAX_LENGTH, seed=1)
    torch.manual_seed(0)
    model = rewriter_of(RewriterConfig.from_params(values, vocabulary().size)).eval()
    return RewriteTask(model, train, validation, 1e-2, micro_batch)


NO_CONTRAST = {"contrast": {"weight": 0.0}}
ADDING = [("pgkpr", {**NO_CONTRAST, "reconstruction": {"reduction": "token_mean"}}),
          ("pgkpr", {**NO_CONTRAST, "reconstruction": {"reduction": "sent_mean", "weight": 0.5}}),
          ("transformer", {}), ("residual_lstm", {}), ("latent_bow", {}), ("ianet", {})]


@pytest.mark.parametrize(("architecture", "blocks"), ADDING)
def test_micro_batches_add_up_to_the_batch(architecture, blocks):
    """In values and in gradients; the contrast is left out, see test_gradient_cache.py."""
    task, items = make_task(architecture, **blocks), [5, 0, 4, 1, 6, 2, 7]
    step = Step(0, 10, 0, items)

    def parts_and_gradients(cuts):
        task.module.zero_grad(set_to_none=True)
        found = {}
        for cut in cuts:
            loss, parts = task.train_batch(task.load(cut), step)
            loss.backward()
            for name, value in {"loss": loss, **parts}.items():
                found[name] = found.get(name, 0.0) + float(value.detach())
        return found, {name: p.grad.clone() for name, p in task.module.named_parameters() if p.grad is not None}

    whole, gradients = parts_and_gradients([items])
    parts, added = parts_and_gradients([items[:3], items[3:4], items[4:]])
    assert whole == pytest.approx(parts, rel=1e-5)
    assert set(gradients) == set(added) and gradients
    for name, gradient in gradients.items():
        torch.testing.assert_close(added[name], gradient, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_parts_are_means_over_tokens_and_items_and_the_loss_weighs_them():
    """PGKPR eq. 5."""
    for reduction in ("token_mean", "sent_mean"):
        task = make_task(reconstruction={"reduction": reduction, "weight": 0.25}, contrast={"weight": 3.0})
        items = [0, 3, 4]
        batch = task.load(items)
        loss, parts = task.train_batch(batch, Step(0, 10, 0, items))
        sums = task.module.sums(batch, batch["p"] > 0.5)
        sources = [min(len(row), 8) for row in pairs("train")["source_words"].iloc[items]]
        targets = [min(len(row), 8) for row in pairs("train")["target_words"].iloc[items]]
        tokens = sum(2 * length + 3 for length in sources)
        assert float(parts["generation"]) == pytest.approx(float(sums["generation"]) / (sum(targets) + 3))
        assert float(parts["reconstruction"]) == pytest.approx(
            float(sums["reconstruction"]) / (tokens if reduction == "token_mean" else 3))
        assert float(parts["contrast"]) == pytest.approx(float(sums["contrast"]) / 3)
        assert float(parts["keyword_share"]) == pytest.approx(float(batch["p"].sum()) / sum(sources))
        assert float(loss) == pytest.approx(float(parts["generation"] + 0.25 * parts["reconstruction"]
                                                  + 3 * parts["contrast"]), rel=1e-6)


@pytest.mark.parametrize(("architecture", "blocks"), ADDING)
def test_validation_loss_is_the_loss_of_all_pairs_in_the_same_weights(architecture, blocks):
    task = make_task(architecture, micro_batch=1, **blocks)
    with torch.no_grad():
        found = task.validate()
        task.train = task.validation
        items = list(range(len(task.validation)))
        loss, parts = task.train_batch(task.load(items), Step(0, 1, 0, items))
    assert found == pytest.approx({"loss": float(loss), **{name: float(value) for name, value in parts.items()}},
                                  rel=1e-5)
    weights = part_weights(task.module.config)
    assert found["loss"] == pytest.approx(sum(weights[name] * value for name, value in found.items()
                                              if name in weights), rel=1e-6)


def test_coins_are_flipped_anew_for_every_batch_unless_they_are_fixed():
    for fixed in (False, True):
        task, seen = make_task(fixed=fixed, **NO_CONTRAST), []
        sums = task.module.sums

        def watched(batch, mask, sums=sums, seen=seen):
            seen.append(mask.clone())
            return sums(batch, mask)

        task.module.sums = watched
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            task.train_batch(task.load(range(N)), Step(0, 1, 0, list(range(N))))
        assert torch.equal(seen[0], seen[2])
        assert torch.equal(seen[0], seen[1]) is fixed


def train(store, architecture="pgkpr", frame=None, **blocks):
    torch.use_deterministic_algorithms(True)
    return fit_rewriter(pairs() if frame is None else frame, vocabulary(),
                        tiny_rewriters.settings(architecture, **blocks), tiny_rewriters.MAX_LENGTH, 13, store)


OTHERS = [("pgkpr", {}), ("pgkpr", {"keywords": {"flip": "offline", "mark_all": True}, "training": {"bucket": False}}),
          ("pgkpr", {"training": {"precision": "bf16"}, "contrast": {"neg": "all", "sim": "dot", "order": "sent_pos"}}),
          ("pgkpr", {"keywords": {"by": "psi"}}), ("latent_bow", {"latent_bow": {"gumbel": True}}), ("ianet", {}),
          ("residual_lstm", {})]


@pytest.mark.parametrize(("architecture", "blocks"), OTHERS)
def test_a_killed_training_ends_with_the_same_weights(tmp_path, architecture, blocks):
    whole = train(FolderCheckpoints(tmp_path / "whole", "a"), architecture, **blocks)
    with pytest.raises(Killed):
        train(DyingStore(tmp_path / "killed", "a"), architecture, **blocks)
    resumed = train(FolderCheckpoints(tmp_path / "killed", "a"), architecture, **blocks)
    for (name, one), two in zip(whole[0].state_dict().items(), resumed[0].state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    assert whole[1] == resumed[1]


@pytest.mark.parametrize("overrides", [{}, {"contrast": {"weight": 0.0}, "reconstruction": {"weight": 0.0}}])
def test_rows_are_selected_by_generation_alone(tmp_path, monkeypatch, overrides):
    values = iter([{"loss": 1.0, "generation": 3.0}, {"loss": 9.0, "generation": 1.0},
                   {"loss": 0.5, "generation": 2.0}])
    monkeypatch.setattr(RewriteTask, "validate", lambda task: next(values))
    _, history = train(FolderCheckpoints(tmp_path, "a"), **{**overrides, "training": {"epochs": 3}})
    assert history.best_epoch == 2


def test_items_are_plain_texts_with_their_strongest_word():
    items = plain_items(pairs().sample(frac=1, random_state=2))
    assert items["example_id"].tolist() == list(range(len(tiny_rewriters.EXAMPLES)))
    for row, (split, source, targets) in zip(items.itertuples(), tiny_rewriters.EXAMPLES, strict=True):
        assert (row.split, row.source, row.target, row.references) == (split, source, targets[0], targets)
        assert row.negatives == [] and row.keyword in source.split() and row.keyword != "?"
    assert items["target_keyword"].isna().all() and items["negative_keyword"].isna().all()


MODELS = {"pgkpr": {"dataset": "tiny"}, "plain": {"dataset": "tiny", "overrides": {"architecture": "transformer"}},
          "ianet": {"dataset": "tiny", "seeds": [5], "overrides": {"architecture": "ianet"}},
          "lstm": {"dataset": "tiny", "overrides": {"architecture": "residual_lstm"}},
          "bow": {"dataset": "tiny", "overrides": {"architecture": "latent_bow"}}}
ARCHITECTURE_OF = {"pgkpr": "pgkpr", "plain": "transformer", "ianet": "ianet", "lstm": "residual_lstm",
                   "bow": "latent_bow"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a model of every architecture, all at the rates of their own."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_rewriters.write_project(folder, MODELS, training={"learning_rate": None})
        for name in MODELS:
            assert main([name]) == 0
    return folder


@pytest.fixture
def trained(project, monkeypatch):
    monkeypatch.chdir(project)
    return {name: ModelPaths(name, model.get("seeds", [13])[0]) for name, model in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_stage_writes_model_history_items_pairs_and_metrics(trained, name):
    paths = trained[name]
    assert {path.name for path in paths.folder.iterdir()} == {"model", "history.csv", "items.parquet", "metrics.json",
                                                              "paraphrase_items.parquet", "vocabulary.parquet"}
    assert {path.name for path in paths.weights.iterdir()} == {"config.json", "model.safetensors", "vocabulary.json",
                                                               "digests.json", "trained_on.json", "README.md"}
    history, metrics = pd.read_csv(paths.history), json.loads(paths.metrics.read_text())
    assert metrics["epochs"] == len(history) == 2 and not metrics["stopped_early"]
    best = history.loc[history["validation_generation"].idxmin()]
    assert metrics["best_epoch"] == best["epoch"]
    for part, value in metrics["validation"].items():
        assert value == pytest.approx(best[f"validation_{part}"], rel=1e-6), part
    assert set(history["rate_all"]) == {RATES[ARCHITECTURE_OF[name]]}
    kinds = vocabulary().kinds
    assert metrics["vocabulary"] == {kind: kinds.count(kind) for kind in ("special", "tag", "word")}
    assert metrics["pairs"] == {"train": 8, "validation": 2, "test": 3}
    assert metrics["parameters"] == sum(p.numel() for p in load_rewriter(paths.weights).parameters())


def test_tables_of_a_model_are_those_of_the_data_set(trained):
    items = read_frame(trained["pgkpr"].items, SCHEMAS["items"])
    assert items["keyword"].notna().all() and items["target_keyword"].isna().all()
    assert list(map(list, items["references"]))[4] == tiny_rewriters.EXAMPLES[4][2]
    copied = read_frame(trained["pgkpr"].paraphrase_items, SCHEMAS["paraphrase_items"])
    whole = read_frame(DatasetPaths("tiny").table("paraphrase_items"), SCHEMAS["paraphrase_items"])
    pd.testing.assert_frame_equal(copied, whole[whole["split"] != "train"].reset_index(drop=True))
    assert read_metadata(trained["pgkpr"].paraphrase_items)["stage"] == "train_pgkpr@pgkpr"
    assert read_metadata(trained["pgkpr"].items)["precision"] == computed_in("fp32", False)
    config = json.loads((trained["pgkpr"].weights / "config.json").read_text())
    assert config["computed_in"] == computed_in("fp32", False)


def test_a_saved_model_rewrites_with_what_its_folder_holds(trained):
    for name, rule in (("pgkpr", "attribution"), ("plain", None), ("ianet", "psi")):
        words, on = load_lookup(trained[name].weights)
        assert words == vocabulary() and on == TrainedOn("tiny", rule, False, tiny_rewriters.MAX_LENGTH)
        model = load_rewriter(trained[name].weights)
        assert model.uses_keywords is (rule is not None) and not model.training
        card = (trained[name].weights / "README.md").read_text()
        assert f"# {name}: " in card and "data set `tiny`: 8 pairs, 2 for selection" in card
    assert "1 generation, 1 reconstruction, 0.1 contrast" in (trained["pgkpr"].weights / "README.md").read_text()
    with pytest.raises(InputError, match=r"no trained PGKPR model .vocabulary.json is missing"):
        load_lookup(trained["pgkpr"].folder)
