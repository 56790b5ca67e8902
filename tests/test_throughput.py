"""Throughput: counted operations against torch's own count, and the figures of a record."""

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_hcl
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness import Disagreement
from benchmarks.trainings import Ran, same_training
from models.common.encoders import freeze_lower_layers
from models.common.training import Seq2SeqCost, Speed, Work, measured_peak
from models.hcl import HclModel

ROOT = Path(__file__).parents[1]


def counted(model, batch):
    """Operations of a forward and a backward pass as torch counts them."""
    counter = FlopCounterMode(display=False)
    with counter:
        output = model.train()(batch)
        loss = output.reconstruction.sum()
        if output.latent is not None:
            loss = loss + output.latent.kl.sum() + output.latent.bow.sum() + output.contrasts["instance"].loss.sum()
        loss.backward()
    return counter.get_total_flops()


def lengths(batch, name):
    return batch[f"{name}_mask"].sum(-1).numpy()


def alike(size, length):
    """A batch without padding, so that real tokens are all there are."""
    batch = tiny_hcl.batch(size)
    for name, width in (("x", length), ("y", length - 2), ("neg", length - 1), ("y_in", length - 3)):
        texts = torch.arange(size * width).view(size, width) % 25 + 5
        batch |= {f"{name}_ids" if name != "y_in" else name: texts,
                  f"{name}_mask": torch.ones(size, width, dtype=torch.bool)}
    return {**batch, "y_out": batch["y_in"]}


@pytest.mark.parametrize(("freeze", "exact"), [(0, 0.005), (1, 0.05), (2, 0.005)])
def test_operations_of_the_backbone_are_those_that_torch_counts(freeze, exact):
    """Within 0.5 %; within 5 % where layers are frozen, whose lowest neighbour needs no gradient of its input."""
    model = tiny_hcl.model(encoder=tiny_hcl.encoder_config(num_hidden_layers=3), latent={"enabled": False},
                           keyword={"condition": False})
    freeze_lower_layers(model.encoder, freeze)
    if freeze == 2:
        freeze_lower_layers(model.encoder, 3)
    frozen = {0: 0, 1: 1, 2: 3}[freeze]
    batch = alike(4, 9)
    cost = Seq2SeqCost(16, 32, 3, 2, tiny_hcl.VOCABULARY, frozen, embeddings_frozen=frozen > 0)
    found = cost.encoder(lengths(batch, "x")) + cost.decoder(lengths(batch, "y_in"), lengths(batch, "x"))
    # Where the whole encoder is frozen, keys and values of the memory need no gradient of it.
    spared = (2 * 4 * 16 * 16 * 9 * 2) * 4 / 2 if frozen == 3 else 0
    assert found.sum() - spared == pytest.approx(counted(model, batch), rel=exact)


def test_operations_of_hcl_are_within_a_tenth_of_what_torch_counts():
    """Latent networks are not counted; beside a width of 64 and texts of 20 tokens, they take less than a tenth."""
    encoder = tiny_hcl.encoder_config(hidden_size=64, intermediate_size=256)
    model = HclModel(tiny_hcl.config(encoder, latent={"size": 8}, keyword={"condition": False}))
    batch = alike(4, 20)
    batch["eps"] = torch.zeros(4, 8)
    cost = Seq2SeqCost(64, 256, 2, 2, tiny_hcl.VOCABULARY)
    found = sum(cost.encoder(lengths(batch, name)) for name in ("x", "y", "neg"))
    found = found + cost.decoder(lengths(batch, "y_in"), lengths(batch, "x") + 1) + cost.scores(np.ones(4))
    assert 0.9 < found.sum() / counted(model, batch) < 1.0


def test_figures_of_a_record():
    speed = Speed()
    assert speed.summary(peak=1e6) == {}
    for seconds in (1.0, 4.0, 1.0):
        speed.add(8, seconds, Work(tokens=100, flops=3e5))
    assert speed.summary(peak=1e6) == {
        "steps": 3, "items_per_second": 4.0, "seconds_per_step_median": 1.0, "checkpoints": 0,
        "checkpoint_seconds": 0.0, "tokens_per_second": 50.0, "flops_per_step": 3e5, "peak_flops_per_second": 1e6,
        "mfu": pytest.approx(0.15)}
    speed.add_checkpoint(2.0)
    speed.add_checkpoint(4.0)  # twelve seconds in all
    assert speed.summary(peak=1e6) == {
        "steps": 3, "items_per_second": 2.0, "seconds_per_step_median": 1.0, "checkpoints": 2,
        "checkpoint_seconds": 6.0, "tokens_per_second": 25.0, "flops_per_step": 3e5, "peak_flops_per_second": 1e6,
        "mfu": pytest.approx(0.075)}
    assert "mfu" not in speed.summary()
    plain = Speed()
    plain.add(8, 2.0, None)
    assert plain.summary(peak=1e6) == {"steps": 1, "items_per_second": 4.0, "seconds_per_step_median": 2.0,
                                       "checkpoints": 0, "checkpoint_seconds": 0.0}


def test_only_the_latest_steps_are_kept_for_the_median():
    speed = Speed()
    for number in range(700):
        speed.add(1, float(number), None)
    assert speed.recent == [float(number) for number in range(200, 700)] and speed.steps == 700


def test_the_peak_is_that_of_a_matrix_product():
    """No product of the same size does more operations per second, but for the noise of the machine."""
    peak = measured_peak("cpu", seconds=0.05)
    assert 1e8 < peak < 1e14


@pytest.mark.parametrize(("loss", "weight", "said"), [
    (2.5, 1.0, "losses differ by up to 0.5 and the weights after 1 steps by up to 0"),
    (2.0, 1.25, "losses differ by up to 0 and the weights after 1 steps by up to 0.25")])
def test_the_benchmark_times_nothing_that_trains_another_model(loss, weight, said):
    def ran(loss, weight):
        return Ran(losses=[torch.tensor(loss)], weights={"w": torch.tensor([weight])})

    with pytest.raises(Disagreement, match=said):
        same_training("tiny", ran(2.0, 1.0), ran(loss, weight))
    assert "by at most 0" in same_training("tiny", ran(2.0, 1.0), ran(2.0, 1.0))


FAULTS = """
import resource, sys
import numpy as np
from stages.run.processes import keep_freed_memory

_, how, size, times = sys.argv
kept = how == "keep" and keep_freed_memory()

def touch():
    np.empty(int(size), dtype=np.uint8)[::4096] = 1

touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(int(times)):
    touch()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.whole
@pytest.mark.parametrize(("size", "times"), [(2**26, 20), (2**31 + 2**28, 2)])  # more than fits the C library's number
def test_freed_memory_is_kept_for_the_next_request_where_the_c_library_can(size, times):
    found = [subprocess.run([sys.executable, "-c", FAULTS, how, str(size), str(times)], capture_output=True, text=True,
                            check=True, cwd=ROOT).stdout.split() for how in ("plain", "keep")]
    (_, plain), (kept, faults) = [tuple(map(int, words)) for words in found]
    assert kept == (platform.libc_ver()[0] == "glibc")
    assert faults * 4 < plain or not kept
