"""PGKPR beside the authors' public code, which `--peer` names: `python -m benchmarks pgkpr_parity --peer DIR`.

Their loader, perturbation, losses, network and decoding run as they stand, on made-up sentences with
tags, and ours on the same. What differs is named by the switch that makes it so, or by where docs/pgkpr.md says why
there is none; anything else is a disagreement.
"""

import ast
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Context, Disagreement, Section
from keycontrast.errors import InputError
from models.common.decoding import Rules
from models.common.special import BOS, EOS, IGNORE, PAD
from models.pgkpr.auto import rewriter_of
from models.pgkpr.base import Rewriter
from models.pgkpr.config import RewriterConfig
from models.pgkpr.sequences import counterpart, perturbed
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.keywords import training_mask
from stages.tracks.pgkpr.normalisation import ReleasedForm
from stages.tracks.pgkpr.params import TrainPgkpr
from stages.tracks.pgkpr.task import Totals, part_weights
from stages.tracks.pgkpr.vocabulary import Vocabulary

WANTED = "a checkout of github.com/DaSESmartEdu/PGKPR (measured at commit ef618f4)"
SEED = 13
MAX_LENGTH, STEPS = 17, 16  # words that a model reads, and that the public code decodes
_WIDTH = 2 * MAX_LENGTH + 3  # of every sequence of the public code
_SIZES = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 32}
_ROUNDING = 2e-5  # of fp32
_DOCUMENT = "none: docs/pgkpr.md, "
_UNLISTED = ("WP", "JJS", "TO")  # tags of the sentences that the public list lacks
_COINS = 666  # of the public code
_PAIRS = 36
_UNKNOWN = "zyzzyva"  # no word of the vocabulary
_SIDES = ("source", "target")
_LEXICON = {
    "WP": "what who", "WRB": "how why where", "VBZ": "is does has", "VBP": "do are have", "MD": "can should would",
    "PRP": "i you they", "DT": "the a this", "JJ": "good cheap large quick", "JJS": "best fastest", "TO": "to",
    "VB": "learn find lose cook sell", "NN": "belly language phone workouts house zyzzyva", "NNS": "dogs jobs books",
    "IN": "in with for", "RB": "really never", "VBG": "running", "CC": "and", ".": "?"}
_PATTERNS = ("WP VBZ DT JJS NN IN DT NN .", "WRB VBP PRP VB DT JJ NN .", "MD PRP VB TO VB NNS CC NNS .",
             "WRB VBZ DT NN VB DT NN RB", "WP VBP DT JJ NNS IN VBG .",
             "WRB MD PRP VB DT JJ NN IN DT NN CC VB NNS RB TO VB DT JJ NN")  # the last is longer than models read


@dataclass(frozen=True)
class Finding:
    """How far ours and the public code lie apart in one part.

    Attributes:
        ours: under which settings.
        public: what of theirs.
        difference: the largest.
        switch: what makes it so; empty: there may be none but rounding.
        rounding: what counts as none.
    """

    part: str
    ours: str
    public: str
    difference: float
    switch: str = ""
    rounding: float = 0.0

    @property
    def same(self) -> bool:
        """Whether there is no difference but rounding."""
        return self.difference <= self.rounding

    @property
    def row(self) -> dict[str, Any]:
        """The finding as a row of the report."""
        bound = f" (rounding up to {self.rounding:.0e})" if self.rounding and self.same else ""
        return {"part": self.part, "ours": self.ours, "public": self.public,
                "largest difference": f"{self.difference:.2g}{bound}", "switch": self.switch or "–"}


# What both sides read


class Given:
    """The public code and what both sides read.

    Args:
        folder: of the public code.
        work: a temporary folder.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.frame = drawn(_PAIRS, SEED)
        words = pd.Series([word for side in _SIDES for row in self.frame[f"{side}_words"] for word in row])
        counts = words[words != _UNKNOWN].value_counts()
        self.loader = module_of(folder, "dataloader.py")
        listed = {tag.strip("[]") for tag in self.loader.POS_TAG}
        self.vocabulary = Vocabulary.counted(dict(counts), dict.fromkeys(_LEXICON, 1), len(counts))
        self.listed = Vocabulary.counted(dict(counts), dict.fromkeys(listed, 1), len(counts))
        (work / "words").write_text("\n".join(map(str, counts.index)) + "\n", encoding="utf-8")

    def file(self, name: str, **columns: Sequence[Any]) -> Path:
        """Write the pairs as the public code reads them, with further columns."""
        kinds = (("sen", "words", str), ("question", "words", str), ("pos", "tags", "[{}]".format))
        texts = {f"{kind}{number}": [" ".join(map(form, row)) for row in self.frame[f"{side}_{of}"]]
                 for number, side in enumerate(_SIDES, 1) for kind, of, form in kinds}
        path = self.work / name
        pd.DataFrame({**texts, **columns}).to_csv(path, index=False)
        return path

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """Keyword scores of the words of each source."""
        drawing = np.random.default_rng(SEED)
        return [drawing.random(len(row)).round(4) for row in self.frame["source_words"]]

    @cached_property
    def keywords(self) -> list[np.ndarray]:
        """Which words the public code's coins choose by them, in its order of drawing."""
        coins = random.Random(_COINS)
        return [np.array([score > coins.random() for score in row], dtype=np.float32) for row in self.scores]

    @property
    def texts(self) -> list[list[str]]:
        """Sources and targets."""
        return [[" ".join(row) for row in self.frame[f"{side}_words"]] for side in _SIDES]

    def pairs(self, vocabulary: Vocabulary, mark_all: bool = True) -> PairBatches:
        """Return our batches of the pairs, with these keywords."""
        found = PairBatches(self.frame, vocabulary, MAX_LENGTH, [self.keywords], True)
        batch = found.batch(range(len(self.frame)))
        mask = training_mask(batch["p"], batch["x_lengths"], batch["repeat"] if mark_all else None).float().numpy()
        rows = [np.append(row[:len(words)], np.zeros(max(0, len(words) - len(row)), np.float32))
                for row, words in zip(mask, self.frame["source_words"], strict=True)]
        return PairBatches(self.frame, vocabulary, MAX_LENGTH, [rows])

    @cached_property
    def marked(self) -> PairBatches:
        """The pairs with the tags of the public list."""
        return self.pairs(self.listed)

    @cached_property
    def theirs(self) -> tuple[list[Tensor], dict[int, str]]:
        """What the public code's loader gives of the pairs, and its tokens by id."""
        names = definitions(self.folder, "stage_two_data.py", ("kw_by_posibility",), {"random": random})
        switch = module_of(self.folder, "Data/switchpos.py").SwitchPOS
        texts, _ = self.texts
        path = self.file("scored.csv", bert_sen1=texts, xy_scores=[" ".join(map(str, row)) for row in self.scores])
        chosen = names["kw_by_posibility"](pd.read_csv(path), mode="xy", random_seed=_COINS)
        table = switch(path)
        table.set_s_index([table.word_to_index(*pair) for pair in zip(texts, chosen, strict=True)])
        table.to_csv(self.work / "switched.csv")
        words = str(self.work / "words")
        return (list(self.loader.load_data_tensor_con(self.work / "switched.csv", words, MAX_LENGTH)),
                self.loader.loadVocab(words)[1])

    def renumbered(self, tensors: Sequence[Tensor], tokens: Mapping[int, str]) -> list[Tensor]:
        """Return the public code's tensors with our ids for its tokens."""
        ours = {token.lower(): number for number, token in enumerate(self.listed.tokens)} | {"[unkey]": 5}
        table = torch.tensor([ours[tokens[number]] for number in range(len(tokens))])
        return [table[part] for part in tensors]


def drawn(count: int, seed: int) -> pd.DataFrame:
    """Return different pairs of sentences as rows of table ``paraphrase_items``, in lower case."""
    coins = random.Random(seed)
    texts: dict[tuple[str, ...], list[str]] = {}
    while len(texts) < 2 * count:
        tags = coins.choice(_PATTERNS).split()
        words = [coins.choice(_LEXICON[tag].split()) for tag in tags]
        if len(set(words[MAX_LENGTH:]) & set(words[:MAX_LENGTH])) == 0:
            texts[tuple(words)] = tags
    sides = {"source": list(texts.items())[::2], "target": list(texts.items())[1::2]}
    columns = {f"{side}_{kind}": [list(item[place]) for item in items]
               for side, items in sides.items() for place, kind in enumerate(("words", "tags"))}
    none = [[0.0] * len(row) for row in columns["source_words"]]
    others = ("primary_xx", "primary_xy", "primary_s", "primary_textrank")
    scores = dict.fromkeys(("score_xx", "score_xy", *others), none)
    return pd.DataFrame({"example_id": range(count), "reference": 0, "group": range(count), **columns, **scores})


def run(context: Context) -> list[Section]:
    """Compare every part.

    Raises:
        Disagreement: some differ, and no switch is named for it.
        InputError: no folder of the public code is given, or it lacks a file or a function.
    """
    if context.peer is None:
        raise InputError(f"name {WANTED} with --peer; it cannot ship with us.")
    with TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        given = Given(context.peer.resolve(), Path(temporary))
        return [report([finding for part in (sequences, losses) for finding in part(given)],
                       len(given.frame))]


def report(findings: Sequence[Finding], pairs: int) -> Section:
    """Return the findings as a section.

    Raises:
        Disagreement: a difference that no switch names.
    """
    if wrong := [finding for finding in findings if not finding.same and not finding.switch]:
        raise Disagreement("pgkpr: the public code and ours differ, and no switch says why: " + "; ".join(
            f"{one.part} ({one.ours}; {one.public}) by {one.difference:.2g}" for one in wrong))
    same = sum(finding.same for finding in findings)
    return Section("Parity, part by part", f"{pairs} pairs of made-up sentences with tags, random weights, fp32, CPU",
                   f"{same} of {len(findings)} comparisons show no difference but rounding; the others are named by "
                   f"what makes them", [], _NOTES, [finding.row for finding in findings])


_NOTES = ["Not run: scores of words, PSI, IANet, its S-Tagger and the plain Transformer, which were compared at commit "
          "5c62e87; Latent-BOW's code (FranxYao/dgm_latent_bow), which is TensorFlow 1; ROUGE, whose package the "
          "public code takes as it is; the preparation of pairs, which needs an old pandas."]


# What is read


def sequences(given: Given) -> Iterator[Finding]:
    """Compare sources, targets of reconstruction, targets and counterparts, token by token."""
    theirs, tokens = given.theirs
    renumbered = given.renumbered(theirs, tokens)
    names = ("perturbed source", "what is reconstructed", "target", "counterpart of the contrast")
    every, script = range(len(given.frame)), "SwitchPOS, kw_by_posibility, load_data_tensor_con"
    for name, one, other in zip(names, their_tensors(given.marked, every), renumbered, strict=True):
        yield Finding(name, "train_pgkpr.preset released, tags of the public list", script, differing(one, other))
    once = their_tensors(given.pairs(given.listed, mark_all=False), every)[0]
    yield Finding(names[0], "with keywords.mark_all: false", script,
                  differing(once, renumbered[0]), "train_pgkpr.keywords.mark_all")
    whole = their_tensors(given.pairs(given.vocabulary), every)[0].flatten().tolist()
    read = [given.vocabulary.tokens[number] for number in whole]
    unlisted = [f"[{tag}]" for tag in _UNLISTED]
    yield Finding(names[0], "all tags of the Penn set", script, float(sum(token in unlisted for token in read)),
                  _DOCUMENT + "Which tags?")
    switch = module_of(given.folder, "Data/switchpos.py").SwitchPOS
    lost = [switch.word_to_index(text.capitalize(), text.split()[:1]) for text in given.texts[0]].count("-1")
    yield Finding("keyword with a capital", "found by its place", "SwitchPOS.word_to_index, text as written",
                  float(lost), _DOCUMENT + "Without a switch")
    form = ReleasedForm(given.vocabulary.word_numbers, 16)
    normalise = definitions(given.folder, "evaluation.py", ("normalize_txt",), {})["normalize_txt"]
    numbers = {token: number for number, token in tokens.items()}
    cut = normalise([" ".join(row) for row in given.frame["target_words"]], numbers, tokens, "[unk]")
    yield Finding("references that are scored", "ref_norm released", "evaluation.normalize_txt", float(sum(
        form.words(row) != other for row, other in zip(given.frame["target_words"], cut, strict=True))))


# The network


def losses(given: Given) -> Iterator[Finding]:
    """Compare PGKPR's losses, and its outputs, with the public code's weights in ours."""
    model = shaken(their_model(given.folder, given.listed.size)).eval()
    mine = carried(model, given.listed.size).eval()
    source, labels, target, pair = given.renumbered(*given.theirs)
    names = definitions(given.folder, "stage_two_quora.py", ("SPLoss", "ContrastiveLoss"), {"nn": nn, "torch": torch})
    batch = loaded(given.folder, "Model.transformer.train").Batch(source, target)
    with torch.no_grad():
        _, states, scores, words = model(batch.src, batch.trg, batch.src_mask, batch.trg_mask)
        _, others = model.encode(pair, (pair != PAD).unsqueeze(-2))
        weights = part_weights(mine.config)
        loss = names["SPLoss"](given.listed.size, weights["reconstruction"], weights["contrast"])
        found = loss(scores, labels, words, batch.trg_y, states, others, batch.src, pair)
        items = range(len(given.frame))
        own_batch = given.marked.batch(items)
        parts = Totals.of(given.marked, items).means(mine.sums(own_batch, own_batch["p"].bool()), mine.config)
        alike = {**own_batch, "group": own_batch["group"] // 2}
        masked = mine.sums(alike, own_batch["p"].bool())["contrast"] / len(items)
    yield Finding("loss: contrast", "two pairs of each image", "SPLoss of stage_two_quora.py",
                  abs(float(masked - found[2])), _DOCUMENT + "Another caption of the same image?")
    for name, its in zip(("reconstruction", "generation", "contrast"), found, strict=False):
        yield Finding(f"loss: {name}", "train_pgkpr.preset released", "SPLoss of stage_two_quora.py",
                      abs(float(parts[name] - its)), rounding=_ROUNDING)
    total, plain = (float(sum(of[name] * value for name, value in parts.items()))
                    for of in (weights, part_weights(RewriterConfig())))
    yield Finding("loss: total", "train_pgkpr.preset released", "SPLoss of stage_two_quora.py",
                  abs(total - float(found[3])), rounding=_ROUNDING)
    yield Finding("loss: total", "default weights", "SPLoss of stage_two_quora.py", abs(plain - float(found[3])),
                  "train_pgkpr.reconstruction.weight, train_pgkpr.contrast.weight")
    decode = _greedy(given.folder, "evaluation.py")
    with torch.no_grad():
        wanted = until_end(decode(model, batch.src, batch.src_mask, STEPS + 1, BOS))
    for ours, banned in (("nothing banned", []), ("tags and special tokens banned", given.listed.banned(unknown=True))):
        rules = Rules(EOS, PAD, 0, STEPS, banned)
        yield Finding("greedy outputs", ours, "evaluation.greedy_decode",
                      _outputs_apart(mine.rewrite(own_batch, own_batch["p"].bool(), rules), wanted),
                      _DOCUMENT + "Without a switch" if banned else "")


def _greedy(folder: Path, file: str) -> Callable[..., Tensor]:
    later = loaded(folder, "Model.transformer.model").subsequent_mask
    names = definitions(folder, file, ("greedy_decode",), {"torch": torch, "Variable": torch.as_tensor,
                                                           "subsequent_mask": later})
    return names["greedy_decode"]  # type: ignore[no-any-return]


@torch.no_grad()
def shaken(theirs: Any) -> Any:
    """Return a model whose norms and biases are not as they begin, which would hide where they stand."""
    for parameter in theirs.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return theirs


# Differences


def apart(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Return the largest difference of numbers."""
    return max(float(np.abs(one - other).max(initial=0)) for one, other in zip(ours, theirs, strict=True))


def differing(ours: Tensor, theirs: Tensor) -> float:
    """Return at how many places tokens differ."""
    return float((ours != theirs).sum())


def _outputs_apart(ours: Tensor, theirs: Tensor) -> float:
    return float((F.pad(ours, (0, theirs.shape[1] - ours.shape[1]), value=PAD) != theirs).any(-1).sum())


# The public code


def their_model(folder: Path, words: int) -> Any:
    """Return the public code's model, contrasting the states of the last layer."""
    torch.manual_seed(SEED)
    model = loaded(folder, "Model.SPTransformerFine").PGKPR(
        _SIZES["width"], words, nhead=_SIZES["heads"], num_encoder=_SIZES["layers"], num_decoder=_SIZES["layers"],
        d_ff=_SIZES["feed_forward"], dropout=0.1, mid_loss=True, double_pe=False, shared_emb=True)
    model.encoder.return_layer = _SIZES["layers"]
    return model


def their_tensors(pairs: PairBatches, items: Sequence[int]) -> list[Tensor]:
    """Return what the public code's loader gives of ``items``: sources, their targets of reconstruction, targets, and
    the sequences that sources are contrasted with; all padded to the length of the longest that there may be."""
    batch = pairs.batch(items)
    ids, labels, _ = perturbed(batch["x_ids"], batch["x_tags"], batch["p"].bool(), batch["x_lengths"])
    others, _ = counterpart(batch["t_ids"], batch["t_tags"], batch["t_lengths"], "pos_sent")
    targets = F.pad(batch["y_out"], (1, 0), value=BOS)
    return [F.pad(part, (0, _WIDTH - part.shape[1]), value=PAD)
            for part in (ids, labels.masked_fill(labels == IGNORE, PAD), targets, others)]


def until_end(outputs: Tensor) -> Tensor:
    """Return their outputs (B, 17), which begin with <s> and go on behind </s>, as ours: to </s>, then padding."""
    found = F.pad(outputs[:, 1:], (0, 1), value=EOS)  # at most 16 words, and an end
    return found.masked_fill((found == EOS).long().cumsum(-1) - (found == EOS).long() > 0, PAD)


def carried(theirs: Any, words: int) -> Rewriter:
    """Return our model under preset released with the weights of theirs, so that both compute the same.

    Their LayerNorm divides by the deviation with n - 1 in its denominator, and adds 1e-6 to that: ours has their
    weights times sqrt((n - 1) / n), and next to nothing added.
    """
    values = TrainPgkpr.model_validate({"preset": "released"}).model_dump()
    values["sizes"] |= _SIZES
    mine = rewriter_of(RewriterConfig.from_params(values, words, MAX_LENGTH))
    factor = sqrt((_SIZES["width"] - 1) / _SIZES["width"])
    for name, its_name in _names():
        module, its = mine.get_submodule(name), theirs.get_submodule(its_name)
        with torch.no_grad():
            for part, parameter in module.named_parameters(recurse=False):
                if hasattr(its, "a_2"):
                    parameter.copy_(factor * its.a_2 if part == "weight" else its.b_2)
                else:
                    parameter.copy_(getattr(its, part))
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12 if hasattr(its, "a_2") else its.eps
    return mine


def _names() -> Iterator[tuple[str, str]]:
    """Yield the names of our modules that hold parameters, and of theirs."""
    yield from (("embedder.words", "src_embed_pos.0.lut"), ("generator", "generator.proj"),
                ("reconstruction.dense", "mid_cls.transform.dense"),
                ("reconstruction.norm", "mid_cls.transform.LayerNorm"),
                ("reconstruction.output", "mid_cls.decoder"))
    attentions = {"encoder": {"attention": "self_attn"},
                  "decoder": {"self_attention": "self_attn", "cross_attention": "src_attn"}}
    for stack, named in attentions.items():
        yield f"{stack}.norm", f"{stack}.norm"
        for layer in (f"{stack}.layers.{number}" for number in range(_SIZES["layers"])):
            yield f"{layer}.widen", f"{layer}.feed_forward.w_1"
            yield f"{layer}.narrow", f"{layer}.feed_forward.w_2"
            yield from ((f"{layer}.norms.{place}", f"{layer}.sublayer.{place}.norm")
                        for place in range(len(named) + 1))
            for name, of in named.items():
                yield from ((f"{layer}.{name}.{part}", f"{layer}.{of}.linears.{place}")
                            for place, part in enumerate(("query", "key", "value", "output")))


def loaded(folder: Path, name: str) -> ModuleType:
    """Return a module of the public code's package, imported from ``folder`` anew.

    Raises:
        InputError: the file is missing, or does not import.
    """
    _source(folder, f"{name.replace('.', '/')}.py")
    for other in [other for other in sys.modules if other.split(".")[0] == "Model"]:
        del sys.modules[other]
    sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    except (ImportError, SyntaxError) as error:
        raise InputError(f"--peer: {folder} cannot be imported: {error}. Name {WANTED}, and install what it "
                         f"needs.") from error
    finally:
        sys.path.remove(str(folder))


def module_of(folder: Path, file: str) -> ModuleType:
    """Return a module of the peer in ``folder``, imported by its file alone, under a name that no other has.

    Raises:
        InputError: the file is missing, or does not import.
    """
    spec = spec_from_file_location(f"peer_{file.removesuffix('.py').replace('/', '_')}", _source(folder, file))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise InputError(f"--peer: {folder / file} cannot be imported: {error}. Install what it needs.") from error
    return module


def definitions(folder: Path, file: str, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions and classes of a script of the peer, of which nothing else is run.

    Args:
        folder: of the peer.
        file: the script, which may work or need packages when it is imported.
        names: of the functions and classes.
        given: what they find under global names.

    Raises:
        InputError: the file is missing, or lacks some of the names.
    """
    path = _source(folder, file)
    body: list[ast.stmt] = [part for part in ast.parse(path.read_text(encoding="utf-8")).body
                            if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name in names]
    found = dict(given)
    exec(compile(ast.Module(body, []), str(path), "exec"), found)
    if lacking := [name for name in names if name not in found]:
        raise InputError(f"--peer: {path} has no {lacking[0]}; name a checkout of the commit that was measured.")
    return found


def _source(folder: Path, file: str) -> Path:
    if not (folder / file).is_file():
        raise InputError(f"--peer: {folder / file} is missing; name {WANTED}.")
    return folder / file
