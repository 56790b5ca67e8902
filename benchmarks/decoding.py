"""Beam search of the HCL model: ours and ``generate`` of transformers, on the same random weights."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, BertConfig
from transformers.modeling_outputs import BaseModelOutput

from benchmarks.harness import Context, Disagreement, Section, compare
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel
from stages.common.encoders import resolve_encoder
from stages.tracks.hcl.data import padded

_SPECIAL = {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103}  # of the bundled encoder's word pieces
_SEARCH: dict[str, Any] = {"num_beams": 4, "min_length": 5, "max_length": 20}
_TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
                         "vocab_size": 200, "max_position_embeddings": 40}
_ENDING = 1.2  # added to the score of the end token, so that random outputs end after 5 to 20 tokens
_WORKLOADS = ((32, False), (32, True), (1, False))  # texts, and whether outputs end before 20 tokens


def run(context: Context) -> list[Section]:
    """Check that outputs are equal but for ties, then time them."""
    return [_section(*workload, context) for workload in _WORKLOADS[:1 if context.quick else None]]


def _section(items: int, ends: bool, context: Context) -> Section:
    model, (ids, mask) = _model(ends, context.quick), _inputs(items, context.quick)
    agreement = _agreement(model, ids, mask)
    length = float((model.paraphrase(ids, mask, **_SEARCH) != _SPECIAL["pad"]).sum(-1).float().mean()) - 1
    rows = compare({"ours": lambda: model.paraphrase(ids, mask, **_SEARCH),
                    "transformers generate": lambda: by_generate(model, ids, mask)}, context.repeats, items=items)
    return Section(
        f"Beam search, {items} texts at a time{', outputs that end at different lengths' if ends else ''}",
        f"encoder of {model.config.encoder['num_hidden_layers']} layers of width {model.config.hidden_size}, decoder "
        f"of {model.config.num_hidden_layers}, {model.config.vocab_size:,} word pieces, random weights; beam 4, 5 to "
        f"20 tokens (here {length:.1f} on average); {torch.get_num_threads()} threads, encoder included",
        agreement, [rows])


@torch.no_grad()
def by_generate(model: HclModel, ids: Tensor, mask: Tensor, nodes: Tensor | None = None, *, num_beams: int = 4,
                min_length: int = 5, max_length: int = 20, **options: Any) -> Tensor:
    """Return what :meth:`HclModel.paraphrase` does, z being the prior's mean, by ``generate`` of transformers."""
    special = model.config.special_ids
    given = model.conditions(ids, mask, nodes)
    z = given.latent("mean")
    memory, slots = model.memory(given.hidden, given.mask, given.u_in, z)
    tokens = model.generate(  # type: ignore[misc]
        encoder_outputs=BaseModelOutput(last_hidden_state=memory), attention_mask=slots, latent=z, do_sample=False,
        num_beams=num_beams, min_new_tokens=min_length, max_new_tokens=max_length + 1,
        forced_eos_token_id=special["eos"], eos_token_id=special["eos"], pad_token_id=special["pad"],
        decoder_start_token_id=special["bos"], suppress_tokens=model.config.banned_token_ids, **options)[:, 1:]
    ends = (tokens == special["eos"]).long()
    return tokens.masked_fill(ends.cumsum(-1) - ends > 0, special["pad"])  # it fills with the end token


def _model(ends: bool, quick: bool) -> HclModel:
    encoder = BertConfig(**_TINY) if quick else AutoConfig.from_pretrained(resolve_encoder("bundled").location)
    special = {name: number % encoder.vocab_size for name, number in _SPECIAL.items()}
    torch.manual_seed(0)
    block = {"keyword": {"condition": False}, "decoder": {"layers": 2}}
    model = HclModel.from_parts(HclConfig.from_params(block, encoder, special, 0, 0, mean_target_length=10.0)).eval()
    if ends:
        model.word_scores.bias.data[special["eos"]] = _ENDING
    return model


def _inputs(items: int, quick: bool) -> tuple[Tensor, Tensor]:
    """Return random word pieces."""
    source = torch.Generator().manual_seed(items)
    words = _TINY["vocab_size"] if quick else 30_522
    lengths = torch.randint(5, 21, (items,), generator=source).tolist()
    rows = [torch.randint(104, words, (length,), generator=source).tolist() for length in lengths]
    return padded([[_SPECIAL["bos"], *row, _SPECIAL["eos"]] for row in rows], _SPECIAL["pad"])


def _agreement(model: HclModel, ids: Tensor, mask: Tensor) -> str:
    """Compare outputs in float32; those that differ must be equal in float64, where rounding decides no tie."""
    differing = _differing(model, ids, mask)
    if len(differing):
        still = _differing(model.double(), ids[differing], mask[differing])
        model.float()
        if len(still):
            raise Disagreement(f"{len(still)} of {len(ids)} outputs differ from those of generate, in float64 too")
    ties = f"; {len(differing)} more in float64, where rounding decides no tie" if len(differing) else ""
    return f"{len(ids) - len(differing)} of {len(ids)} outputs equal token for token{ties}"


def _differing(model: HclModel, ids: Tensor, mask: Tensor) -> Tensor:
    both = model.paraphrase(ids, mask, **_SEARCH), by_generate(model, ids, mask)
    longest = max(tokens.shape[1] for tokens in both)
    ours, theirs = (F.pad(tokens, (0, longest - tokens.shape[1])) for tokens in both)
    return (ours != theirs).any(-1).nonzero().squeeze(-1)
