"""Beam search over one GPT-2 of random weights: ours and ``generate`` of transformers."""

from typing import Any

import torch
from transformers import GPT2Config

from benchmarks.harness import Context, Disagreement, Section, compare
from models.common.decoding import Rules
from models.hcl.pretrained import Batch, DialoGpt, PieceModel

PAD, END = 0, 1
BEAMS, RULES = 4, Rules(END, PAD, 5, 20, (PAD,))
_SIZE: dict[str, Any] = {"vocab_size": 30_522, "n_embd": 384, "n_layer": 6, "n_head": 6}
_TINY: dict[str, Any] = {"vocab_size": 200, "n_embd": 32, "n_layer": 1, "n_head": 2}
_TEXTS = (32, 1)    # texts at a time


def run(context: Context) -> list[Section]:
    """Compare outputs and times of both searches."""
    torch.manual_seed(0)
    model = DialoGpt(GPT2Config(n_positions=64, bos_token_id=END, eos_token_id=END, pad_token_id=PAD,
                                **(_TINY if context.quick else _SIZE))).eval()
    return [_section(model, count, context) for count in _TEXTS[:1 if context.quick else None]]


def _section(model: DialoGpt, count: int, context: Context) -> Section:
    batch = _prompts(count, model.config.vocab_size)
    ours, theirs = PieceModel.rewrite(model, batch, RULES, BEAMS), model.rewrite(batch, RULES, BEAMS)
    if not torch.equal(ours, theirs):
        raise Disagreement(f"{(ours != theirs).any(-1).sum()} of {count} outputs differ from those of generate")
    rows = compare({"ours": lambda: PieceModel.rewrite(model, batch, RULES, BEAMS),
                    "transformers generate": lambda: model.rewrite(batch, RULES, BEAMS)}, context.repeats, items=count)
    sizes = model.config
    return Section(f"beam search, {count} texts at a time",
                   f"GPT-2 of {sizes.n_layer} layers of width {sizes.n_embd}, {sizes.vocab_size:,} word pieces, random "
                   f"weights; beam {BEAMS}, {RULES.min_length} to {RULES.max_length} tokens, {torch.get_num_threads()} "
                   f"threads", f"{count} of {count} outputs are equal token for token", [rows])


def _prompts(count: int, vocabulary: int) -> Batch:
    """Return random texts of 5 to 20 word pieces and the end token."""
    generator = torch.Generator().manual_seed(count)
    lengths = torch.randint(6, 22, (count, 1), generator=generator)
    places = torch.arange(int(lengths.max()))
    ids = torch.randint(2, vocabulary, (count, len(places)), generator=generator)
    mask = places < lengths
    return {"x_ids": ids.masked_fill(places == lengths - 1, END).masked_fill(~mask, PAD), "x_mask": mask}
