"""Operations, waits, copies and sorts of every training and decoding stay within ``tests/budgets.json``.

They are measured on the pretend device, and written anew by ``PYTHONPATH=tests:. python -m pretend --write``: after a
change that lowers them, so that they stay there.
"""

import pytest
from pretend import budgets, workloads
from pretend.measure import decoded_token, micro_batch

from models.clld import ClldTask

BUDGETS = budgets.read()

pytestmark = pytest.mark.skipif(BUDGETS["versions"] != budgets.versions(),
                                reason="operations are those of other versions of torch and transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("workloads")


@pytest.mark.parametrize("name", BUDGETS["micro_batch"])
def test_a_micro_batch_costs_no_more_than_before(folder, name):
    work = workloads.trainings(folder)[name]()
    record = micro_batch(work.stage, work.train)
    assert_within(record.figures(), BUDGETS["micro_batch"][name]["now"], record.table())


@pytest.mark.parametrize("name", BUDGETS["token"])
def test_a_decoded_token_costs_no_more_than_before(name):
    assert_within(decoded_token(workloads.decodings()[name]()), BUDGETS["token"][name]["now"], "")


def test_every_training_and_decoding_has_a_budget(folder):
    assert list(workloads.trainings(folder)) == list(BUDGETS["micro_batch"])
    assert list(workloads.decodings()) == list(BUDGETS["token"])


def test_one_more_wait_is_too_many(folder, monkeypatch):
    inner, work = ClldTask.train_batch, workloads.trainings(folder)["ct-textcnn"]()

    def curious(self, batch, step):
        loss, parts = inner(self, batch, step)
        assert loss.item() > 0
        return loss, parts

    before = micro_batch(work.stage, work.train).figures()
    monkeypatch.setattr(ClldTask, "train_batch", curious)
    record = micro_batch(work.stage, work.train)
    said = f"waits: {before['waits'] + 1} > {before['waits']}\n.*_local_scalar_dense"
    with pytest.raises(AssertionError, match=said):
        assert_within(record.figures(), {**before, "operations": 10**6}, record.table().replace("\n", ";"))


def assert_within(figures, budget, table):
    above = [f"{name}: {found:g} > {budget[name]:g}" for name, found in figures.items() if found > budget[name]]
    assert not above, f"{', '.join(above)}\n{table}"
