"""PGKPR: paraphrasing with keyword and part-of-speech reconstruction (Findings of ACL 2022)."""


import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.layers import token_nll
from models.common.losses import at_least_float32, pair_contrast
from models.common.rows import RealTokens
from models.common.special import IGNORE
from models.pgkpr.base import Batch, RewriterConfig
from models.pgkpr.sequences import Mixture, counterpart, mixture
from models.pgkpr.transformer import TransformerRewriter


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
        return self.output(self.read(states))

    def read(self, states: Tensor) -> Tensor:
        """Return what words are scored from (N, d)."""
        return self.norm(F.gelu(self.dense(states)))


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
        self.reconstruction = ReconstructionHead(config.sizes.width, config.vocab_size)
        self.post_init()

    @property
    def uses_keywords(self) -> bool:
        """Whether ``mask`` is read: always."""
        return True

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the rows of TS_s but for the choice of keywords, and of what it is contrasted with."""
        if "mixed_real" in batch:
            return batch
        sides = [side for side in self._sides() if f"{side}_ids" in batch]
        width = 2 * max(int(batch[f"{side}_lengths"].max()) for side in ("x", *sides)) + 3
        wide = width if self._together() else None  # as one batch, they are of one width
        mixed, real = mixture(batch["x_ids"], batch["x_tags"], batch["x_lengths"], wide)
        tokens, length = RealTokens(real), batch["x_ids"].shape[1]
        texts = torch.arange(len(real), device=real.device).unsqueeze(1)
        in_flat = mixed._replace(source=mixed.source + length * texts)  # among the words of all texts (B L,)
        found = {**super().planned(batch), **tokens.named("mixed")}
        found |= {f"mixed_{name}": tokens.rows(part) for name, part in in_flat._asdict().items()}
        for side in sides:
            words, tags, lengths = (batch[f"{side}_{part}"] for part in ("ids", "tags", "lengths"))
            ids, real = counterpart(words, tags, lengths, self.config.contrast.order, wide)
            tokens = RealTokens(real)
            found |= {**tokens.named(f"plain_{side}"), f"plain_{side}_rows": tokens.rows(ids)}
        return found

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memory of TS_s."""
        batch = self.planned(batch)
        ids, _ = self._chosen(batch, mask)
        seen = self.seen(RealTokens.given(batch, "mixed"))
        return self.remembered(self.encode(ids, *seen), *seen)

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sums of generation and, where they weigh anything, of reconstruction and contrast."""
        parts, pooled = self._parts(batch, mask)
        if pooled:
            parts["contrast"] = self._contrast(pooled, batch["group"])
        return parts

    @property
    def contrasts(self) -> bool:
        """Whether the contrast weighs anything."""
        return self.config.contrast.weight > 0

    def apart(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return the sums without the contrast, and e_s, e_t and any further encoding of each item, joined."""
        parts, pooled = self._parts(batch, mask)
        return parts, torch.cat(pooled, dim=-1)

    def contrast(self, vectors: Tensor, groups: Tensor) -> Tensor:
        """Return the contrast of what :meth:`apart` gave of all items (B, W), summed over them."""
        return self._contrast(list(vectors.split(self.config.sizes.width, dim=-1)), groups)

    def _parts(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Return the sums without the contrast, and the encodings (B, d) that it is of; none without a contrast."""
        batch = self.planned(batch)
        ids, targets = self._chosen(batch, mask)
        tokens, sides = RealTokens.given(batch, "mixed"), self._sides()
        others = [RealTokens.given(batch, f"plain_{side}") for side in sides]
        rows = [batch[f"plain_{side}_rows"] for side in sides]
        if self._together():  # an accelerator spends a pass on launching it
            states, *contrasted = self.encode_together([ids, *rows], [tokens, *others])
        else:  # one pass costs as much as several (measured)
            states, contrasted = self.encode(ids, *self.seen(tokens)), []
        parts = {"generation": self.generation(batch, self.remembered(states, *self.seen(tokens)))}
        if self.config.reconstruction.weight > 0:
            parts["reconstruction"] = self._reconstruction(states, targets, tokens)
        if not sides:
            return parts, []
        # Last on a CPU: the other terms then draw the same dropout and have the same bits, contrast or not.
        contrasted = contrasted or [self.encode(one, *self.seen(of)) for one, of in zip(rows, others, strict=True)]
        return parts, [_pooled(one, of) for one, of in zip([states, *contrasted], [tokens, *others], strict=True)]

    def _together(self) -> bool:
        return self.device.type != "cpu"

    def _sides(self) -> list[str]:
        """Return whose unperturbed sequences are encoded: the targets', the sources' if these are negatives too."""
        if not self.contrasts:
            return []
        return ["t", "x"] if self.config.contrast.neg == "all" else ["t"]

    def _chosen(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return ids and targets of TS_s (M,)."""
        if mask is None:
            raise ValueError("Pgkpr: give the keywords of the sources, mask (B, L)")
        mixed = Mixture(*(batch[f"mixed_{name}"] for name in Mixture._fields))
        return mixed.chosen(mask.bool().flatten().index_select(0, mixed.source))

    def encode_together(self, ids: list[Tensor], tokens: list[RealTokens]) -> list[Tensor]:
        """Return :meth:`encode` of each of several batches of one width, from one pass over all of them."""
        states = self.encode(torch.cat(ids), *self.seen(RealTokens.stacked(tokens)))
        return list(states.split([len(part) for part in ids]))

    def _reconstruction(self, states: Tensor, targets: Tensor, tokens: RealTokens) -> Tensor:
        """Return L_rec of states (M, d), summed over tokens, or over items of the mean over an item's tokens."""
        head = self.reconstruction
        if self.config.reconstruction.reduction == "token_mean":
            return token_nll(head.output, head.read(states), targets, IGNORE)
        losses = token_nll(head.output, head.read(states), targets, IGNORE, "none")  # (M,)
        counts = tokens.real.sum(-1, keepdim=True).expand_as(tokens.real)  # (B, S)
        return (losses / tokens.rows(counts)).sum()

    def _contrast(self, pooled: list[Tensor], groups: Tensor) -> Tensor:
        anchor, positive, *others = pooled
        return pair_contrast(anchor, positive, 0.1, self.config.contrast.sim, groups, *others).sum()


def _pooled(states: Tensor, tokens: RealTokens) -> Tensor:
    """Return the mean over real places (B, d) of states (M, d), in float32 under autocast too."""
    (states,) = at_least_float32(states)
    weights = (tokens.real / tokens.real.sum(-1, keepdim=True)).to(states.dtype).unsqueeze(1)  # (B, 1, S)
    with torch.autocast(states.device.type, enabled=False):
        return (weights @ tokens.padded(states)).squeeze(1)
