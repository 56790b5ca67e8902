"""PGKPR: paraphrasing with keyword and part-of-speech reconstruction (Findings of ACL 2022; METHODS C.3-C.5)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.losses import at_least_float32, pair_contrast
from models.rewriters.base import Batch
from models.rewriters.config import RewriterConfig
from models.rewriters.layers import token_nll
from models.rewriters.sequences import counterpart, perturbed
from models.rewriters.special import IGNORE
from models.rewriters.transformer import TransformerRewriter
from models.rows import RealTokens

Tokens = tuple[Tensor, Tensor]  # ids and which of them are real, (B, S) each


class ReconstructionHead(nn.Module):
    """Scores of what stood in the place of each token of TS_s: dense, GELU, LayerNorm, linear.

    Args:
        width: d.
        vocab_size: V.
    """

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocab_size)

    def forward(self, states: Tensor) -> Tensor:
        """Return scores (N, V) of encoder states (N, d)."""
        return self.output(self.norm(F.gelu(self.dense(states))))


class Pgkpr(TransformerRewriter):
    """PGKPR as it is trained, saved and used.

    The encoder reads TS_s, ``<s> part 1 <sep> part 2 </s>``, where keywords and all other words are replaced by their
    tags in turn; the decoder attends to all of its states. Two losses come beside generation: L_rec, reconstruction
    of tags and keywords at the encoder (eq. 2), and L_con, a contrast of e_s, the mean encoding of TS_s, with e_t,
    that of the unperturbed pair sequence of the target, against other sentences of the batch (eq. 3). A loss of
    weight 0 is not computed. All modules exist whatever the weights, so the rows of an ablation table start from the
    same weights under one seed.
    """

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.reconstruction = ReconstructionHead(config.sizes["width"], config.vocab_size)
        self.post_init()

    @property
    def uses_keywords(self) -> bool:
        """Whether ``mask`` is read: always."""
        return True

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the encoder states of TS_s."""
        ids, _, real = self._perturbed(batch, mask)
        return self.encode(ids, real), real

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sums of generation and, where they weigh anything, of reconstruction and contrast."""
        parts, pooled = self._parts(batch, mask)
        if pooled:
            parts["contrast"] = self._contrast(pooled, batch["group"])
        return parts

    @property
    def contrasts(self) -> bool:
        """Whether the contrast weighs anything."""
        return self.config.contrast["weight"] > 0

    def apart(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return the sums without the contrast, and e_s, e_t and any further encoding of each item, joined."""
        parts, pooled = self._parts(batch, mask)
        return parts, torch.cat(pooled, dim=-1)

    def contrast(self, vectors: Tensor, groups: Tensor) -> Tensor:
        """Return the contrast of what :meth:`apart` gave of all items (B, W), summed over them."""
        return self._contrast(list(vectors.split(self.config.sizes["width"], dim=-1)), groups)

    def _parts(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Return the sums without the contrast, and the encodings (B, d) that it is of; none without a contrast."""
        ids, targets, real = self._perturbed(batch, mask)
        counterparts = self._counterparts(batch) if self.contrasts else []
        if ids.is_cpu:  # one pass costs as much as several (measured)
            memory, others = self.encode(ids, real), []
        else:  # an accelerator spends a pass on launching it
            memory, *others = self.encode_together([(ids, real), *counterparts])
        parts = {"generation": self.generation(batch, (memory, real))}
        if self.config.reconstruction["weight"] > 0:
            parts["reconstruction"] = self._reconstruction(memory, targets)
        pooled = []
        if counterparts:
            # Last on a CPU: the other terms then draw the same dropout and have the same bits, contrast or not.
            others = others or [self.encode(*counterpart) for counterpart in counterparts]
            pooled = [_pooled(memory, real), *(_pooled(states, of) for states, (_, of)
                                               in zip(others, counterparts, strict=True))]
        return parts, pooled

    def _perturbed(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if mask is None:
            raise ValueError("Pgkpr: give the keywords of the sources, mask (B, L)")
        return perturbed(batch["x_ids"], batch["x_tags"], mask, batch["x_lengths"])

    def _counterparts(self, batch: Batch) -> list[Tokens]:
        """Return the unperturbed sequences of the targets, and of the sources if these are negatives too."""
        order = self.config.contrast["order"]
        texts = ["t", "x"] if self.config.contrast["neg"] == "all" else ["t"]
        return [counterpart(batch[f"{text}_ids"], batch[f"{text}_tags"], batch[f"{text}_lengths"], order)
                for text in texts]

    def encode_together(self, sequences: list[Tokens]) -> list[Tensor]:
        """Return :meth:`encode` of each of several batches of tokens, from one pass over all of them."""
        longest = max(ids.shape[1] for ids, _ in sequences)
        ids, real = (torch.cat([F.pad(part, (0, longest - part.shape[1])) for part in parts])
                     for parts in zip(*sequences, strict=True))
        parts = self.encode(ids, real).split([len(ids) for ids, _ in sequences])
        return [part[:, : ids.shape[1]] for part, (ids, _) in zip(parts, sequences, strict=True)]

    def _reconstruction(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return L_rec, summed over tokens, or over items of the mean over an item's tokens."""
        tokens = RealTokens(targets != IGNORE)
        losses = token_nll(self.reconstruction, tokens.rows(states), tokens.rows(targets))  # (N,)
        if self.config.reconstruction["reduction"] == "token_mean":
            return losses.sum()
        counts = tokens.real.sum(-1, keepdim=True).expand_as(targets)  # (B, S)
        return (losses / tokens.rows(counts)).sum()

    def _contrast(self, pooled: list[Tensor], groups: Tensor) -> Tensor:
        settings = self.config.contrast
        anchor, positive, *others = pooled
        losses = pair_contrast(anchor, positive, settings["temperature"], settings["sim"], groups, *others)
        return losses.sum()


def _pooled(states: Tensor, real: Tensor) -> Tensor:
    """Return the mean over real positions (B, d) of states (B, S, d), in float32 under autocast too."""
    (states,) = at_least_float32(states)
    weights = (real / real.sum(-1, keepdim=True)).to(states.dtype).unsqueeze(1)  # (B, 1, S)
    with torch.autocast(states.device.type, enabled=False):
        return (weights @ states).squeeze(1)
