"""The public code of PGKPR: its model, its training step, its decoding, and its weights put into our model."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers import PEERS
from benchmarks.trainings import (
    SEED,
    Clock,
    Ran,
    device,
    order_of,
    ran,
)
from models.pgkpr.auto import rewriter_of
from models.pgkpr.base import Rewriter
from models.pgkpr.config import RewriterConfig
from models.pgkpr.sequences import counterpart, perturbed
from models.pgkpr.special import BOS, EOS, IGNORE, PAD
from stages.params.pgkpr import TrainPgkpr
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.task import part_weights
from stages.tracks.pgkpr.vocabulary import Vocabulary

PEER = PEERS["pgkpr"]
MAX_LENGTH = 17  # words that a model reads at most
WIDTH = 2 * MAX_LENGTH + 3  # of every sequence of the public code
STEPS = 16  # words that it decodes: one less than 17


@dataclass(frozen=True)
class Sizes:
    """How large models and batches are.

    Attributes:
        name: in titles.
        steps: of a training; the first is not counted.
        similar: batches of similar length that one training of their own takes.
    """

    name: str
    layers: int
    heads: int
    width: int
    feed_forward: int
    words: int = 8000
    batch_size: int = 64
    steps: int = 2
    similar: int = 3

    @property
    def block(self) -> dict[str, int]:
        """What of them the block ``sizes`` has."""
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "feed_forward": self.feed_forward}

    def __str__(self) -> str:
        return (f"{self.layers}+{self.layers} layers, {self.heads} heads, width {self.width}, feed-forward "
                f"{self.feed_forward}, {self.words:,} words")


@dataclass(frozen=True)
class Job:
    """One training: of what, on what, how.

    Attributes:
        folder: of the public code.
        pairs: to learn; their keywords are fixed.
        similar: take batches of similar length.
    """

    sizes: Sizes
    vocabulary: Vocabulary
    pairs: PairBatches
    folder: Path
    precision: str = "fp32"
    similar: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The block ``train_pgkpr`` that stands for it: the public code's losses and rates."""
        values = TrainPgkpr.model_validate({"preset": "released"}).model_dump()
        sizes = self.sizes
        values["sizes"] |= sizes.block
        values["training"] |= {"epochs": 1, "batch_size": sizes.batch_size, "micro_batch": sizes.batch_size,
                               "learning_rate": 1e-4, "precision": self.precision, "bucket": self.similar}
        return values

    @property
    def config(self) -> RewriterConfig:
        """Of our model."""
        return RewriterConfig.from_params(self.values, self.vocabulary.size, MAX_LENGTH)


def their_model(job: Job) -> Any:
    """Return the public code's model of the sizes of ``job``, contrasting the states of the last layer."""
    sizes = job.sizes
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = PEER.load(job.folder)["model"].PGKPR(
            sizes.width, job.vocabulary.size, nhead=sizes.heads, num_encoder=sizes.layers, num_decoder=sizes.layers,
            d_ff=sizes.feed_forward, dropout=0.1, mid_loss=True, double_pe=False, shared_emb=True)
    model.encoder.return_layer = sizes.layers
    return model.to(device())


def their_tensors(job: Job, items: Sequence[int]) -> list[Tensor]:
    """Return what the public code's loader gives of ``items``: sources, their targets of reconstruction, targets, and
    the sequences that sources are contrasted with; all padded to the length of the longest that there may be."""
    batch = job.pairs.batch(items)
    ids, labels, _ = perturbed(batch["x_ids"], batch["x_tags"], batch["p"].bool(), batch["x_lengths"])
    pairs, _ = counterpart(batch["t_ids"], batch["t_tags"], batch["t_lengths"], "pos_sent")
    targets = F.pad(batch["y_out"], (1, 0), value=BOS)
    return [F.pad(part, (0, WIDTH - part.shape[1]), value=PAD)
            for part in (ids, labels.masked_fill(labels == IGNORE, PAD), targets, pairs)]


def theirs(job: Job) -> Ran:
    """Train the public code's model, with its optimiser, on the same batches in the same order."""
    model, sizes = their_model(job), job.sizes
    batch_of = PEER.load(job.folder)["batches"].Batch
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    order = order_of(len(job.pairs), sizes.batch_size)
    loader = DataLoader(TensorDataset(*their_tensors(job, range(len(job.pairs)))), sizes.batch_size, sampler=order)
    weights, losses, clock = part_weights(job.config), [], Clock()
    for tensors in loader:
        source, labels, target, pair = (tensor.to(device()) for tensor in tensors)
        parts = their_losses(model, batch_of(source, target), labels, pair)
        loss = torch.stack([weights[name] * value for name, value in parts.items()]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        clock.update()
    return ran(clock, losses, None)


def their_losses(model: Any, batch: Any, labels: Tensor, pair: Tensor) -> dict[str, Tensor]:
    """Return the parts of the loss of a batch, by the public code's model."""
    _, source, tags, words = model(batch.src, batch.trg, batch.src_mask, batch.trg_mask)
    _, target = model.encode(pair, (pair != PAD).unsqueeze(-2))
    anchors, positives = _mean(source, batch.src), _mean(target, pair)
    scores = F.cosine_similarity(anchors.unsqueeze(1), positives.unsqueeze(0), dim=-1) / 0.1
    return {"generation": F.cross_entropy(words.flatten(0, 1), batch.trg_y.flatten(), ignore_index=PAD),
            "reconstruction": F.cross_entropy(tags.flatten(0, 1), labels.flatten(), ignore_index=PAD),
            "contrast": F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))}


def _mean(states: Tensor, tokens: Tensor) -> Tensor:
    real = (tokens != PAD).unsqueeze(-1)
    return (states * real).sum(1) / real.sum(1)


def their_outputs(model: Any, loaded: Mapping[str, ModuleType], source: Tensor) -> Tensor:
    """Return <s> and 16 tokens of each source (B, 17), each the likeliest, by the public code's model."""
    mask = (source != PAD).unsqueeze(-2)
    memory, _ = model.encode(source, mask)
    tokens = source.new_full((len(source), 1), BOS)
    for length in range(1, STEPS + 1):
        earlier = loaded["parts"].subsequent_mask(length).type_as(source)
        states = model.decode(memory, mask, tokens, earlier)
        tokens = torch.cat([tokens, model.generator(states[:, -1]).argmax(-1, keepdim=True)], dim=1)
    return tokens


def until_end(outputs: Tensor) -> Tensor:
    """Return their outputs (B, 17), which begin with <s> and go on behind </s>, as ours: to </s>, then padding."""
    found = F.pad(outputs[:, 1:], (0, 1), value=EOS)  # at most 16 words, and an end
    return found.masked_fill((found == EOS).long().cumsum(-1) - (found == EOS).long() > 0, PAD)


def carried(theirs: Any, job: Job) -> Rewriter:
    """Return our model with the weights of theirs, so that both compute the same."""
    mine = rewriter_of(job.config)
    nn.Module.to(mine, device())
    return copied(mine, theirs, _names(job.sizes.layers))


def copied(mine: Rewriter, theirs: Any, names: Iterable[tuple[str, str]]) -> Rewriter:
    """Return our model, with the weights of theirs for modules of these ``names``, ours and theirs.

    Their LayerNorm divides by the deviation with n - 1 in its denominator, and adds 1e-6 to that: ours has their
    weights times sqrt((n - 1) / n), and next to nothing added.
    """
    names = list(names)
    with torch.no_grad():
        for own, other, factor in paired(mine, theirs, names):
            own.copy_(factor * other)
    for own_name, its_name in names:
        module = mine.get_submodule(own_name)
        if isinstance(module, nn.LayerNorm):
            module.eps = getattr(theirs.get_submodule(its_name), "eps", 0.0)
            module.eps = 1e-12 if hasattr(theirs.get_submodule(its_name), "a_2") else module.eps
    return mine


def paired(mine: Rewriter, theirs: Any,
           names: Iterable[tuple[str, str]] | None = None) -> Iterator[tuple[Tensor, Tensor, float]]:
    """Yield each parameter of ours, that of theirs, and what theirs is to be multiplied with."""
    width = mine.config.sizes["width"]
    factor = sqrt((width - 1) / width)
    for own, other in _names(mine.config.sizes["layers"]) if names is None else names:
        module, its = mine.get_submodule(own), theirs.get_submodule(other)
        for name, parameter in module.named_parameters(recurse=False):
            if hasattr(its, "a_2"):
                yield parameter, its.a_2 if name == "weight" else its.b_2, factor if name == "weight" else 1.0
            else:
                yield parameter, getattr(its, name), 1.0


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """Yield the names of our modules that hold parameters, and of theirs."""
    yield from (("embedder.words", "src_embed_pos.0.lut"), ("generator", "generator.proj"),
                ("reconstruction.dense", "mid_cls.transform.dense"),
                ("reconstruction.norm", "mid_cls.transform.LayerNorm"),
                ("reconstruction.output", "mid_cls.decoder"))
    yield from layer_names("encoder", "encoder", layers, {"attention": "self_attn"})
    yield from layer_names("decoder", "decoder", layers, {"self_attention": "self_attn", "cross_attention": "src_attn"})


def layer_names(stack: str, its: str, layers: int, attentions: Mapping[str, str],
                norms: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the names of the modules of a stack of layers, and of theirs.

    Args:
        stack, its: names of the stacks.
        layers: how many.
        attentions: names of theirs by ours.
        norms: likewise; None: one before each part.
    """
    norms = norms or {f"norms.{place}": f"sublayer.{place}.norm" for place in range(len(attentions) + 1)}
    yield f"{stack}.norm", f"{its}.norm"
    for number in range(layers):
        own, other = f"{stack}.layers.{number}", f"{its}.layers.{number}"
        yield f"{own}.widen", f"{other}.feed_forward.w_1"
        yield f"{own}.narrow", f"{other}.feed_forward.w_2"
        yield from ((f"{own}.{name}", f"{other}.{of}") for name, of in norms.items())
        for name, of in attentions.items():
            yield from ((f"{own}.{name}.{part}", f"{other}.{of}.linears.{place}")
                        for place, part in enumerate(("query", "key", "value", "output")))
