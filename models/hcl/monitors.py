"""Signs of collapse: is z used, and do the contrasts still pull? (METHODS A.5, A.6)"""

import torch
from torch import Tensor

from models.hcl.config import HclConfig
from models.hcl.output import HclOutput

ACTIVE_VARIANCE = 0.01  # a unit is active if its posterior mean varies more than this over inputs
VANISHED_LOSS = 0.01


class Monitor:
    """Collects outputs of an epoch's validation batches and sums them up.

    >>> monitor = Monitor(model.config)
    >>> for batch in batches:
    ...     monitor.add(model(batch))
    >>> monitor.values()

    Args:
        config: the model's configuration.
    """

    def __init__(self, config: HclConfig) -> None:
        self.config = config
        self._rows: dict[str, list[Tensor]] = {}

    def add(self, output: HclOutput) -> None:
        """Take in a batch."""
        latent, keyword, level = output.latent, output.keyword, output.level
        if latent is not None:
            self._keep(kl=latent.kl, mu=latent.posterior.mu, sigma=torch.exp(0.5 * latent.posterior.logvar).mean(-1))
        if latent is not None and latent.instance is not None and latent.instance_mask is not None:
            gap = (latent.d_pos - latent.d_neg).abs()  # type: ignore[operator]
            self._keep_contrast("instance", latent.instance, gap, latent.instance_mask)
        if keyword is not None:
            self._keep_contrast("keyword", keyword.contrast, (keyword.s_out - keyword.s_imp).abs(), keyword.mask)
        if keyword is not None and level is not None:
            self._keep_contrast("mahalanobis", level.contrast, (level.d_out - level.d_imp).abs(), keyword.mask)

    def values(self) -> dict[str, float]:
        """Return the monitors by name; those without any sample are left out.

        ``kl`` mean KL(q+ || p) in nats; ``active_units`` number of dimensions of z whose posterior mean
        varies over inputs; ``sigma`` mean spread of the posterior. For each contrast: ``_masked`` share of
        samples that take no part, ``_vanished`` share of the others with a loss below 0.01 (above 0.9: raise
        the temperature), ``_gap`` mean difference of the two candidates in units of the temperature.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found: dict[str, float] = {}
        if "mu" in rows:
            found["kl"], found["sigma"] = float(rows["kl"].mean()), float(rows["sigma"].mean())
            found["active_units"] = float((rows["mu"].var(0, correction=0) > ACTIVE_VARIANCE).sum())
        for name in ("instance", "keyword", "mahalanobis"):
            if f"{name}_mask" in rows:
                found |= self._contrast_values(name, rows)
        return found

    def _contrast_values(self, name: str, rows: dict[str, Tensor]) -> dict[str, float]:
        mask = rows[f"{name}_mask"]
        values = {f"{name}_masked": float((~mask).float().mean())}
        if mask.any():
            losses, gaps = rows[f"{name}_loss"][mask], rows[f"{name}_gap"][mask]
            values[f"{name}_vanished"] = float((losses < VANISHED_LOSS).float().mean())
            values[f"{name}_gap"] = float(gaps.mean()) / self.config.contrasts[name]["temperature"]
        return values

    def _keep_contrast(self, name: str, loss: Tensor, gap: Tensor, mask: Tensor) -> None:
        self._keep(**{f"{name}_loss": loss, f"{name}_gap": gap, f"{name}_mask": mask})

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor.detach().cpu())
