"""PGKPR part by part: what the authors' own code computes, and ours beside it.

Their loader, scores, perturbation, losses, networks and decoding run as they stand, on made-up sentences with tags, and
ours on the same. What differs is named by the switch that makes it so, or by where docs/pgkpr.md says why there is
none; anything else is a disagreement.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from benchmarks.harness import Disagreement, Section
from benchmarks.peers import definitions, module_of
from benchmarks.pgkpr_sentences import PIECED, SEED, SIDES, TINY, Given
from benchmarks.public_pgkpr import (
    MAX_LENGTH,
    PEER,
    STEPS,
    carried,
    copied,
    layer_names,
    their_model,
    their_tensors,
    until_end,
)
from models.common.decoding import Rules
from models.keywords.s_tagger import STagger, STaggerConfig
from models.pgkpr.auto import rewriter_of
from models.pgkpr.base import Rewriter
from models.pgkpr.config import RewriterConfig
from models.pgkpr.ianet import primary_secondary
from models.pgkpr.sequences import wrapped
from models.pgkpr.special import BOS, EOS, MASK, PAD
from stages.attribution.saliency.scorers import ClassifierScorer, Pairs
from stages.params.data import Attribution
from stages.psi.importance.psi import importance
from stages.psi.importance.texts import read_texts
from stages.psi.importance.vectors import VectorTable
from stages.tracks.pgkpr.normalisation import ReleasedForm
from stages.tracks.pgkpr.task import Totals, part_weights

_ROUNDING = 2e-5  # of fp32
_DOCUMENT = "none: docs/pgkpr.md, "
_UNLISTED = ("WP", "JJS", "TO")  # tags of the sentences that the public list lacks
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


def parity(folder: Path) -> Section:
    """Compare every part.

    Raises:
        Disagreement: some differ, and no switch is named for it.
        InputError: ``folder`` lacks a file or a function of the public code.
    """
    with TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", "LSTM with projections")
        given = Given(folder.resolve(), Path(temporary))
        return report([finding for part in PARTS for finding in part(given)], len(given.frame))


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


_NOTES = ["Not run: Latent-BOW's code (FranxYao/dgm_latent_bow), which is TensorFlow 1; ROUGE, whose package the "
          "public code takes as it is; the preparation of pairs, which needs an old pandas; clipping and buckets, "
          "which are settings (train_pgkpr.training.clip, train_pgkpr.training.bucket)."]


# Stage one


def attribution(given: Given) -> Iterator[Finding]:
    """Compare scores of words, by a small classifier that tells segments apart."""
    tokenizer, classifier = _classifier(given)
    script = {"np": np, "torch": torch, "pd": pd, "tqdm": iter, "TensorDataset": TensorDataset, "device": "cpu",
              "DataLoader": DataLoader, "SequentialSampler": SequentialSampler, "BATCH_SIZE": 16,
              "tokenizer": tokenizer, "model": classifier, "bert_embedding": classifier.bert.embeddings}
    names = definitions(given.folder, "stage_one_keywords_identify.py",
                        ("data_loader", "get_gradients", "merge", "run_dataset"), script)
    path, found = given.file("pairs.csv"), given.work / "found.csv"
    for mode in ("xy", "xx"):
        names["run_dataset"](path if mode == "xy" else found, found, mode)
    read = {mode: [np.array(row.split(), dtype=float) for row in pd.read_csv(found)[f"{mode}_scores"]]
            for mode in ("xy", "xx")}
    classifier.zero_grad(set_to_none=True)

    def ours(target: str, **changes: Any) -> list[np.ndarray]:
        values = {**Attribution(preset="released").model_dump(), "batch_size": 16, **changes}
        firsts, seconds = given.texts[0], given.texts[SIDES.index(target)]
        ends = [np.cumsum([len(word) + 1 for word in row]) - 1 for row in given.frame["source_words"]]
        starts = [np.append(0, row[:-1] + 1) for row in ends]
        pairs, scorer = Pairs(firsts, seconds, starts, ends), ClassifierScorer(classifier, tokenizer, values)
        count = len(firsts)
        chunks = [scorer(pairs.at(range(first, min(first + 16, count))), 51) for first in range(0, count, 16)]
        return [row for scores, _ in chunks for row in scores]

    both = {"xy": ours("target"), "xx": ours("source")}
    script_name = "stage_one_keywords_identify.py"
    for mode, its in (("xy", "xx"), ("xx", "xy")):
        yield Finding("scores of words", f"attribution.preset released, {mode}", f"{script_name}, mode {its}",
                      apart(both[mode], read[its]), rounding=_ROUNDING)
    yield Finding("scores of words", "attribution.preset released, xy", f"{script_name}, mode xy",
                  apart(both["xy"], read["xy"]), _DOCUMENT + "What the published numbers were measured on")
    for switch, value in (("argmax_of", "row"), ("embedding", "lookup"), ("token_types", True)):
        yield Finding("scores of words", f"preset released with {switch}: {value}", f"{script_name}, mode xx",
                      apart(ours("target", **{switch: value}), read["xx"]), f"attribution.{switch}")
    plain = ours("target", attr_target="pos_logit", argmax_of="row")
    yield Finding("scores of words", "preset released with attr_target: pos_logit", f"{script_name}, mode xx",
                  apart(plain, read["xx"]), "attribution.attr_target")


def _classifier(given: Given) -> tuple[BertTokenizer, BertForSequenceClassification]:
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "work", "##outs", *given.vocabulary.word_numbers]
    file = given.work / "pieces.txt"
    file.write_text("\n".join(word for word in known if word != PIECED) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(vocab=str(file), model_max_length=51)
    torch.manual_seed(SEED)
    classifier = BertForSequenceClassification(BertConfig(
        vocab_size=len(known), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, initializer_range=0.3)).eval()  # of two classes, as configurations are
    nn.init.normal_(classifier.bert.embeddings.token_type_embeddings.weight)
    return tokenizer, classifier


def importance_of_words(given: Given) -> Iterator[Finding]:
    """Compare PSI's scores, and the two sequences that IANet makes of them."""
    wanted = [np.array([score for _, score in split[2]]) for split in _their_splits(given)]
    yield Finding("importance of words", "psi.ties: ordinal", "IANet/PSI.py", apart(_importance(given), wanted),
                  rounding=1e-9)


def _vectors(given: Given) -> tuple[list[str], np.ndarray]:
    known = sorted(given.vocabulary.word_numbers)
    return known, np.random.default_rng(SEED).normal(size=(len(known), 300)).astype(np.float32)


@cache
def _their_splits(given: Given) -> list[Any]:
    """Return primary words, secondary words and scores of each pair."""
    known, vectors = _vectors(given)
    names = ("Rank_xi", "Familiar", "vectornize", "G_xi_Two", "PIS")
    table = dict(zip(known, vectors.tolist(), strict=True))
    split = definitions(given.folder, "IANet/PSI.py", names, {"np": np, "fastText2": table})["PIS"]
    return [split(*pair, return_f_result=True) for pair in zip(*given.texts, strict=True)]


def _importance(given: Given) -> list[np.ndarray]:
    table, count = VectorTable(*_vectors(given)), len(given.frame)
    tokens = pa.table({"text_id": range(2 * count), "token": [row.split() for rows in given.texts for row in rows]})
    found = importance(table.matrix, read_texts([tokens], table.numbers), np.arange(count), np.arange(count, 2 * count))
    return [found.of(request) for request in range(count)]


# Stage two: what is read


def sequences(given: Given) -> Iterator[Finding]:
    """Compare sources, targets of reconstruction, targets and counterparts, token by token."""
    theirs, tokens = given.theirs
    renumbered = given.renumbered(theirs, tokens)
    names = ("perturbed source", "what is reconstructed", "target", "counterpart of the contrast")
    every, script = range(len(given.frame)), "SwitchPOS, kw_by_posibility, load_data_tensor_con"
    for name, one, other in zip(names, their_tensors(given.job, every), renumbered, strict=True):
        yield Finding(name, "train_pgkpr.preset released, tags of the public list", script, differing(one, other))
    once = replace(given.job, pairs=given.pairs(given.listed, mark_all=False))
    yield Finding(names[0], "with keywords.mark_all: false", script,
                  differing(their_tensors(once, every)[0], renumbered[0]), "train_pgkpr.keywords.mark_all")
    whole = replace(given.job, pairs=given.pairs(given.vocabulary), vocabulary=given.vocabulary)
    read = [given.vocabulary.tokens[number] for number in their_tensors(whole, every)[0].flatten().tolist()]
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


# Stage two: networks


def losses(given: Given) -> Iterator[Finding]:
    """Compare PGKPR's losses, and its outputs, with the public code's weights in ours."""
    model = shaken(their_model(given.job).cpu()).eval()
    mine = carried(model, given.job).cpu().eval()
    source, labels, target, pair = given.renumbered(*given.theirs)
    names = definitions(given.folder, "stage_two_quora.py", ("SPLoss", "ContrastiveLoss"), {"nn": nn, "torch": torch})
    batch = PEER.load(given.folder)["batches"].Batch(source, target)
    with torch.no_grad():
        _, states, scores, words = model(batch.src, batch.trg, batch.src_mask, batch.trg_mask)
        _, others = model.encode(pair, (pair != PAD).unsqueeze(-2))
        weights = part_weights(mine.config)
        loss = names["SPLoss"](given.listed.size, weights["reconstruction"], weights["contrast"])
        found = loss(scores, labels, words, batch.trg_y, states, others, batch.src, pair)
        items = range(len(given.frame))
        own_batch = given.job.pairs.batch(items)
        parts = Totals.of(given.job.pairs, items).means(mine.sums(own_batch, own_batch["p"].bool()), mine.config)
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
    decode = _greedy(given, "evaluation.py")
    with torch.no_grad():
        wanted = until_end(decode(model, batch.src, batch.src_mask, STEPS + 1, BOS))
    for ours, banned in (("nothing banned", []), ("tags and special tokens banned", given.listed.banned(unknown=True))):
        rules = Rules(EOS, PAD, 0, STEPS, banned)
        yield Finding("greedy outputs", ours, "evaluation.greedy_decode",
                      _outputs_apart(mine.rewrite(own_batch, own_batch["p"].bool(), rules), wanted),
                      _DOCUMENT + "Without a switch" if banned else "")


def transformer(given: Given) -> Iterator[Finding]:
    """Compare the plain Transformer's probabilities, and where dropout falls."""
    sizes, public = TINY, "SharedTransformer, load_data"
    torch.manual_seed(SEED)
    theirs = shaken(PEER.load(given.folder)["parts"].SharedTransformer(
        sizes.width, given.listed.size, sizes.heads, sizes.layers, sizes.layers, sizes.feed_forward, 0.5)).eval()
    numbers = {token: number for number, token in given.theirs[1].items()}
    loaded = given.loader.load_data(given.file("plain.csv"), MAX_LENGTH, numbers)
    source, target = given.renumbered(loaded, given.theirs[1])
    stacks = (("embedder.words", "shared_embed_pos.0.lut"), ("generator", "generator.proj"),
              *layer_names("encoder", "encoder", sizes.layers, {"attention": "self_attn"}),
              *layer_names("decoder", "decoder", sizes.layers,
                           {"self_attention": "self_attn", "cross_attention": "src_attn"}))

    def made(ended: bool = True, inner: bool = True) -> Rewriter:
        return copied(rewriter_of(RewriterConfig(
            "transformer", given.listed.size, MAX_LENGTH, {**sizes.block, "dropout": 0.5, "inner_dropout": inner},
            {"wrapped": ended})), theirs, stacks).eval()

    batches = PEER.load(given.folder)["batches"].Batch
    for ended in (True, False):
        yield Finding("Transformer: log p of words", f"source.wrapped: {str(ended).lower()}", public,
                      _chances_apart(given, made(ended), None, theirs, batches(source, target)),
                      "" if ended else "train_pgkpr.source.wrapped", _ROUNDING)
    length = int((source[0] != PAD).sum())
    for part in theirs.modules():  # dropout inside the feed-forward networks alone, of one text without padding
        if hasattr(part, "w_1"):
            part.train()
    for inner in (True, False):
        mine = made(inner=inner)
        embedded = mine.get_submodule("embedder.dropout")
        for part in mine.modules():
            part.train(isinstance(part, nn.Dropout) and part is not embedded)
        yield Finding("Transformer: log p in training, dropout in feed-forward networks alone",
                      f"sizes.inner_dropout: {str(inner).lower()}", public,
                      _chances_apart(given, mine, None, theirs, batches(source[:1, :length], target[:1]), [0]),
                      "" if inner else "train_pgkpr.sizes.inner_dropout", _ROUNDING)


def ianet(given: Given) -> Iterator[Finding]:
    """Compare IANet's sequences, probabilities and outputs."""
    first, second = ([" ".join(split[place]) for split in _their_splits(given)] for place in range(2))
    loader = module_of(given.folder, "IANet/dataloader.py")
    path, words = given.file("split.csv", first=first, second=second), str(given.work / "words")
    short = [row for row, source in enumerate(given.frame["source_words"]) if len(source) <= MAX_LENGTH]
    loaded = [part[short] for part in loader.load_data_tensor(path, words, MAX_LENGTH, mode="upper_bound")]
    one, other, target = given.renumbered(loaded, loader.loadVocab(words)[1])
    batch = given.job.pairs.batch(short)
    primary = [row > 0.1 for row in _importance(given)]
    mask = nn.utils.rnn.pad_sequence([torch.from_numpy(primary[row]) for row in short], True)
    ours = primary_secondary(batch["x_ids"], mask, batch["x_lengths"])
    for name, (ids, real), its in zip(("primary", "secondary"), ours, (one, other), strict=True):
        mine = wrapped(ids, real.sum(-1))[0]
        yield Finding(f"IANet: {name} sequence", "source.wrapped: true", "PIS of PSI.py, load_data_tensor",
                      differing(F.pad(mine, (0, its.shape[1] - mine.shape[1])), its))
    torch.manual_seed(SEED)
    made = module_of(given.folder, "IANet/transformer/model.py").ACLFTransformer
    theirs = shaken(made(512, given.listed.size, d_ff=32)).eval()
    batches = PEER.load(given.folder)["batches"].Batch
    public, read = "ACLFTransformer", (batches(one, target), batches(other, target))
    yield Finding("IANet: log p of words", "train_pgkpr.preset released", public, _chances_apart(
        given, _our_ianet(given, theirs), mask, theirs, read, short), rounding=_ROUNDING)
    other_way: dict[str, dict[str, Any]] = {"ianet.embeddings": {"embeddings": "shared"},
                                            "ianet.norms": {"norms": "shared"}, "source.wrapped": {"ended": False}}
    for switch, change in other_way.items():
        yield Finding("IANet: log p of words", f"preset released without {switch}", public, _chances_apart(
            given, _our_ianet(given, theirs, **change), mask, theirs, read, short), f"train_pgkpr.{switch}")
    with torch.no_grad():
        decode = _greedy(given, "IANet/evaluation.py")
        wanted = until_end(decode(theirs, one, other, read[0].src_mask, read[1].src_mask, STEPS + 1, BOS, MASK))
    outputs = _our_ianet(given, theirs).rewrite(batch, mask, Rules(EOS, PAD, 0, STEPS, [MASK]))
    yield Finding("IANet: greedy outputs", "[MASK] banned", "IANet/evaluation.greedy_decode",
                  _outputs_apart(outputs, wanted))


def _our_ianet(given: Given, theirs: nn.Module, embeddings: str = "separate", norms: str = "separate",
               ended: bool = True) -> Rewriter:
    sizes = {"heads": 8, "width": 512, "feed_forward": 32, "layers": 3}
    mine = rewriter_of(RewriterConfig("ianet", given.listed.size, MAX_LENGTH, sizes, {"wrapped": ended},
                                      ianet={"embeddings": embeddings, "norms": norms}))
    named = {"self_norm": "sublayer.0.norm", "cross_norm": "sublayer.1.norm", "joint_norm": "lay_norm"}
    if norms == "separate":
        named |= {"secondary_norm": "sublayer.2.norm", "forward_norm": "sublayer.3.norm"}
    attentions = {"self_attention": "self_attn", "to_primary": "src_attn1", "to_secondary": "src_attn2"}
    names = [("embedder.words", "embed_pos2.0.lut"), ("generator", "generator.proj"),
             *layer_names("decoder", "decoder", 4, attentions, named)]
    for number in range(2):
        names += layer_names(f"encoders.{number}", f"encoder{number + 1}", 3, {"attention": "self_attn"})
        if embeddings == "separate":
            names.append((f"source_embedders.{number}.words", f"embed_pos1_{number + 1}.0.lut"))
    return copied(mine, theirs, names).eval()


def s_tagger(given: Given) -> Iterator[Finding]:
    """Show that the logits of a text of the public tagger depend on the texts beside it, and ours do not."""
    torch.manual_seed(SEED)
    made = definitions(given.folder, "IANet/STagger.py", ("STagger",), {"nn": nn, "torch": torch})["STagger"]
    ids = given.job.pairs.batch(range(8))["x_ids"]
    for name, tagger, switch in (("ours", STagger(STaggerConfig(given.listed.size)), ""),
                                 ("public", made(given.listed.size), _DOCUMENT + "Without a switch")):
        with torch.no_grad():
            gap = float((tagger(ids)[3] - tagger(ids[3:4])[0]).abs().max())
        yield Finding(f"S-Tagger, {name}: a text alone and among others", "LSTM along the text, linear layer",
                      "LSTM down the batch, proj_size 2", gap, switch, _ROUNDING)


PARTS: tuple[Callable[[Given], Iterator[Finding]], ...] = (
    attribution, importance_of_words, sequences, losses, transformer, ianet, s_tagger)


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


def _greedy(given: Given, file: str) -> Callable[..., Tensor]:
    later = PEER.load(given.folder)["parts"].subsequent_mask
    names = definitions(given.folder, file, ("greedy_decode",), {"torch": torch, "Variable": torch.as_tensor,
                                                                 "subsequent_mask": later})
    return names["greedy_decode"]  # type: ignore[no-any-return]


@torch.no_grad()
def _chances_apart(given: Given, mine: Rewriter, mask: Tensor | None, theirs: nn.Module, read: Any,
                   items: Sequence[int] | None = None) -> float:
    """Return the largest difference of log p of the words of targets; dropout, if any, is drawn from one seed."""
    batch = given.job.pairs.batch(items if items is not None else range(len(given.frame)))
    torch.manual_seed(SEED)
    own = mine.generator(mine.decode(batch["y_in"], mine.memory(batch, mask))).log_softmax(-1)  # type: ignore[operator]
    torch.manual_seed(SEED)
    if mask is None:
        length = own.shape[1]
        found = theirs(read.src, read.trg[:, :length], read.src_mask, read.trg_mask[:, :length, :length])[0]
    else:
        first, second = read
        found = theirs(first.src, second.src, first.trg, first.src_mask, second.src_mask, first.trg_mask)
    return float((own - found[:, :own.shape[1]])[batch["y_out"] != PAD].abs().max())
