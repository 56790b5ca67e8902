"""What every architecture must do: learn eight items, ignore padding, follow its seed, load as it was saved, resume."""

from functools import partial

import piece_cases
import pytest
import recurrent_cases
import tiny_clld
import tiny_hcl
import torch
import transformer_cases
from memory_store import Killed, Memory
from test_training_loop import SEED
from torch.nn import functional as F

from models.clld.clld import ClldModel
from models.common import PAD
from models.common.task import Step, Task, moved
from models.common.training import Settings, fit
from models.hcl.baselines import load_pieces
from models.hcl.hcl import objective
from models.hcl.model import HclModel
from models.pgkpr.rewriters import load_rewriter


class Hcl:
    """HCL, with ``groups`` of its params changed."""

    rate, learnt = 1e-2, 0.1

    def __init__(self, folder, **groups):
        self.groups = {**groups, "decoder": {"layers": 1, "dropout": 0.0}}

    def model(self, seed=0):
        torch.manual_seed(seed)
        encoder = tiny_hcl.encoder_config(num_hidden_layers=1, hidden_dropout_prob=0.0,
                                          attention_probs_dropout_prob=0.0)
        return HclModel.from_parts(tiny_hcl.config(encoder, **self.groups), graph=tiny_hcl.keyword_graph())

    def batch(self, extra=0):
        return tiny_hcl.batch(8, extra=extra)

    def loss(self, model, batch):
        """The training loss, and the mean loss of a target token."""
        output = model(batch)
        return objective(output, model.config, 0.3)[0], (output.reconstruction / batch["y_in_mask"].sum(-1)).mean()

    load = HclModel.from_pretrained


class Pieces:
    """A baseline of HCL's table."""

    rate, learnt = 2e-2, 0.3

    def __init__(self, folder, name):
        self.folder, self.name = folder / "encoder", name

    def model(self, seed=0):
        self.case = piece_cases.Case(self.name, self.folder, seed)
        return self.case.model

    def batch(self, extra=0):
        return self.case.batch(extra=extra)

    def loss(self, model, batch):
        tokens = (batch["y_out"] != self.case.marks.pad).sum()
        step = Step(60 if self.name == "cvae" else 0, 100, 0, range(8))  # the whole KL; no reweighted tokens
        losses = model.trainee().objective(batch, step)["loss"]
        return losses.mean(), model.nll(batch).sum() / tokens

    def load(self, folder):
        return load_pieces(folder, self.case.architecture)


class Rewriter:
    """A rewriter of PGKPR's table."""

    rate, learnt = 5e-3, 0.2

    def __init__(self, folder, name, **values):
        self.name, self.values = name, values

    def model(self, seed=0):
        if self.name in recurrent_cases.ARCHITECTURES:
            return recurrent_cases.model(self.name, seed, width=32, dropout=0.0, **self.values)
        sizes = {"layers": 1, "heads": 2, "width": 32, "feed_forward": 64, "dropout": 0.0}
        return transformer_cases.model(self.name, seed, sizes=sizes)

    def batch(self, extra=0):
        batch, mask = transformer_cases.tagged_batch(8, seed=3)
        return {name: part if part.dim() == 1 or name == "bow_ids" else F.pad(part, (0, extra), value=PAD)
                for name, part in {**batch, "p": mask.float()}.items()}

    def loss(self, model, batch):
        parts = model.sums(batch, batch["p"] > 0 if model.uses_keywords else None)
        tokens = (batch["y_out"] != PAD).sum()
        return sum(parts.values()) / tokens, parts["generation"] / tokens

    load = staticmethod(load_rewriter)


class Classifier:
    """A classifier of CLLD."""

    rate, learnt = 1e-2, 0.1

    def __init__(self, folder, make):
        self.model = make

    def batch(self, extra=0):
        batch = tiny_clld.texts(8).batch(range(8))
        return batch | {name: F.pad(batch[name], (0, extra)) for name in ("input_ids", "attention_mask")}

    def loss(self, model, batch):
        loss = F.cross_entropy(model(batch["input_ids"], batch["attention_mask"]).float(), batch["labels"])
        return loss, loss

    load = ClldModel.from_pretrained


ARCHITECTURES = {
    "hcl": Hcl, "hcl without graph": lambda folder: Hcl(folder, graph={"iterations": 0}),
    "hcl without latent": lambda folder: Hcl(folder, latent={"enabled": False}),
    **{name: lambda folder, name=name: Pieces(folder, name)
       for name in ("transformer", "cvae", "group_wise", "seq2seq_du", "seq2seq", "dialogpt", "simctg", "t5",
                    "t5_claps")},
    **{f"pgkpr {name}": lambda folder, name=name: Rewriter(folder, name)
       for name in ("pgkpr", "transformer", "ianet", "residual_lstm", "latent_bow")},
    "pgkpr latent_bow by gumbel": lambda folder: Rewriter(folder, "latent_bow", gumbel=True),
    "textcnn": lambda folder: Classifier(folder, tiny_clld.textcnn),
    "bert": lambda folder: Classifier(folder, tiny_clld.bert)}


@pytest.fixture(params=ARCHITECTURES)
def case(request, tmp_path):
    return ARCHITECTURES[request.param](tmp_path)


def trained(case, steps, seed=0):
    model, batch = case.model(seed).train(), case.batch()
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=case.rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss, tokens = case.loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if tokens < case.learnt / 2:
            break
    return model.eval()


def losses(case, model, **options):
    torch.manual_seed(0)  # CLAPS draws a projection
    return case.loss(model, case.batch(**options))


def test_eight_items_are_learnt_by_heart(case):
    model = trained(case, 200)
    with torch.no_grad():
        assert losses(case, model)[1] < case.learnt


@torch.no_grad()
def test_padding_changes_nothing(case):
    model = case.model().eval()
    for short, long in zip(losses(case, model), losses(case, model, extra=4), strict=True):
        torch.testing.assert_close(short, long, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("groups", [{}, {"graph": {"iterations": 0}}, {"latent": {"enabled": False}}], ids=str)
def test_a_planned_batch_of_hcl_has_the_same_loss(groups, tmp_path):
    case = Hcl(tmp_path, **groups)
    model, batch = case.model().eval(), case.batch()
    planned = model.planned(batch)
    assert planned.keys() > batch.keys()
    host = {name for name, part in moved(planned, torch.device("meta")).items() if part.device.type == "cpu"}
    assert host == {"kw_sizes"} & planned.keys()
    for one, other in zip(case.loss(model, planned), case.loss(model, batch), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_under_autocast_losses_are_float32_and_near_those_without(case):
    model = case.model()
    whole = losses(case, model)
    with torch.autocast("cpu", torch.bfloat16):
        short = losses(case, model)
    assert {loss.dtype for loss in short} == {torch.float32}
    torch.testing.assert_close(short[1], whole[1], atol=0, rtol=0.05)
    short[0].backward()
    assert all(torch.isfinite(part.grad).all() for part in model.parameters() if part.grad is not None)


def test_the_same_seed_gives_the_same_bytes(case):
    first, second, other = (trained(case, 2, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@torch.no_grad()
def test_a_saved_model_gives_the_same_bits(case, tmp_path):
    model = case.model().eval()
    model.save_pretrained(tmp_path / "saved")
    loaded = case.load(tmp_path / "saved").eval()
    assert all(torch.equal(*pair) for pair in zip(losses(case, loaded), losses(case, model), strict=True))


class WholeBatch(Task):
    """Trains a case on all its items at once, and dies at a step."""

    train = validation = range(8)

    def __init__(self, case, kill_at=None):
        self.module, self.learning_rate, self.kill_at = case.model(), case.rate, kill_at
        self.loss, self.load = partial(case.loss, self.module), lambda items: case.batch()

    def train_batch(self, batch, step):
        if step.number == self.kill_at:
            raise Killed
        return self.loss(batch)[0], {}

    def validate(self):
        return {"loss": float(self.loss(self.load(()))[0])}


def test_a_killed_training_resumes_to_the_same_bytes(case):
    settings, store = Settings(epochs=3, batch_size=8), Memory()
    whole = WholeBatch(case)
    history = fit(whole, settings, Memory(), SEED)
    with pytest.raises(Killed):
        fit(WholeBatch(case, kill_at=2), settings, store, SEED)
    resumed = WholeBatch(case)
    assert fit(resumed, settings, store, SEED) == history
    expected = whole.module.state_dict()
    assert all(torch.equal(part, expected[name]) for name, part in resumed.module.state_dict().items())
