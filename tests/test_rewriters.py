"""PGKPR, the plain Transformer and what IANet shares with them: sizes, losses, switches, decoding, TS_s."""

import math

import pytest
import torch
from torch.nn import functional as F
from transformer_cases import FIRST_WORD, RULES, encoded, model, peaked, tagged_batch, tagged_item
from whole_steps import WholeSteps

from models.common import BOS, EOS, IGNORE, NOK, PAD, SEP
from models.common.decoding import beam_search
from models.common.transformer import Embedder, sinusoids
from models.pgkpr.pgkpr import RewriterConfig, counterpart, perturbed
from models.pgkpr.rewriters import rewriter_of

ATTENTIVE = ("pgkpr", "transformer", "ianet")  # IANet's own facts are in test_ianet.py
ALL_NEGATIVES = {"neg": "all", "sim": "dot", "order": "sent_pos"}
each_attentive = pytest.mark.parametrize("architecture", ATTENTIVE)


def total(parts):
    return sum(parts.values())


def gradients(built, parts):
    built.zero_grad(set_to_none=True)
    total(parts).backward()
    return {name: parameter.grad for name, parameter in built.named_parameters()}


@pytest.mark.parametrize(("architecture", "parameters"), [
    ("pgkpr", 56_708_224), ("transformer", 52_340_544), ("ianet", 48_136_000)])
def test_parameters_at_the_size_of_the_paper(architecture, parameters):
    with torch.device("meta"):
        built = rewriter_of(RewriterConfig(architecture, vocab_size=8000))
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters


@each_attentive
def test_weights_begin_by_the_rule_of_xavier(architecture):
    for name, parameter in model(architecture).named_parameters():
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.8 * bound < float(parameter.detach().abs().max()) <= bound, name
        else:
            assert (parameter == float("norm" in name and "weight" in name)).all(), name


def test_embeddings_are_scaled_by_the_root_of_the_width_and_positions_are_sines_and_cosines_in_turn():
    table = sinusoids(torch.arange(5), 7)
    for position in range(5):
        for place in range(7):
            angle = position / 10000 ** ((place - place % 2) / 7)
            assert float(table[position, place]) == pytest.approx(math.cos(angle) if place % 2 else math.sin(angle),
                                                                  abs=1e-6)
    embedder, ids = Embedder(9, 16, 0.0), torch.tensor([[3, 8, 3]])
    words = 4 * embedder.words.weight[ids]
    torch.testing.assert_close(embedder(ids), words + sinusoids(torch.arange(3), 16))
    torch.testing.assert_close(embedder(ids, position=1), words + sinusoids(torch.tensor([1]), 16))


@each_attentive
def test_generation_is_the_sum_of_token_losses_of_each_item_alone(architecture):
    """PGKPR eq. 4."""
    built, (batch, mask) = model(architecture), tagged_batch()
    expected = 0.0
    for row in range(5):
        own, own_mask = tagged_item(batch, mask, row)
        chances = built.generator(built.decode(own["y_in"], built.memory(own, own_mask))).log_softmax(-1)
        expected -= sum(chances[0, place, token] for place, token in enumerate(own["y_out"][0]))
    torch.testing.assert_close(built.sums(batch, mask)["generation"], expected, atol=1e-4, rtol=1e-5)


def test_the_transformer_reads_the_plain_words_of_the_source():
    built, (batch, mask) = model("transformer"), tagged_batch()
    assert set(built.sums(batch, None)) == {"generation"} and not built.uses_keywords
    torch.testing.assert_close(built.sums(batch, mask), built.sums(batch | {"x_tags": batch["x_tags"] * 0}, ~mask))


def test_inner_dropout_falls_on_the_feed_forward_networks_alone():
    built, (batch, mask) = model("transformer", sizes={"inner_dropout": True, "dropout": 0.5}), tagged_batch()
    assert built.state_dict().keys() == model("transformer").state_dict().keys()
    whole = total(built.sums(batch, mask))
    assert torch.equal(whole, total(model("transformer").sums(batch, mask)))  # none in evaluation
    for part in built.modules():
        part.train(isinstance(part, torch.nn.Dropout) and part is not built.embedder.dropout)
    assert not torch.equal(total(built.sums(batch, mask)), whole)


def test_pgkpr_decodes_from_all_states_of_the_perturbed_source():
    built, (batch, mask) = model("pgkpr"), tagged_batch()
    ids, _, real = perturbed(batch["x_ids"], batch["x_tags"], mask, batch["x_lengths"])
    layer = built.decoder.layers[0].cross_attention
    bias, *given = built.memory(batch, mask)
    assert torch.equal(bias[:, 0, 0] == 0, real)
    for found, project in zip(given, (layer.key, layer.value), strict=True):
        expected = project(encoded(built, ids, real))
        torch.testing.assert_close(found.transpose(1, 2).flatten(2)[real], expected[real])


@pytest.mark.parametrize("reduction", ["token_mean", "sent_mean"])
def test_reconstruction_is_that_of_each_item_alone(reduction):
    """PGKPR eq. 2."""
    built, (batch, mask) = model("pgkpr", reconstruction={"reduction": reduction}), tagged_batch()
    expected = 0.0
    for row in range(5):
        own, own_mask = tagged_item(batch, mask, row)
        ids, targets, real = perturbed(own["x_ids"], own["x_tags"], own_mask, own["x_lengths"])
        head = built.reconstruction
        chances = head.output(head.read(encoded(built, ids, real)[0])).log_softmax(-1)
        losses = torch.stack([-chances[place, token] for place, token in enumerate(targets[0])])
        expected = expected + (losses.mean() if reduction == "sent_mean" else losses.sum())
    torch.testing.assert_close(built.sums(batch, mask)["reconstruction"], expected)


@pytest.mark.parametrize("settings", [{}, ALL_NEGATIVES])
def test_contrast_is_of_means_over_real_places(settings):
    built, (batch, mask) = model("pgkpr", contrast=settings), tagged_batch()
    batch["group"] = torch.tensor([0, 1, 1, 2, 3])
    order, pooled = built.config.contrast.order, {"s": [], "t": [], "x": []}
    for row in range(5):
        own, own_mask = tagged_item(batch, mask, row)
        sequences = {"s": perturbed(own["x_ids"], own["x_tags"], own_mask, own["x_lengths"])[0]}
        sequences |= {side: counterpart(own[f"{side}_ids"], own[f"{side}_tags"], own[f"{side}_lengths"], order)[0]
                      for side in ("t", "x")}
        for name, ids in sequences.items():
            pooled[name].append(encoded(built, ids)[0].mean(0))

    def score(one, other):
        return F.cosine_similarity(one, other, dim=0) / 0.1 if order == "pos_sent" else one @ other

    expected = 0.0
    for row in range(5):
        rivals = [other for other in range(5) if batch["group"][other] != batch["group"][row]]
        negatives = [score(pooled["s"][row], pooled[side][other]) for other in rivals
                     for side in (("t", "x") if settings else ("t",))]
        scores = torch.stack([score(pooled["s"][row], pooled["t"][row]), *negatives])
        expected = expected + scores.logsumexp(0) - scores[0]
    torch.testing.assert_close(built.sums(batch, mask)["contrast"], expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("weights", "passes"), [((1.0, 0.1), 2), ((0.0, 0.1), 2), ((1.0, 0.0), 1), ((0.0, 0.0), 1)])
def test_a_loss_of_weight_0_is_not_computed_and_changes_no_other(weights, passes, monkeypatch):
    batch, mask = tagged_batch()
    whole = model("pgkpr", reconstruction={"weight": 1.0}, contrast={"weight": 0.1})
    built = model("pgkpr", reconstruction={"weight": weights[0]}, contrast={"weight": weights[1]})
    assert whole.state_dict().keys() == built.state_dict().keys()  # rows of an ablation table begin alike
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), built.parameters(), strict=True))
    shapes, encode, full = [], built.encoder.forward, whole.sums(batch, mask)
    monkeypatch.setattr(built.encoder, "forward",
                        lambda words, ids, *seen: shapes.append(ids.shape) or encode(words, ids, *seen))
    parts = built.sums(batch, mask)
    extra = zip(("reconstruction", "contrast"), weights, strict=True)
    names = ["generation", *(name for name, weight in extra if weight)]
    assert list(parts) == names and len(shapes) == passes
    assert all(torch.equal(parts[name], full[name]) for name in names)  # what is left is the same to the bit
    found = gradients(built, parts)
    missing = {name for name, gradient in found.items() if gradient is None}
    head = {name for name in found if name.startswith("reconstruction.")}
    assert missing == (set() if weights[0] else head)


@pytest.mark.parametrize("settings", [{}, ALL_NEGATIVES])
def test_one_pass_over_several_sequences_is_several_passes(settings, monkeypatch):
    """As on an accelerator: all sequences are padded to one length and encoded at once."""
    built, (batch, mask) = model("pgkpr", contrast=settings), tagged_batch()
    expected = built.sums(batch, mask)
    expected_gradients = gradients(built, expected)
    monkeypatch.setattr(built, "_in_one_pass", lambda: True)
    seen, encode = [], built.encoder.forward
    monkeypatch.setattr(built.encoder, "forward",
                        lambda words, ids, *rest: seen.append(ids) or encode(words, ids, *rest))
    found = built.sums(batch, mask)
    assert len(seen) == 1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients(built, found), expected_gradients, atol=1e-4, rtol=1e-4)


@each_attentive
def test_gradients_are_those_without_packing(architecture):
    """Padding that stands in one row leaves no trace: against each item alone, where there is none."""
    built, (batch, mask) = model(architecture, contrast={"weight": 0.0}).double(), tagged_batch()
    found = gradients(built, built.sums(batch, mask))
    built.zero_grad(set_to_none=True)
    for row in range(5):
        total(built.sums(*tagged_item(batch, mask, row))).backward()
    torch.testing.assert_close(found, {name: one.grad for name, one in built.named_parameters()})


@each_attentive
def test_a_decoder_does_not_see_what_it_predicts(architecture):
    built, (batch, mask) = model(architecture), tagged_batch()
    given = built.memory(batch, mask)
    states = built.decode(batch["y_in"], given)
    other = batch["y_in"].clone()
    other[:, 3:] = FIRST_WORD
    changed = built.decode(other, given)
    torch.testing.assert_close(changed[:, :3], states[:, :3])
    assert not torch.allclose(changed[:, 3:], states[:, 3:])


@pytest.mark.parametrize("num_beams", [1, 3])
@each_attentive
def test_a_cache_changes_no_output(architecture, num_beams):
    outputs = set()
    for seed in range(3):
        built, (batch, mask) = peaked(architecture, seed), tagged_batch(6, seed)
        cached = built.rewrite(batch, mask, RULES, num_beams)
        with torch.no_grad():
            whole = WholeSteps(built.decode, built.scores, built.memory(batch, mask))
            start = torch.full((6,), BOS)
        assert torch.equal(cached, beam_search(whole, start, RULES, num_beams=num_beams))
        outputs |= {tuple(row) for row in cached.tolist()}
    assert len(outputs) > 6  # or they could be equal by being trivial


def test_misuse_is_explained():
    built, (batch, mask) = model("pgkpr"), tagged_batch()
    with pytest.raises(ValueError, match=r"Pgkpr: give the keywords of the sources, mask \(B, L\)"):
        built.rewrite(batch, None, RULES)
    with pytest.raises(ValueError, match=r"Pgkpr: call eval\(\) before rewrite\(\)"):
        built.train().rewrite(batch, mask, RULES)
    with pytest.raises(ValueError, match="unknown setting sizes.depth"):
        RewriterConfig("pgkpr", sizes={"depth": 2})


LENGTHS = torch.tensor([9, 1, 4])
REAL = torch.arange(9) < LENGTHS.unsqueeze(1)
WORDS = (torch.arange(27).view(3, 9) + 100) * REAL  # every word and every tag of a text differs from all others
TAGS = (torch.arange(27).view(3, 9) + 50) * REAL


def by_loop(words, tags, mask):
    """Input and targets of one text of plain lists."""
    first = [word if chosen else tag for word, tag, chosen in zip(words, tags, mask, strict=True)]
    second = [tag if chosen else word for word, tag, chosen in zip(words, tags, mask, strict=True)]
    kept = [word if chosen else NOK for word, chosen in zip(words, mask, strict=True)]
    return [BOS, *first, SEP, *second, EOS], [BOS, *tags, SEP, *kept, EOS]


def cut(row, length):
    return row[:length].tolist()


def test_example_of_the_paper():
    words = ["what", "are", "good", "workouts", "to", "lose", "belly", "fat", "?"]
    tags = ["[WDT]", "[VBP]", "[JJ]", "[NNS]", "[TO]", "[VB]", "[NN]", "[NN]", "[.]"]
    names = ["[pad]", "[unk]", "<s>", "</s>", "<sep>", "[NOK]", "[MASK]", *sorted(set(tags)), *words]
    ids = {name: number for number, name in enumerate(names)}
    mask = [word in {"good", "workouts", "lose", "belly", "fat"} for word in words]
    given = (torch.tensor([[ids[name] for name in row]]) for row in (words, tags))
    found, targets, attention = perturbed(*given, torch.tensor([mask]), torch.tensor([9]))
    assert " ".join(names[number] for number in found[0]) == (
        "<s> [WDT] [VBP] good workouts [TO] lose belly fat [.] <sep> "
        "what are [JJ] [NNS] to [VB] [NN] [NN] ? </s>")
    assert " ".join(names[number] for number in targets[0]) == (
        "<s> [WDT] [VBP] [JJ] [NNS] [TO] [VB] [NN] [NN] [.] <sep> "
        "[NOK] [NOK] good workouts [NOK] lose belly fat [NOK] </s>")
    assert attention.all() and attention.shape == (1, 21)


@pytest.mark.parametrize("seed", range(4))
def test_sequences_are_those_of_a_loop_with_padding_behind(seed):
    mask = torch.rand(3, 9, generator=torch.Generator().manual_seed(seed)) < 0.5
    ids, targets, attention = perturbed(WORDS, TAGS, mask, LENGTHS)
    assert ids.shape == targets.shape == attention.shape == (3, 21) and attention.dtype == torch.bool
    for row, length in enumerate(LENGTHS.tolist()):
        expected = by_loop(*(cut(part[row], length) for part in (WORDS, TAGS, mask)))
        real = 2 * length + 3
        assert (cut(ids[row], real), cut(targets[row], real)) == expected
        assert set(cut(ids[row].flip(0), 21 - real)) <= {PAD}
        assert set(cut(targets[row].flip(0), 21 - real)) <= {IGNORE}
        assert attention[row].tolist() == [True] * real + [False] * (21 - real)


def test_counterparts_are_unperturbed_in_either_order():
    ids, attention = counterpart(WORDS, TAGS, LENGTHS, "pos_sent")
    assert ids[2, :11].tolist() == [BOS, *cut(TAGS[2], 4), SEP, *cut(WORDS[2], 4), EOS]
    assert (ids[2, 11:] == PAD).all() and attention[2].sum() == 11
    ids, attention = counterpart(WORDS, TAGS, LENGTHS, "sent_pos")
    assert ids[1, :5].tolist() == [BOS, int(WORDS[1, 0]), SEP, int(TAGS[1, 0]), EOS] and attention[1].sum() == 5
    everything = torch.ones_like(WORDS, dtype=torch.bool)
    assert torch.equal(ids, perturbed(WORDS, TAGS, everything, LENGTHS)[0])
