"""The HCL generator: the network with decoding, z from the prior, then the library's beam search."""

from typing import Any, Literal

import torch
from torch import Tensor
from transformers import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput

from models.encoders import mean_pool
from models.hcl.latent import Gaussian
from models.hcl.network import HclNetwork

LatentSource = Literal["mean", "sample"]


class HclModel(HclNetwork, GenerationMixin):
    """The HCL model as it is trained, saved and used; see :class:`HclNetwork` for its parts and batches.

    Saved models carry tokens' ids and the keyword graph, so that nothing but the tokenizer is needed beside:

    >>> model = HclModel.from_pretrained(folder)
    >>> model.paraphrase(ids, mask, keyword_nodes=nodes)
    """

    @torch.no_grad()
    def paraphrase(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        keyword_nodes: Tensor | None = None,
        unseen_vectors: Tensor | None = None,
        *,
        num_beams: int = 4,
        min_length: int = 5,
        max_length: int = 20,
        length_penalty: float = 1.0,
        z: LatentSource | Tensor = "mean",
        generator: torch.Generator | None = None,
        use_cache: bool = True,
        **options: Any,
    ) -> Tensor:
        """Generate one output per input.

        >>> model.eval().paraphrase(ids, mask, keyword_nodes=nodes)

        Args:
            input_ids, attention_mask: input with [CLS] and [SEP] (B, Lx).
            keyword_nodes: node of each input keyword (B,), -1 for one that the graph lacks; may be None only
                for models without keyword.
            unseen_vectors: initial vectors (B, d), read where ``keyword_nodes`` is -1.
            num_beams: beam width; 1 is greedy.
            min_length, max_length: bounds on the tokens generated, the end token not counted.
            length_penalty: scores are divided by length to this power, the end token counted.
            z: ``mean`` of the prior, ``sample`` from it, or the latent vectors themselves (B, dz).
            generator: source of the noise for ``sample``.
            use_cache: keep keys and values of earlier tokens; changes the speed, not the tokens.
            options: passed to ``generate``, such as ``early_stopping``.

        Returns:
            Tokens (B, L), L <= max_length + 1: the output, [SEP], then [PAD].

        Raises:
            ValueError: keyword nodes or unseen vectors are missing, or the model is in training mode.
        """
        if self.training:
            raise ValueError("HclModel: call eval() before paraphrase(), or dropout decides the output")
        hidden = self.encode(input_ids, attention_mask)
        u_in = self._keyword_condition(keyword_nodes, unseen_vectors)
        latent = self._latent(hidden, attention_mask, u_in, z, generator)
        memory, mask = self.memory(hidden, attention_mask, u_in, latent)
        tokens = self.generate(  # type: ignore[misc]
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=mask,
            latent=latent,
            num_beams=num_beams,
            length_penalty=length_penalty,
            use_cache=use_cache,
            do_sample=False,
            **self._length_options(min_length, max_length),
            **options,
        )
        return self._after_end_padded(tokens[:, 1:])  # without the start token

    def _after_end_padded(self, tokens: Tensor) -> Tensor:
        # the library's beam search fills with the end token where the padding id is 0
        end = tokens == self.config.special_ids["eos"]
        return tokens.masked_fill(end.cumsum(-1) - end.long() > 0, self.config.special_ids["pad"])

    def _length_options(self, shortest: int, longest: int) -> dict[str, Any]:
        if not 0 <= shortest <= longest:
            raise ValueError(f"HclModel: min_length {shortest} and max_length {longest} must satisfy 0 <= min <= max")
        ids = self.config.special_ids
        return {
            "min_new_tokens": shortest,  # the end token is forbidden before
            "max_new_tokens": longest + 1,  # the end token itself
            "forced_eos_token_id": ids["eos"],
            "eos_token_id": ids["eos"],
            "pad_token_id": ids["pad"],
            "decoder_start_token_id": ids["bos"],
            "suppress_tokens": self.config.banned_token_ids,
        }

    def _keyword_condition(self, nodes: Tensor | None, unseen: Tensor | None) -> Tensor | None:
        if not self.config.uses_keyword:
            return None
        if nodes is None:
            raise ValueError("HclModel: this model is conditioned on keywords; give keyword_nodes (B,)")
        return self._with_unseen(nodes, self.keyword_vectors()[nodes[nodes >= 0]], unseen)

    def _latent(
        self,
        hidden: Tensor,
        mask: Tensor,
        u_in: Tensor | None,
        z: LatentSource | Tensor,
        generator: torch.Generator | None,
    ) -> Tensor | None:
        if not self.config.latent["enabled"]:
            return None
        if isinstance(z, Tensor):
            return z
        prior: Gaussian = self.prior(mean_pool(hidden, mask), u_in)
        if z == "mean":
            return prior.mu
        if z == "sample":
            eps = torch.randn(prior.mu.shape, generator=generator, device=prior.mu.device)
            return prior.sample(eps)
        raise ValueError(f"HclModel: z is {z!r}, expected 'mean', 'sample' or a tensor (B, dz)")
