"""What every model of the PGKPR track is: sums of loss parts to train on, and steps to decode with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from models.common.decoding import Decodable, Rules, beam_search, best_outputs
from models.pgkpr.config import RewriterConfig

Batch = Mapping[str, Tensor]


class Rewriter(PreTrainedModel, ABC):
    """Rewrites a source x as a target y; subclasses are the architectures, see :func:`load_rewriter`.

    A batch is a dict of int64 tensors, padded at the right with 0: ``x_ids``, ``x_tags`` (B, L) and ``x_lengths``
    (B,), words and tags of sources; ``t_ids``, ``t_tags`` (B, Lt) and ``t_lengths`` (B,) of targets; ``y_in``,
    ``y_out`` (B, T), the target with <s> before and </s> behind; ``group`` (B,), equal for texts that mean the same;
    for latent_bow ``bow_ids`` (B, K). Decoding reads the source alone. ``mask`` (B, L), True for words of the source
    that are keywords (or primary), goes beside it; None for models that do not use keywords.

    >>> model = load_rewriter(folder)  # doctest: +SKIP
    >>> model.rewrite(batch, mask, rules, num_beams=4)  # doctest: +SKIP
    """

    config: RewriterConfig
    config_class = RewriterConfig
    base_model_prefix = "rewriter"
    main_input_name = "x_ids"

    @property
    def uses_keywords(self) -> bool:
        """Whether ``mask`` is read."""
        return False

    @property
    def contrasts(self) -> bool:
        """Whether a part of the loss contrasts the items of a batch; :meth:`apart` and :meth:`contrast` then work."""
        return False

    def apart(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return :meth:`sums` without ``contrast``, and the vectors (B, W) that it is computed of."""
        raise NotImplementedError(f"{type(self).__name__} contrasts nothing")

    def contrast(self, vectors: Tensor, groups: Tensor) -> Tensor:
        """Return ``contrast`` of :meth:`sums` from the vectors (B, W) of items and their ``group`` (B,)."""
        raise NotImplementedError(f"{type(self).__name__} contrasts nothing")

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with what follows from its numbers alone, such as places of words, unless it is there.

        On an accelerator the shapes of these tensors would have to be waited for; whoever loads batches does it before.
        """
        return batch

    @abstractmethod
    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return sums over the micro-batch, scalars with a graph, of each part of the loss that is not switched off.

        Sums, so that whoever knows the whole batch can divide by what belongs to it:

        - ``generation``: -log p(y | x), over the tokens of ``y_out``;
        - ``reconstruction``: over tokens (``token_mean``), or over items of the mean over an item's tokens;
        - ``contrast``, ``bow``: over items.
        """

    @abstractmethod
    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return what takes decoding steps, and the first token of each output (B,).

        Args:
            batch: the sources.
            mask: their keywords.
            slots: tokens that will be tried per item, all steps and hypotheses together; see :class:`BeamCache`.
        """

    def forward(self, batch: Batch, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Return :meth:`sums`."""
        return self.sums(batch, mask)

    @torch.no_grad()
    def rewrite(
        self, batch: Batch, mask: Tensor | None, rules: Rules, num_beams: int = 1
    ) -> Tensor:
        """Generate one output per source.

        Args:
            batch: the sources.
            mask: their keywords (B, L); None for models without.
            rules: lengths and banned tokens.
            num_beams: width of the beam; 1 is greedy.

        Returns:
            Tokens (B, L), L <= max_length + 1: the output, </s>, then padding.

        Raises:
            ValueError: the model is in training mode, a mask is missing, or an option is not valid.
        """
        steps, start = self._started(batch, mask, rules, num_beams)
        return beam_search(steps, start, rules, num_beams=num_beams)

    @torch.no_grad()
    def rewrite_several(
        self, batch: Batch, mask: Tensor | None, rules: Rules, count: int, num_beams: int
    ) -> Tensor:
        """Generate the ``count`` best outputs per source, (B, count, L); see :meth:`rewrite` and `best_outputs`."""
        steps, start = self._started(batch, mask, rules, num_beams)
        return best_outputs(steps, start, rules, count, num_beams=num_beams)

    def _started(self, batch: Batch, mask: Tensor | None, rules: Rules, num_beams: int) -> tuple[Decodable, Tensor]:
        if self.training:
            raise ValueError(f"{type(self).__name__}: call eval() before rewrite(), or dropout decides the output")
        return self.begin(batch, mask, 1 + rules.max_length * num_beams)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices by Xavier's rule, embeddings among them; biases begin at 0."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)
