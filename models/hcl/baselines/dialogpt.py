"""DialoGPT (Zhang et al. 2020): a GPT-2 that goes on from x and an end token with y and another."""

import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from models.common.decoding import Rules
from models.hcl.baselines.base import Batch, PieceModel
from models.hcl.baselines.library import PromptedSteps, generated, item_nll, left_padded, positions


class DialoGpt(PieceModel, GPT2LMHeadModel):
    """GPT-2 of ``transformers``, as it is; an instance that is saved is one of that library.

    Sources end with the end token, which is their first decoder input too: x <end> y <end>. Its loss is that of y and
    of the last <end>. Padding stands at the left of x, and positions count real tokens.
    """

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        states, _ = self.states(batch)
        return self.of_targets(states, batch)

    def states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the last states (B, Lx + T - 1, d) of all tokens but the last <end>, and which are real."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        ids = torch.cat([prompt, batch["y_in"][:, 1:]], dim=1)  # the first of y_in is the <end> of x
        mask = torch.cat([real, batch["y_in_mask"][:, 1:]], dim=1)
        found = self.transformer(input_ids=ids, attention_mask=mask.long(), position_ids=positions(mask),
                                 use_cache=False)
        return found.last_hidden_state, mask

    def of_targets(self, states: Tensor, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,) from :meth:`states`; only y is scored against the vocabulary."""
        logits = self.lm_head(states[:, batch["x_ids"].shape[1] - 1:])  # from the <end> of x on
        return item_nll(logits, batch["y_out"], batch["y_in_mask"])

    def begin(self, batch: Batch, slots: int) -> tuple[PromptedSteps, Tensor]:
        """Return what takes decoding steps after x, and its <end>, which is the first token of each output (B,)."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        return PromptedSteps(self.transformer, self.lm_head, prompt[:, :-1], real[:, :-1]), prompt[:, -1]

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Return tokens (B, L) by ``generate`` of transformers."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        return generated(self, rules, num_beams, length_penalty, input_ids=prompt, attention_mask=real.long())
