"""Baselines that are models of transformers: DialoGPT, SimCTG, T5 and T5-CLAPS (METHODS B5, B7, B9, F)."""

import pytest
import tiny_pretrained
import torch
from tiny_pretrained import CLAPS, CLASSES, END, MEAN, PROMPTED, VOCABULARY, batch, model, outputs, rules, texts
from torch.nn import functional as F
from transformers import AutoConfig

from models.baselines.claps import Claps, step_of
from models.baselines.simctg import token_contrast
from models.baselines.t5 import T5, t5_config
from models.decoding import beam_search, contrastive_search
from models.training import Step

STEP = Step(0, 10, 0, range(5))


class Plain:
    """A model as searches take steps with it, each by a whole pass over all that came before."""

    def __init__(self, found, given):
        self.found, self.given, self.rows = found, given, torch.arange(len(given["x_ids"]))
        self.tokens = torch.empty(len(self.rows), 0, dtype=torch.int64)

    def step(self, tokens):
        self.shape = tokens.shape
        self.tokens = torch.cat([self.tokens, tokens.reshape(-1, 1)], dim=1)
        own = {name: self.given[name][self.rows] for name in ("x_ids", "x_mask")}
        own |= {"y_in": self.tokens, "y_in_mask": torch.ones_like(self.tokens, dtype=torch.bool)}
        states = self.found.states(own)
        last = states[0 if isinstance(states[1], torch.Tensor) and states[1].dtype == torch.bool else 1][:, -1]
        return last.view(*self.shape, -1)

    def logits(self, states):
        return self.found.lm_head(states)

    def reorder(self, parents):
        chosen = (torch.arange(len(parents))[:, None] * self.shape[1] + parents).flatten()
        self.rows, self.tokens, self.shape = self.rows[chosen], self.tokens[chosen], parents.shape

    def keep(self, items):
        chosen = (items[:, None] * self.shape[1] + torch.arange(self.shape[1])).flatten()
        self.rows, self.tokens = self.rows[chosen], self.tokens[chosen]


def start(name, count):
    return torch.full((count,), END if name in PROMPTED else tiny_pretrained.PAD)


# All of them


@pytest.mark.parametrize("name", CLASSES)
def test_padding_and_neighbours_change_no_loss(name):
    found, (sources, targets) = model(name), texts()
    whole = found.nll(batch(name, (sources, targets)))
    assert torch.allclose(found.nll(batch(name, (sources, targets), extra=3)), whole)
    for item in range(len(sources)):
        alone = found.nll(batch(name, ([sources[item]], [targets[item]])))
        assert torch.allclose(alone, whole[[item]])


@pytest.mark.parametrize("name", ["dialogpt", "t5"])
@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"length_penalty": 0.0}, {"length_penalty": 2.0}])
def test_generate_finds_what_every_other_row_is_searched_by(name, options):
    options = {"num_beams": 4, "length_penalty": 1.0, **options}
    for seed in range(3):
        found, given = model(name, seed), batch(name, texts(6, seed))
        ours = beam_search(Plain(found, given), start(name, 6), rules(), **options)
        assert outputs(found.rewrite(given, rules(), **options)) == outputs(ours)


@pytest.mark.parametrize("name", ["dialogpt", "t5"])
def test_a_text_has_the_output_that_it_has_alone(name):
    found, (sources, targets) = model(name), texts(6)

    def rewritten(given):
        return outputs(found.rewrite(given, rules(1, 8), num_beams=3))

    together = rewritten(batch(name, (sources, targets)))
    assert len({len(row) for row in together}) > 1
    for item, expected in enumerate(together):
        alone = batch(name, ([sources[item]], [targets[item]]))
        assert rewritten(alone) == [expected]


@pytest.mark.parametrize("name", ["dialogpt", "t5"])
@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (5, 5), (3, 7)])
def test_bounds_count_generated_tokens_alone_and_banned_ones_stay_out(name, shortest, longest):
    banned = (tiny_pretrained.PAD, 1, 2, 4, 7)
    rows = outputs(model(name).rewrite(batch(name, texts(6)), rules(shortest, longest, banned), num_beams=4))
    assert all(shortest <= len(row) <= longest for row in rows)
    assert not set(banned) & {token for row in rows for token in row}


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_hub_says_of_decoding_is_not_looked_at(name):
    found, given = model(name), batch(name, texts())
    expected = found.rewrite(given, rules(), num_beams=2)
    found.generation_config.update(no_repeat_ngram_size=1, max_new_tokens=2, do_sample=True, num_beams=1)
    assert torch.equal(found.rewrite(given, rules(), num_beams=2), expected)
    with pytest.raises(ValueError, match="call eval"):
        found.train().rewrite(given, rules())


@pytest.mark.parametrize("name", CLASSES)
def test_a_saved_model_is_one_of_the_library_with_the_same_loss(name, tmp_path):
    found, given = model(name), batch(name, texts())
    found.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file() and not list(tmp_path.glob("*.bin"))
    again, report = CLASSES[name].from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(again.double().eval().nll(given), found.nll(given))
    assert again.config.model_type == ("gpt2" if name in PROMPTED else "t5")


def taught(name, given, steps):
    found = model(name, seed=1).float()
    torch.manual_seed(5)
    whole = found.trainee().train()
    optimiser = torch.optim.Adam(whole.parameters(), lr=0.02)
    for number in range(steps):
        optimiser.param_groups[0]["lr"] = 0.02 * (1 - number / steps)
        optimiser.zero_grad()
        whole.objective(given, STEP)["loss"].mean().backward()
        optimiser.step()
    return found.eval()


@pytest.mark.parametrize("name", CLASSES)
def test_eight_items_are_learnt_by_heart(name):
    pairs = texts(8, seed=3)
    given = batch(name, pairs)
    found = taught(name, given, steps=120)
    assert outputs(found.rewrite(given, rules(2, 6), num_beams=4)) == pairs[1]


@pytest.mark.parametrize("name", CLASSES)
def test_the_same_seed_learns_the_same(name):
    given = batch(name, texts(8, seed=3))
    found, again = (taught(name, given, steps=3) for _ in range(2))
    assert all(torch.equal(*both) for both in zip(found.parameters(), again.parameters(), strict=True))


# DialoGPT


def test_dialogpt_loses_what_the_library_does_with_the_source_left_out_of_the_labels():
    found, (sources, targets) = model("dialogpt"), texts()
    ours = found.nll(batch("dialogpt", (sources, targets)))
    for item, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ids = torch.tensor([[*source, END, *target, END]])
        labels = ids.masked_fill(torch.arange(ids.shape[1]) <= len(source), -100)
        loss = found(input_ids=ids, labels=labels).loss.double() * (len(target) + 1)  # it is computed in float32
        assert torch.allclose(loss, ours[item], rtol=1e-5)


def test_dialogpt_predicts_nothing_of_the_source():
    found, given = model("dialogpt"), batch("dialogpt", texts())
    states, _ = found.states(given)
    expected, ends = found.of_targets(states, given), given["x_ids"].shape[1] - 1
    changed = states.clone()
    changed[:, :ends] += 1.0
    assert torch.equal(found.of_targets(changed, given), expected)
    changed[:, ends] += 1.0
    assert not torch.isclose(found.of_targets(changed, given), expected).any()


@pytest.mark.parametrize("top_k", [1, 4])
def test_dialogpt_is_decoded_by_contrastive_search_too(top_k):
    found, (sources, targets) = model("dialogpt", 2), texts(6)
    given = batch("dialogpt", (sources, targets))
    steps, first = found.begin(given, slots=100)
    together = contrastive_search(steps, first, rules(), top_k=top_k)
    assert torch.equal(together, contrastive_search(Plain(found, given), start("dialogpt", 6), rules(), top_k=top_k))
    assert top_k > 1 or outputs(together) == outputs(found.rewrite(given, rules()))
    steps, first = found.begin(batch("dialogpt", ([[]], [[5]])), slots=100)
    assert contrastive_search(steps, first, rules()).shape[0] == 1


# SimCTG


def test_the_contrast_between_tokens_is_the_mean_over_ordered_pairs():
    states = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    real = torch.arange(5) < torch.tensor([[5], [3], [1]])
    expected = []
    for row, length in zip(states, (5, 3, 1), strict=True):
        pairs = [max(0.0, 0.8 - 1 + float(F.cosine_similarity(row[i], row[j], dim=0)))
                 for i in range(length) for j in range(length) if i != j]
        expected.append(sum(pairs) / max(1, len(pairs)))
    assert torch.allclose(token_contrast(states, real, 0.8), torch.tensor(expected))
    alike = torch.ones(1, 4, 2)
    assert torch.allclose(token_contrast(alike, alike[..., 0].bool()), torch.tensor([0.5]))
    assert token_contrast(torch.eye(4)[None], torch.ones(1, 4, dtype=torch.bool)).item() == 0


def test_simctg_adds_its_contrast_to_dialogpts_loss_and_is_selected_without_it():
    found, given = model("simctg"), batch("simctg", texts())
    parts = found.objective(given, STEP)
    states, real = found.states(given)
    assert torch.allclose(parts["loss"], found.nll(given) + MEAN * token_contrast(states, real, 0.5))
    assert torch.equal(found.validation(given)["loss"], found.nll(given)) and (parts["contrast"] > 0).all()
    none = model("simctg", margin=0.0)
    assert torch.equal(none.objective(given, STEP)["loss"], none.nll(given))


# T5


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_t5_loses_what_the_library_does_whether_or_not_its_words_are_tied(kind, tied, tmp_path):
    library, (sources, targets) = model(kind, tie_word_embeddings=tied), texts()
    if not tied:
        library.lm_head.weight = torch.nn.Parameter(library.lm_head.weight.flip(0))
    library.save_pretrained(tmp_path)
    found = T5.from_pretrained(tmp_path, config=t5_config(AutoConfig.from_pretrained(tmp_path))).double().eval()
    ours = found.nll(batch("t5", (sources, targets)))
    for item, (source, target) in enumerate(zip(sources, targets, strict=True)):
        loss = library(input_ids=torch.tensor([[*source, END]]), labels=torch.tensor([[*target, END]])).loss
        assert torch.allclose(loss * (len(target) + 1), ours[item])


# T5-CLAPS


@pytest.fixture
def claps():
    """Its objective, and of a batch z of the sources, H, targets and which are real."""
    found, given = model("t5_claps"), batch("t5_claps", texts())
    torch.manual_seed(0)
    whole = found.trainee().double()
    with torch.no_grad():
        encoded, states = found.states(given)
        source = whole.pooled(encoded, given["x_mask"])
    return whole, source, states, given["y_out"], given["y_in_mask"]


def views(whole, *given, **settings):
    whole.settings = {**CLAPS, **settings}
    return whole.views(*given)


def far_before_its_way_back(whole, source, states, targets, real):
    """H moved away from the source alone: the way back is a step too, so that the farthest point is known by it."""
    seen, divergence = [], whole.divergence

    def watched(before, moved, real):
        seen.append(moved.detach().clone())
        return divergence(before, moved, real)

    whole.divergence = watched
    whole.views(source, states, targets, real)
    del whole.divergence
    return seen[0]


def test_views_are_as_far_from_the_states_as_asked(claps):
    whole, _, states, _, real = claps
    near, far = views(*claps)
    gone = far_before_its_way_back(*claps)
    for moved, length in ((near - states, 1.0), (gone - states, 3.0), (far - gone, 3.0)):
        assert torch.allclose(moved.norm(dim=-1)[real], torch.tensor(length, dtype=torch.float64))
        assert not moved[~real].any()


def test_views_do_what_they_are_for(claps):
    whole, source, states, targets, real = claps
    for small in (1e-3, 1e-2):
        near, _ = views(*claps, eps_neg=small, eps_pos=small)
        gone = far_before_its_way_back(*claps)
        assert whole.nll(near, targets, real) > whole.nll(states, targets, real)
        assert whole.unlikeness(source, gone, real) > whole.unlikeness(source, states, real)
    views(*claps)  # from as far as the paper goes, the direction of the way back restores the distribution
    gone = far_before_its_way_back(*claps)
    back = step_of(1e-2, gone, lambda moved: whole.divergence(states, moved, real), real)
    assert whole.divergence(states, gone - back, real) < whole.divergence(states, gone, real)
    assert whole.divergence(states, states, real) == 0


def test_views_leave_no_gradient_behind_and_are_constant_steps(claps):
    whole, source, states, targets, real = claps
    states = states.requires_grad_()
    moved = [view - states for view in whole.views(source, states, targets, real)]
    assert all(parameter.grad is None for parameter in whole.parameters()) and states.grad is None
    for step in moved:
        (gradient,) = torch.autograd.grad(step.sum(), states, allow_unused=True)
        assert gradient is None or not gradient.any()


def test_without_a_step_both_contrasts_see_the_same_columns(claps):
    whole, source, states, targets, real = claps
    near, far = views(*claps, eps_neg=0.0, eps_pos=0.0)
    assert torch.equal(near, states) and torch.equal(far, states)
    first, second = whole.contrasts(source, states, near, far, real)
    assert torch.allclose(first, second)
    scores = F.cosine_similarity(source[:, None], whole.pooled(states, real)[None], dim=-1) / 0.1
    columns = torch.cat([scores, scores.diagonal()[:, None]], dim=1)
    assert torch.allclose(first, F.cross_entropy(columns, torch.arange(5), reduction="none"))


def test_contrasts_are_those_of_the_paper_or_of_the_released_code(claps):
    whole, source, states, targets, real = claps
    near, far = views(*claps)
    z, bad, good = (whole.pooled(each, real) for each in (states, near, far))

    def cosine(left, right):
        return float(left @ right / left.norm() / right.norm())

    for both, tau in ((True, 0.1), (False, 1.0)):
        whole.settings = {**CLAPS, "claps_tau_both": both}
        first, second = (found.detach() for found in whole.contrasts(source, states, near, far, real))
        for item in range(5):
            between = [cosine(source[item], z[other]) for other in range(5)]
            wrong = cosine(source[item], bad[item])
            scores = torch.tensor([*between, wrong]) / 0.1
            assert first[item] == pytest.approx(float(scores.logsumexp(0) - scores[item]), rel=1e-5)
            between[item] = cosine(source[item], good[item])
            scores = torch.tensor([*between, wrong]) / tau
            assert second[item] == pytest.approx(float(scores.logsumexp(0) - scores[item]), rel=1e-5)


def test_claps_adds_half_of_both_contrasts_and_saves_no_projection(claps):
    whole, given = claps[0], batch("t5_claps", texts())
    assert isinstance(whole, Claps) and whole.model.trainee() is not whole
    parts = whole.float().objective(given, STEP)
    near, far = whole.views(*(claps[1].float(), claps[2].float()), *claps[3:])
    first, second = whole.contrasts(claps[1].float(), claps[2].float(), near, far, claps[4])
    assert torch.allclose(parts["loss"], whole.model.nll(given) + MEAN * (first + second) / 2, rtol=1e-4)
    parts["loss"].sum().backward()
    assert all(parameter.grad is not None for parameter in whole.parameters())
    assert not [name for name in whole.model.state_dict() if "projection" in name] and VOCABULARY == 30
