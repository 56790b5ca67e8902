"""T5 (Raffel et al. 2020): an encoder of "task: x" and a decoder of y."""

import torch
from torch import Tensor
from transformers import PretrainedConfig, T5Config, T5ForConditionalGeneration

from models.common.decoding import Rules
from models.hcl.baselines.base import Batch, PieceModel
from models.hcl.baselines.library import generated, item_nll


def t5_config(config: PretrainedConfig) -> T5Config:
    """Return the configuration under which :class:`T5` is the model of ``config``, of a T5 or an mT5.

    They differ in one thing: an mT5 does not scale the states from which words are scored, whatever its file says.
    """
    if isinstance(config, T5Config):
        return config
    values = {name: value for name, value in config.to_dict().items() if name != "model_type"}
    return T5Config(**{**values, "tie_word_embeddings": False})


class T5(PieceModel, T5ForConditionalGeneration):
    """T5 of ``transformers``, as it is; weights of T5 1.1 and mT5 fit it too."""

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        _, states = self.states(batch)
        return item_nll(self.lm_head(states), batch["y_out"], batch["y_in_mask"])

    def states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states (B, Lx, d) of the encoder, and H (B, T, d) of the decoder, as the words are scored from.

        A T5 whose words are tied scales H by d^-1/2; T5 1.1 and mT5, which untie them, do not.
        """
        mask = batch["x_mask"].long()
        encoded = self.encoder(input_ids=batch["x_ids"], attention_mask=mask).last_hidden_state
        states = self.decoder(input_ids=batch["y_in"], attention_mask=batch["y_in_mask"].long(),
                              encoder_hidden_states=encoded, encoder_attention_mask=mask,
                              use_cache=False).last_hidden_state
        return encoded, states * self.model_dim ** -0.5 if self.config.scale_decoder_outputs else states

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Return tokens (B, L) by ``generate`` of transformers."""
        return generated(self, rules, num_beams, length_penalty, input_ids=batch["x_ids"],
                         attention_mask=batch["x_mask"].long())
