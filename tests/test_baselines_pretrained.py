"""Baselines that are models of transformers: DialoGPT, SimCTG, T5 and T5-CLAPS."""

import shutil
from dataclasses import asdict
from types import SimpleNamespace

import piece_cases
import pytest
import tiny_bert
import tiny_pretrained
import torch
from piece_cases import SIZES
from safetensors.torch import load_file, save_file
from tiny_pretrained import CLASSES, END, MEAN, PROMPTED, batch, model, outputs, rules, texts
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GPT2LMHeadModel,
    MT5ForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5ForConditionalGeneration,
)

from keycontrast.errors import InputError
from models.common.decoding import Rules, beam_search, contrastive_search
from models.common.task import Step
from models.hcl.pretrained import T5, Claps, generated, t5_config, token_contrast
from stages.common.training import save_notes
from stages.tracks.hcl.baselines import PieceTask, build
from stages.tracks.hcl.data import PieceOrigin
from stages.tracks.hcl.export import AUTO, export_library_model
from stages.tracks.hcl.generate import PieceRewriter

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


@pytest.mark.parametrize("name", ["dialogpt", "t5"])
@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"length_penalty": 0.0}, {"length_penalty": 2.0}])
def test_generate_finds_what_every_other_row_is_searched_by(name, options):
    options = {"num_beams": 4, "length_penalty": 1.0, **options}
    for seed in range(3):
        found, given = model(name, seed), batch(name, texts(6, seed))
        ours = beam_search(Plain(found, given), start(name, 6), rules(), **options)
        assert outputs(found.rewrite(given, rules(), **options)) == outputs(ours)


def test_dialogpt_loses_what_the_library_does_with_the_source_left_out_of_the_labels():
    found, (sources, targets) = model("dialogpt"), texts()
    ours = found.nll(batch("dialogpt", (sources, targets)))
    for item, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ids = torch.tensor([[*source, END, *target, END]])
        labels = ids.masked_fill(torch.arange(ids.shape[1]) <= len(source), -100)
        loss = found(input_ids=ids, labels=labels).loss.double() * (len(target) + 1)  # it is computed in float32
        assert torch.allclose(loss, ours[item], rtol=1e-5)


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
    found.save_pretrained(tmp_path / "again")
    again = T5.from_pretrained(tmp_path / "again").double().eval()
    assert torch.equal(again.nll(batch("t5", (sources, targets))), ours)


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


def views(whole, *given, small=1.0, large=3.0):
    whole.small, whole.large = small, large
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


def test_views_are_constants_and_teach_the_projection_alone(claps):
    whole, source, states, targets, real = claps
    views_of_states = whole.views(source, states.requires_grad_(), targets, real)
    assert not any(view.requires_grad for view in views_of_states)
    assert all(parameter.grad is None for parameter in whole.parameters()) and states.grad is None
    whole.pooled(views_of_states[0], real).sum().backward()
    assert whole.projection.weight.grad.any() and states.grad is None


@torch.no_grad()
def test_contrasts_are_those_of_the_paper(claps):
    whole, source, states, targets, real = claps
    near, far = views(*claps)
    z, bad, good = (whole.pooled(each, real) for each in (states, near, far))

    def cosine(left, right):
        return float(left @ right / left.norm() / right.norm())

    first, second = (found.detach() for found in whole.contrasts(source, states, near, far, real))
    for item in range(5):
        between = [cosine(source[item], z[other]) for other in range(5)]
        wrong = cosine(source[item], bad[item])
        scores = torch.tensor([*between, wrong]) / 0.1
        assert first[item] == pytest.approx(float(scores.logsumexp(0) - scores[item]), rel=1e-5)
        between[item] = cosine(source[item], good[item])
        scores = torch.tensor([*between, wrong]) / 0.1
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
    assert not [name for name in whole.model.state_dict() if "projection" in name]
    # Where T5's weights come from another row, the projection is still drawn, and trained at the rate of what is new.
    training = {"learning_rate": 1e-3, "restart_learning_rate": 1e-4, "encoder_rate": 1.0, "micro_batch": 2}
    items = SimpleNamespace(mean_target_length=MEAN, example_ids=[0])
    rates = {group.name: (group.rate, len(group.parameters)) for group in PieceTask(
        whole.model, items, items, training, 1, restarted=True).parameter_groups()}
    assert rates["beside"] == (1e-3, 2) and rates["rest"] == (1e-4, len(list(whole.model.parameters())))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def small(name, **changes):
    return {**SIZES[name][1], **changes}


def pretrained(name, folder, end="</s>", kind=None):
    """Save a small model of the library with a tokenizer of its own, which is not BERT's, and return its logits."""
    words = [end, "<pad>", "<unk>", "what", "is", "this", ":", "paraphrase", "reply", "a", "b"]
    own = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    own.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=own, eos_token=end, pad_token="<pad>",
                            unk_token="<unk>").save_pretrained(folder)
    library = {"gpt2": GPT2LMHeadModel, "t5": T5ForConditionalGeneration, "mt5": MT5ForConditionalGeneration}
    torch.manual_seed(0)
    found = library[kind or name](tiny_pretrained.config("dialogpt" if name == "gpt2" else kind or name,
                                                         vocab_size=len(words), eos_token_id=0, pad_token_id=1))
    found.half().save_pretrained(folder)
    return found.float().eval()


def made(name, folder, encoder, **changes):
    """The model that a row with weights from ``folder`` begins with, and what it begins with."""
    sizes = small(name, source=f"path:{folder}", **changes)
    start = piece_cases.start(encoder, name, sizes)
    return build(piece_cases.values_of(name, sizes), start, MEAN).eval(), start


@pytest.mark.parametrize(("name", "library"), [("dialogpt", "gpt2"), ("simctg", "gpt2"), ("t5", "t5"), ("t5", "mt5"),
                                               ("t5_claps", "t5")])
def test_weights_and_tokenizer_come_from_a_folder(name, library, encoder, tmp_path):
    theirs = pretrained("gpt2" if library == "gpt2" else "t5", tmp_path, kind=library)
    found, start = made(name, tmp_path, encoder)
    ids = torch.tensor([[3, 4, 0]])
    given = {"x_ids": ids, "x_mask": ids > -1, "y_in": torch.tensor([[start.marks.start, 9]]),
             "y_out": torch.tensor([[9, 0]]), "y_in_mask": torch.ones(1, 2, dtype=torch.bool)}
    if library == "gpt2":
        logits = theirs(input_ids=torch.tensor([[3, 4, 0, 9]])).logits[:, 2:]
    else:
        logits = theirs(input_ids=ids, decoder_input_ids=given["y_in"]).logits
    expected = F.cross_entropy(logits[0], given["y_out"][0], reduction="sum")
    assert torch.allclose(found.nll(given), expected) and found.dtype == torch.float32
    described = f"path:{tmp_path} (version None, sha256 "
    assert start.description.startswith(described) and start.described["start"]["sha256"]
    assert len(start.tokenizer) == 11 and start.marks.end == 0 and set(start.marks.banned) == {1, 2}


def test_the_end_token_stands_between_turns_whatever_the_tokenizer(encoder, tmp_path):
    pretrained("gpt2", tmp_path, end="<|endoftext|>")
    _, own = made("dialogpt", tmp_path, encoder)
    drawn = piece_cases.start(encoder, "dialogpt", small("dialogpt"))
    for start, text in ((own, "a b [SEP] a"), (drawn, "dog cat [SEP] dog")):
        (ids,) = start.tokenizer(start.marks.read([text]), add_special_tokens=False)["input_ids"]
        assert len(ids) == 4 and ids[2] == start.marks.end and ids[0] == ids[3] != start.marks.pad


@pytest.mark.parametrize(("structure", "said"), [("pairs", "paraphrase: "), ("dialogue", "reply: "),
                                                 ("stories", "continue: ")])
def test_t5_is_told_its_task_by_what_the_data_set_is(structure, said, encoder, tmp_path):
    pretrained("t5", tmp_path)
    start = piece_cases.start(encoder, "t5", small("t5", source=f"path:{tmp_path}"), structure)
    assert start.marks.before == start.tokenizer(said, add_special_tokens=False)["input_ids"]
    assert start.marks.start == tiny_pretrained.PAD != start.marks.pad  # the decoder starts as its configuration says


@pytest.mark.parametrize(("name", "broken", "message"), [
    ("t5", None, "train_hcl.t5.source: path:.* is a gpt2 model; t5 takes t5 or mt5"),
    ("dialogpt", "weights", "train_hcl.dialogpt.source: path:.* has no weights as safetensors"),
    ("dialogpt", "tokenizer", "train_hcl.dialogpt.source: path:.* holds no tokenizer"),
    ("simctg", "layer", "train_hcl.simctg.source: path:.* lacks 1 weights, such as transformer.h.1.ln_1.weight")])
def test_what_cannot_be_begun_with_is_refused(name, broken, message, encoder, tmp_path):
    found = pretrained("gpt2", tmp_path)
    if broken == "weights":
        (tmp_path / "model.safetensors").unlink()
        torch.save(found.state_dict(), tmp_path / "pytorch_model.bin")
    elif broken == "tokenizer":
        (tmp_path / "tokenizer.json").unlink()
    elif broken == "layer":
        kept = {name: part for name, part in load_file(tmp_path / "model.safetensors").items()
                if "h.1.ln_1.weight" not in name}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=message):
        made(name, tmp_path, encoder)


def test_texts_that_do_not_fit_the_positions_are_refused(encoder, tmp_path):
    found = pretrained("gpt2", tmp_path)
    found.config.n_positions = 21
    found.transformer.wpe = torch.nn.Embedding(21, 16)
    found.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="train_hcl.dialogpt: x and y may have 22 tokens .* has 21 positions"):
        made("dialogpt", tmp_path, encoder)


@pytest.mark.parametrize("name", CLASSES)
def test_half_precision_is_for_training_alone(name):
    found, given = model(name).float(), batch(name, texts())
    found.objective(given, STEP)
    whole, expected = found.trainee(), found.rewrite(given, rules(), num_beams=3)
    with torch.autocast("cpu", torch.bfloat16):
        parts = whole.objective(given, STEP)
        assert torch.equal(found.rewrite(given, rules(), num_beams=3), expected)
    assert parts["loss"].dtype == torch.float32
    assert torch.allclose(parts["reconstruction" if "reconstruction" in parts else "loss"], found.nll(given), rtol=0.1)


def test_a_gpt2_over_berts_word_pieces_ends_with_sep(encoder, tmp_path):
    """As the Chinese ones are: their tokenizer has no end token, and their configuration says GPT-2's."""
    pretrained("gpt2", tmp_path)
    shutil.copytree(encoder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("config.json", "model*"))
    GPT2LMHeadModel(tiny_pretrained.config("dialogpt", vocab_size=len(tiny_bert.VOCABULARY), eos_token_id=50256,
                                           pad_token_id=None)).save_pretrained(tmp_path)
    found, start = made("dialogpt", tmp_path, encoder)
    sep, special = start.tokenizer.sep_token_id, set(start.tokenizer.all_special_ids)
    assert (start.marks.start, start.marks.end, list(start.marks.after)) == (sep, sep, [sep])
    assert set(start.marks.banned) == special - {sep} and start.marks.pad == start.tokenizer.pad_token_id
    limits = Rules(sep, start.marks.pad, 2, 4, start.marks.banned)
    ids, mask = start.marks.around([[8, 9, 10], [9]])
    rows = found.rewrite({"x_ids": ids, "x_mask": mask}, limits, num_beams=2).tolist()
    assert all(2 <= row.index(sep) <= 4 and not special & set(row[:row.index(sep)]) for row in rows)


def saved(case, folder):
    """Save a baseline as its training does."""
    case.model.save_pretrained(folder)
    case.tokenizer.save_pretrained(folder)
    origin = PieceOrigin(case.name, "tiny", "from scratch", asdict(case.marks), 12, 8, "first")
    save_notes(folder, {"trained_on.json": asdict(origin)})
    return folder


def test_contrastive_search_is_for_models_that_go_single_steps(encoder, tmp_path):
    decode = {"search": "contrastive", "num_beams": 2, "min_length": 1, "max_length": 4, "length_penalty": 1.0,
              "batch_size": 3, "top_k": 2, "alpha": 0.6}
    items = piece_cases.items().assign(references=[[]] * 8)
    for name in ("dialogpt", "t5"):
        rewriter = PieceRewriter(saved(piece_cases.Case(name, tmp_path / name), tmp_path / f"{name}-model"))
        if name == "t5":
            with pytest.raises(InputError, match=r"generate_hcl.search is 'contrastive', and this model \(t5\)"):
                next(rewriter.rewrite(items, decode, 0))
        else:
            rows = list(rewriter.rewrite(items, decode, 0))
            assert [len(rows_of) for rows_of in rows] == [3, 3, 2] and all(rows[0]["prediction"])
            with pytest.raises(InputError, match=r"generate_hcl.max_length: .* need \d+ positions, and .* has 40"):
                next(rewriter.rewrite(items, {**decode, "max_length": 40}, 0))


@pytest.fixture(params=sorted(AUTO))
def trained(request, tmp_path):
    case = piece_cases.Case(request.param, tmp_path / "case")
    return request.param, case, saved(case, tmp_path / "model")


def test_an_auto_class_loads_it_and_it_writes_the_same(trained, tmp_path):
    name, case, folder = trained
    said = export_library_model(folder, tmp_path / "out")
    auto = AutoModelForCausalLM if name in ("dialogpt", "simctg") else AutoModelForSeq2SeqLM
    assert "It reads 12 tokens" in said
    found, told = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert found.config.architectures == [type(found).__name__] and not hasattr(found.config, "margin")
    marks = case.marks
    for item in range(3):
        batch = {key: value for key, value in case.batch([item]).items() if key in ("x_ids", "x_mask")}
        rules = Rules(marks.end, marks.pad, 1, 6, marks.banned)
        case.model.eval()
        with torch.no_grad():
            own = case.model.rewrite(batch, rules, 3)
            other = generated(found.eval(), rules, 3, 1.0, input_ids=batch["x_ids"],
                              attention_mask=batch["x_mask"].long())
        assert own.tolist() == other.tolist()
    assert AutoTokenizer.from_pretrained(tmp_path / "out").get_vocab() == case.tokenizer.get_vocab()


def test_other_weights_are_told(trained, tmp_path, monkeypatch):
    name, _, folder = trained
    monkeypatch.setattr("stages.tracks.hcl.export.load_pieces",
                        lambda *given: piece_cases.Case(name, tmp_path / "other", seed=1).model)
    with pytest.raises(InputError, match="has other weights, so nothing was written"):
        export_library_model(folder, tmp_path / "out")
