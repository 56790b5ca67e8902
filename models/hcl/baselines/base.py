"""What every baseline of word pieces is: a bound on -log p(y | x) to be judged by, an objective, and decoding."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers import initialization as init

from models.common.decoding import Decodable, Rules, beam_search
from models.common.losses import at_least_float32
from models.common.rows import RealTokens
from models.common.training import Step
from models.hcl.settings import without_removed

Batch = Mapping[str, Tensor]


class PieceModel(ABC):
    """A mixin beside ``PreTrainedModel``: what the frame of training and decoding asks of a baseline.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx), a source between its marks; ``y_ids``, ``y_mask``
    (B, Ly), a target between the same; ``y_in``, ``y_out``, ``y_in_mask`` (B, T), the target behind the start token and
    before the end token; ``neg_*`` likewise of negatives; all padded at the right; and :meth:`inputs`. Decoding has
    ``x_*`` and :meth:`inputs` alone. Values of items are in nats and not divided by any length.

    Attributes:
        noise_size: size of ``eps`` (B, ``noise_size``), noise that a validation batch holds, fixed by example; 0: none.
        encoder_prefix: what the names of parameters begin with that learn at the encoder's rate; None for none.
    """

    noise_size = 0
    encoder_prefix: str | None = None

    def inputs(self, sources: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Return further tensors that the model reads of source texts, a row per text."""
        return {}

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with what follows from its numbers alone; whoever loads batches does it before.

        On an accelerator the shapes of such tensors would have to be waited for.
        """
        return batch

    @abstractmethod
    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x), or a bound above it, of each item (B,), summed over its tokens, end token included."""

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return what is watched on validation items, a value for each (B,); ``loss`` chooses the weights."""
        nll = self.nll(batch)
        return {"loss": nll, "reconstruction": nll}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return what is minimised, ``loss``, and its parts, a value for each item (B,).

        Args:
            batch: of training items.
            step: which optimiser step of how many it belongs to, for weights that change.
        """
        return {"loss": self.nll(batch)}

    def settled(self, total: int) -> int:
        """Return from which of ``total`` steps on the objective is what it will be: patience counts from there."""
        return 0

    def trainee(self) -> nn.Module:
        """Return what is trained: itself, or a module around it, as its ``model``, with an ``objective`` of its own.

        What such a module keeps besides, such as a frozen copy, are persistent buffers: checkpoints hold them, saved
        models do not.
        """
        assert isinstance(self, nn.Module)
        return self

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return what takes decoding steps, and the first token of each output (B,).

        Args:
            batch: the sources.
            slots: tokens that will be tried per item, all steps and hypotheses together.
        """
        raise NotImplementedError(f"{type(self).__name__} has a rewrite() of its own")

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Generate one output per source by beam search.

        Args:
            batch: the sources.
            rules: lengths and banned tokens.
            num_beams: width of the beam; 1 is greedy.
            length_penalty: scores are divided by length to this power, the end token counted.

        Returns:
            Tokens (B, L), L <= max_length + 1: the output, the end token, then padding.
        """
        steps, start = self.begin(batch, 1 + rules.max_length * num_beams)
        return beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)


class PieceConfig(PretrainedConfig):
    """Configuration of a baseline that is built here.

    Args:
        architecture: its name in the params.
        vocab_size: V, of the tokenizer.
        sizes: its block of the params, plain.
        mean_target_length: of the training targets, end token included.
        kwargs: ``pad_token_id``, ``bos_token_id`` (the start token) and ``eos_token_id``, among others.
    """

    model_type = "keycontrast-pieces"

    def __init__(self, architecture: str = "transformer", vocab_size: int = 30522,
                 sizes: Mapping[str, Any] | None = None, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.architecture, self.vocab_size = architecture, vocab_size
        self.sizes = without_removed(sizes or {}, {"norm": "pre", "pointer": True, "phrases": 5}, architecture)
        self.mean_target_length = mean_target_length
        super().__init__(**{**kwargs, "tie_word_embeddings": False})


class OwnPieceModel(PieceModel, PreTrainedModel):
    """A baseline that is built here, on a :class:`PieceConfig`; its weights are drawn from torch's generator."""

    config: PieceConfig
    config_class = PieceConfig
    base_model_prefix = "pieces"
    main_input_name = "x_ids"

    def forward(self, batch: Batch) -> Tensor:
        """Return :meth:`nll`."""
        return self.nll(batch)

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of real tokens of sources and, where there are any, of targets."""
        found = {**batch}
        for name, mask in (("x", "x_mask"), ("y", "y_in_mask")):
            if mask in batch and f"{name}_real" not in batch:
                found |= RealTokens(batch[mask]).named(name)
        return found

    def first(self, batch: Batch) -> Tensor:
        """Return the first token of each output (B,)."""
        return torch.full((len(batch["x_ids"]),), int(self.config.bos_token_id), device=batch["x_ids"].device)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices by Xavier's rule, and embeddings so that they are as long as positions; biases begin at 0."""
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim ** -0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)


def item_sums(values: Tensor, tokens: RealTokens) -> Tensor:
    """Return the sums (B,) of values (M,), the rows of ``tokens``, over the tokens of each item."""
    return tokens.padded(values).masked_fill(~tokens.real, 0.0).sum(-1)


def piece_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of tokens (M,) under unnormalised scores (M, V), in float32 at least."""
    (logits,) = at_least_float32(logits)
    return F.cross_entropy(logits, targets, reduction="none")
