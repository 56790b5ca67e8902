"""What every model of the PGKPR track is: sums of loss parts to train on, and steps to decode with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers import initialization as init

from models.common.decoding import Decodable, Rules, beam_search, best_outputs
from models.common.former import without_former
from models.common.special import BOS, EOS, PAD
from models.pgkpr.config import (
    ARCHITECTURES,
    IaNetSettings,
    LatentBowSettings,
    PairContrast,
    Reconstruction,
    ResidualLstmSettings,
    Sizes,
    Source,
)

Batch = Mapping[str, Tensor]
Group = TypeVar("Group")

_GROUPS = ("sizes", "source", "reconstruction", "contrast", "residual_lstm", "latent_bow", "ianet")
# What models of earlier versions hold besides.
_FORMER: dict[str, dict[str, Any]] = {
    "contrast": {"temperature": 0.1},
    "residual_lstm": {"layers": 4, "residual_every": 2, "attention": True},
    "latent_bow": {"layers": 2, "bags": 3, "weight": 1.0, "temperature": 0.5},
}


class RewriterConfig(PretrainedConfig):
    """Configuration of every :class:`Rewriter`; a model reads the groups of its own architecture.

    Args:
        architecture: one of ``ARCHITECTURES``.
        vocab_size: special tokens, tags and words.
        max_words: words of a text that the model reads and was taught; the rest is cut.
        groups: plain values of the dataclasses in :mod:`models.pgkpr.config`, under the names of the params block
            ``train_pgkpr``; missing ones take their defaults. Whatever else there is goes to ``PretrainedConfig``.

    Raises:
        ValueError: the architecture or a setting is unknown, a vocabulary of no token, or a setting of an earlier
            version that the code no longer has.
    """

    model_type = "keycontrast-rewriter"

    def __init__(self, architecture: str = "pgkpr", vocab_size: int = 8000, max_words: int = 17,
                 **groups: Any) -> None:
        self.architecture = architecture
        self.vocab_size = vocab_size
        self.max_words = max_words
        given = without_former(groups, _FORMER)
        self.sizes = _group(Sizes, given.pop("sizes", None))
        self.source = _group(Source, given.pop("source", None))
        self.reconstruction = _group(Reconstruction, given.pop("reconstruction", None))
        self.contrast = _group(PairContrast, given.pop("contrast", None))
        self.residual_lstm = _group(ResidualLstmSettings, given.pop("residual_lstm", None))
        self.latent_bow = _group(LatentBowSettings, given.pop("latent_bow", None))
        self.ianet = _group(IaNetSettings, given.pop("ianet", None))
        given.update(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, tie_word_embeddings=False)
        self._check()
        super().__init__(**given)

    @classmethod
    def from_params(cls, values: Mapping[str, Any], vocab_size: int, max_length: int) -> "RewriterConfig":
        """Build the configuration from the plain values of the params block ``train_pgkpr``.

        Args:
            values: the block as nested plain values (``TrainPgkpr.model_dump()``); what only training reads is left.
            vocab_size: special tokens, tags and words.
            max_length: becomes ``max_words``; ``transformers`` keeps the name for itself.
        """
        groups = {name: values[name] for name in _GROUPS if name in values}
        return cls(values["architecture"], vocab_size, max_length, **groups)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``config.json`` holds them."""
        return super().to_dict() | {name: asdict(getattr(self, name)) for name in _GROUPS}

    def _check(self) -> None:
        problems = []
        if self.architecture not in ARCHITECTURES:
            problems.append(f"architecture is {self.architecture!r}, expected one of {', '.join(ARCHITECTURES)}")
        if self.vocab_size < 1:
            problems.append(f"vocab_size is {self.vocab_size}, expected 1 or more")
        for name in _GROUPS:
            for setting in fields(getattr(self, name)):
                value, valid = getattr(getattr(self, name), setting.name), setting.metadata.get("choices")
                if valid is not None and value not in valid:
                    problems.append(f"{name}.{setting.name} is {value!r}, expected one of {', '.join(valid)}")
        if problems:
            raise ValueError("RewriterConfig: " + "; ".join(problems))


def _group(kind: type[Group], values: Mapping[str, Any] | None) -> Group:
    try:
        return kind(**(values or {}))
    except TypeError as error:
        raise ValueError(f"RewriterConfig: {error}") from error


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
