"""Beam search of the HCL model: ours and ``transformers`` ``generate`` on the same random weights."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, BertConfig
from transformers.modeling_outputs import BaseModelOutput

from benchmarks.harness import Context, Disagreement, Section, compare
from models.common.decoding import project
from models.hcl import HclConfig, HclModel
from stages.common.encoders import resolve_encoder
from stages.tracks.hcl.batches import padded

TITLE = "Beam search: ours and transformers generate"
_SPECIAL = {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103}  # of the bundled encoder's word pieces
_SEARCH: dict[str, Any] = {"num_beams": 4, "min_length": 5, "max_length": 20}
_LONGEST_SOURCE = 20
_TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
         "vocab_size": 200, "max_position_embeddings": 40}
_ENDING = 1.2  # added to the score of the end token, so that random outputs end after 5 to 20 tokens


@dataclass(frozen=True)
class Workload:
    """A model and a batch.

    Attributes:
        layers: of the decoder.
        items: batch size.
        ends: whether outputs end at different lengths; else all reach the longest.
    """

    layers: int
    items: int
    ends: bool = False

    def __str__(self) -> str:
        ends = ", outputs that end at different lengths" if self.ends else ""
        return f"{self.layers} decoder layers, batches of {self.items}{ends}"


_WORKLOADS = (Workload(2, 32), Workload(2, 32, ends=True), Workload(2, 1), Workload(6, 32), Workload(6, 1))
_QUICK = (Workload(1, 3), Workload(1, 1, ends=True))


def run(context: Context) -> list[Section]:
    """Check that outputs are equal, then time them.

    Raises:
        Disagreement: outputs differ by more than ties.
    """
    sections = [_section(workload, context) for workload in (_QUICK if context.quick else _WORKLOADS)]
    return [*sections, _kernel(context)]


def by_generate(model: HclModel, ids: Tensor, mask: Tensor, nodes: Tensor | None = None, *, num_beams: int = 4,
                min_length: int = 5, max_length: int = 20, **options: Any) -> Tensor:
    """Return what :meth:`HclModel.paraphrase` returns, z being the prior's mean, by ``transformers`` ``generate``."""
    special = model.config.special_ids
    with torch.no_grad():
        given = model.conditions(ids, mask, nodes)
        z = given.latent("mean")
        memory, slots = model.memory(given.hidden, given.mask, given.u_in, z)
        tokens = model.generate(  # type: ignore[misc]
            encoder_outputs=BaseModelOutput(last_hidden_state=memory), attention_mask=slots, latent=z,
            num_beams=num_beams, min_new_tokens=min_length, max_new_tokens=max_length + 1,
            forced_eos_token_id=special["eos"], eos_token_id=special["eos"], pad_token_id=special["pad"],
            decoder_start_token_id=special["bos"], suppress_tokens=model.config.banned_token_ids, do_sample=False,
            **options)[:, 1:]  # without the start token
    ends = (tokens == special["eos"]).long()
    # beam search fills with the end token where the padding id is 0
    return tokens.masked_fill(ends.cumsum(-1) - ends > 0, special["pad"])


def _section(workload: Workload, context: Context) -> Section:
    model, (ids, mask) = _model(workload, context.quick), _inputs(workload.items, context.quick)
    agreement = _agreement(model, ids, mask)
    lengths = (model.paraphrase(ids, mask, **_SEARCH) != _SPECIAL["pad"]).sum(-1) - 1
    rows = compare({"ours": lambda: model.paraphrase(ids, mask, **_SEARCH),
                    "transformers generate": lambda: by_generate(model, ids, mask, **_SEARCH)},
                   context.repeats, items=workload.items, unit="texts")
    config = model.config
    return Section(
        f"{TITLE}, {workload}",
        f"encoder of {config.encoder['num_hidden_layers']} layers of width {config.hidden_size}, "
        f"{config.vocab_size:,} word pieces, random weights; beam 4, 5 to 20 tokens "
        f"(here {float(lengths.float().mean()):.1f} on average); {torch.get_num_threads()} threads, encoder included",
        agreement, rows)


def _model(workload: Workload, quick: bool) -> HclModel:
    encoder = BertConfig(**_TINY) if quick else AutoConfig.from_pretrained(resolve_encoder("bundled").location)
    special = {name: number % encoder.vocab_size for name, number in _SPECIAL.items()}
    torch.manual_seed(0)
    block = {"keyword": {"condition": False}, "decoder": {"layers": workload.layers}}
    model = HclModel.from_parts(HclConfig.from_params(block, encoder, special, 0, 0, mean_target_length=10.0)).eval()
    if workload.ends:
        model.word_scores.bias.data[special["eos"]] = _ENDING
    return model


def _inputs(items: int, quick: bool) -> tuple[Tensor, Tensor]:
    """Return random word pieces."""
    source = torch.Generator().manual_seed(items)
    words = _TINY["vocab_size"] if quick else 30_522
    lengths = torch.randint(5, _LONGEST_SOURCE + 1, (items,), generator=source).tolist()
    rows = [torch.randint(104, words, (length,), generator=source).tolist() for length in lengths]
    return padded([[_SPECIAL["bos"], *row, _SPECIAL["eos"]] for row in rows], _SPECIAL["pad"])


def _agreement(model: HclModel, ids: Tensor, mask: Tensor) -> str:
    """Compare outputs in float32; where they differ, they must be equal in float64: then it was a tie."""
    differing = _differing(model, ids, mask)
    if len(differing):
        still = _differing(model.double(), ids[differing], mask[differing])
        model.float()
        if len(still):
            raise Disagreement(f"{len(still)} of {len(ids)} outputs differ from those of generate, in float64 too")
    ties = f"; {len(differing)} more in float64, where rounding decides no tie" if len(differing) else ""
    return f"{len(ids) - len(differing)} of {len(ids)} outputs equal token for token{ties}"


def _differing(model: HclModel, ids: Tensor, mask: Tensor) -> Tensor:
    ours, theirs = model.paraphrase(ids, mask, **_SEARCH), by_generate(model, ids, mask, **_SEARCH)
    longest = max(ours.shape[1], theirs.shape[1])
    ours, theirs = (F.pad(tokens, (0, longest - tokens.shape[1])) for tokens in (ours, theirs))
    return (ours != theirs).any(-1).nonzero().squeeze(-1)


def _kernel(context: Context) -> Section:
    """Time the product with the vocabulary alone: the part of a step that no search can save."""
    words, width, rows = (200, 32, 12) if context.quick else (30_522, 384, 128)
    source = torch.Generator().manual_seed(0)
    weight, states = torch.randn(words, width, generator=source), torch.randn(rows, width, generator=source)
    bias = torch.zeros(words)
    difference = float((project(states, weight, bias) - F.linear(states, weight, bias)).abs().max())
    if difference > 1e-3:
        raise Disagreement(f"products with the vocabulary differ by {difference:.1e}")
    times = compare({"ours": lambda: project(states, weight, bias),
                     "torch.nn.functional.linear": lambda: F.linear(states, weight, bias)},
                    context.repeats if context.quick else max(context.repeats, 5), items=rows, unit="states")
    return Section("Scores over the vocabulary: oneDNN and the kernel behind F.linear",
                   f"{rows} states of width {width}, {words:,} words, float32, {torch.get_num_threads()} threads",
                   f"largest difference {difference:.1e}", times,
                   ["Part of the sections above: without it their ratios would be smaller. How large the difference is "
                    "depends on the processor."])
