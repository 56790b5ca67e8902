"""Gradient caching: a contrast of the whole batch, whatever the micro-batches, with the gradient of the whole batch."""

import os
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context

import pytest
import tiny_clld
import tiny_rewriters
import torch
from memory_store import Memory
from torch import distributed as group

from models.common.task import Step
from models.common.training import Settings, cached_contrast, fit
from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import rewriter_of
from stages.common.seeds import derived_seed
from stages.tracks.pgkpr.items import Vocabulary
from stages.tracks.pgkpr.train import RewriteTask, training_batches

SEED = partial(derived_seed, 5, "test")
ITEMS = (5, 0, 4, 1, 6, 2, 7, 3)
STEP = Step(0, 1, 0, ITEMS)
CUTS = [(2, 2, 2, 2), (3, 3, 2), (1, 7), (1,) * 8]
PAIRS = [[0, 1]]
CLASSIFIERS = [{"contrast": {"kind": "label_distance"}, "distance": {"kind": "static_tau_pairs", "pairs": PAIRS}},
               {"contrast": {"kind": "label_distance"}, "ce_views": "both"}, {"contrast": {"kind": "supervised"}},
               {"contrast": {"kind": "twin"}}]
REWRITERS = [{"contrast": {"weight": 2.0}}, {"contrast": {"weight": 0.5, "neg": "all", "sim": "dot"}},
             {"contrast": {"weight": 1.0}, "reconstruction": {"reduction": "sent_mean"}}]


def classifier(changes, dropout=False):
    """A classifier in double precision, and its task."""
    one = tiny_clld.task(tiny_clld.textcnn(**changes))
    one.module.double().train(dropout)
    return one


def rewriter(blocks, dropout=False, micro_batch=3, batch_size=None):
    """A PGKPR model in double precision, whose keywords are certain, and its task."""
    blocks = {"keywords": {"flip": "offline", "train_scores": "xy"}, **blocks}
    values, words = tiny_rewriters.settings(**blocks), Vocabulary.from_frame(tiny_rewriters.vocabulary_frame())
    batches = training_batches(tiny_rewriters.items(), words, values, tiny_rewriters.MAX_LENGTH, seed=1)
    torch.manual_seed(0)
    model = rewriter_of(RewriterConfig.from_params(values, words.size)).double()
    return RewriteTask(model.train(dropout), *batches, 1e-2, micro_batch, batch_size)


TASKS = [*(partial(classifier, changes) for changes in CLASSIFIERS),
         *(partial(rewriter, blocks) for blocks in REWRITERS)]
each_task = pytest.mark.parametrize("make", TASKS)


def runs_of(sizes):
    ends = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    return [list(ITEMS[start:end]) for start, end in zip(ends, ends[1:], strict=False)]


def begun(number, seeds=(1,)):
    torch.manual_seed(100 * seeds[0] + number)
    return nullcontext()


def gradients(task):
    return {name: p.grad.clone() for name, p in task.module.named_parameters() if p.grad is not None}


def cached(task, sizes, second=begun):
    """Gradients and values of the loss by gradient caching."""
    task.module.zero_grad(set_to_none=True)
    runs = runs_of(sizes)
    own = [(number, task.load(run)) for number, run in enumerate(runs)]
    shares, by_vectors = cached_contrast(task, STEP, runs, own, begun)
    found = {name: value.item() for name, value in shares.items()}
    for number, batch in own:
        with second(number):
            loss, parts, vectors = task.without_contrast(batch, STEP)
        torch.autograd.backward([loss, vectors], [None, by_vectors[number].to(vectors.dtype)])
        for name, value in {"loss": loss, **parts}.items():
            found[name] = found.get(name, 0.0) + value.item()
    return gradients(task), found


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-8)  # cross-entropies are fp32


@each_task
@pytest.mark.parametrize("sizes", CUTS)
def test_the_gradient_is_that_of_the_whole_batch(make, sizes):
    task = make()
    assert task.contrasts
    loss, parts = task.train_batch(task.load(ITEMS), STEP)
    loss.backward()
    expected, values = gradients(task), {"loss": loss.item(), **{name: value.item() for name, value in parts.items()}}
    found, own = cached(task, sizes)
    assert_close(found, expected)
    assert own == pytest.approx(values, rel=1e-6)


@each_task
def test_with_dropout_it_is_that_of_one_graph_over_all_micro_batches(make):
    task = make(dropout=True)
    shares, vectors = [], []
    for number, run in enumerate(runs_of((3, 3, 2))):
        with begun(number):
            share, _, found = task.without_contrast(task.load(run), STEP)
        shares.append(share)
        vectors.append(found)
    (sum(shares) + task.contrast(torch.cat(vectors), STEP)[0]).backward()
    expected = gradients(task)
    assert_close(cached(task, (3, 3, 2))[0], expected)
    # Another draw in the second pass would be another function than the one whose gradient was taken.
    other, _ = cached(task, (3, 3, 2), partial(begun, seeds=(2,)))
    assert any(not torch.allclose(other[name], value, rtol=1e-3) for name, value in expected.items())


def trained(make, **settings):
    task = make()
    history = fit(task, Settings(epochs=2, **settings), Memory(), SEED)
    return task.module.state_dict(), history


def without_dropout(make):
    one = make()
    for part in one.module.modules():
        for name in ("p", "dropout"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return one


@pytest.mark.parametrize("blocks", REWRITERS)
def test_validation_pairs_are_contrasted_in_batches_however_many_pass_at_a_time(blocks):
    whole = rewriter(blocks, micro_batch=2)
    with torch.no_grad():
        expected = whole.validate()
        for micro_batch, batch_size in ((1, 2), (2, 2)):
            assert rewriter(blocks, micro_batch=micro_batch, batch_size=batch_size).validate() == pytest.approx(
                expected, rel=1e-6)
        assert len(whole.validation) >= 2
        assert rewriter(blocks, micro_batch=1).validate()["contrast"] != pytest.approx(expected["contrast"])


def share(folder, rank, world):
    """Train as one of several processes, of which the last has no micro-batch."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world)
    make = partial(without_dropout, partial(classifier, CLASSIFIERS[0]))
    weights, history = trained(make, batch_size=6, micro_batch=3)
    torch.save({"weights": weights, "contrast": [row["train_contrast"] for row in history.rows]}, folder / f"{rank}.pt")


@pytest.mark.whole
def test_processes_contrast_the_whole_batch_together_even_those_without_a_micro_batch(tmp_path):
    server = get_context("forkserver")
    server.set_forkserver_preload(["models.clld.clld", "stages.tracks.pgkpr.train"])
    processes = [server.Process(target=share, args=(tmp_path, rank, 3)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=300)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    weights, history = trained(partial(without_dropout, partial(classifier, CLASSIFIERS[0])), batch_size=6)
    for rank in range(3):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert_close(found["weights"], weights)
        assert found["contrast"] == pytest.approx([row["train_contrast"] for row in history.rows], rel=1e-6)
