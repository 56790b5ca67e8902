"""From the parts of a batch to the number that training lowers, and to the one that selects a checkpoint."""

from torch import Tensor

from models.common.losses import free_bits_kl, gaussian_kl, gaussian_kl_dims, masked_mean
from models.hcl.config import HclConfig
from models.hcl.output import BatchTotals, HclOutput, LatentOutput


def kl_weight(step: int, annealing_steps: int) -> float:
    """Return beta of the KL term, which rises from 0 to 1 and stays there (linear annealing, Bowman et al. 2016).

    Args:
        step: optimiser steps made so far.
        annealing_steps: steps over which beta rises; 0 gives 1 from the start.
    """
    return 1.0 if annealing_steps <= 0 else min(1.0, step / annealing_steps)


def objective(
    output: HclOutput, config: HclConfig, kl_weight: float, totals: BatchTotals | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the training loss of a batch, or a micro-batch's share in it.

    L = (L_rec + beta * KL + L_bow) / mean target length + sum of weighted contrasts; with ``added_to: sentence`` the
    contrasts are divided too, and so weigh beside the sum over a sentence as equation 3 prints it. Reconstruction, KL
    and bag of words are sums over a sentence (``sent_sum``) averaged over samples, then divided by a constant of
    the training set, so that beta means what it says. Free bits act here alone; beta touches no contrast.

    Args:
        output: of the model's training pass.
        config: the model's configuration; a contrast of weight 0 is left out.
        kl_weight: beta, from :func:`kl_weight`.
        totals: sizes of the whole batch if ``output`` is a part of it; shares then add up to the batch's
            loss. Only the free bits are granted to each part by itself, and the posterior's means normalised in it.

    Returns:
        The loss with its graph, and the parts, detached and unweighted, which add up likewise.
    """
    totals = totals or BatchTotals.of(output)
    share = len(output.reconstruction) / totals.items
    parts = {"reconstruction": output.reconstruction.sum() / totals.items}
    elbo = parts["reconstruction"]
    if output.latent is not None:
        parts["kl"] = output.latent.kl.sum() / totals.items
        elbo = elbo + share * _kl_term(output.latent, config, kl_weight)
    if output.latent is not None and output.latent.bow is not None:
        parts["bow"] = output.latent.bow.sum() / totals.items
        elbo = elbo + parts["bow"]
    loss = elbo / config.mean_target_length
    divisor = config.mean_target_length if config.contrasts["added_to"] == "sentence" else 1.0
    for contrast in config.contrasts_used:
        if (found := output.contrasts.get(contrast.name)) is not None:
            parts[contrast.name] = masked_mean(found.loss, found.mask, contrast.count(totals))
            loss = loss + config.contrasts[contrast.name]["weight"] / divisor * parts[contrast.name]
    return loss, {name: value.detach() for name, value in {"loss": loss, **parts}.items()}


def _kl_term(latent: LatentOutput, config: HclConfig, beta: float) -> Tensor:
    """Return beta KL, mean over samples, above its free bits.

    Where these are for the posterior alone, what annealing and floor are against, that z is left unused, is no matter
    of the prior: it has the gradient of KL at full weight from the first step. As in the balancing of DreamerV2
    (Hafner et al. 2021), each side sees the other as a constant; the value is that of the posterior's side.
    """
    settings, (q, p) = config.latent, (latent.posterior, latent.prior)
    if settings["free_bits_for"] == "both":
        return beta * free_bits_kl(latent.kl_dims, settings["free_bits"], settings["free_bits_by"])
    dims = gaussian_kl_dims(q.mu, q.logvar, p.mu.detach(), p.logvar.detach())
    pulled = gaussian_kl(q.mu.detach(), q.logvar.detach(), p.mu, p.logvar).mean()
    return beta * free_bits_kl(dims, settings["free_bits"], settings["free_bits_by"]) + pulled - pulled.detach()


def validation_loss(output: HclOutput, config: HclConfig) -> Tensor:
    """Return the loss that selects checkpoints, per sample (B,): L_rec(z ~ q) + KL over the mean target length.

    Beta is 1, and there are neither free bits nor auxiliary losses nor contrasts, so that every row of an
    ablation table is selected by the same quantity.
    """
    total = output.reconstruction if output.latent is None else output.reconstruction + output.latent.kl
    return total / config.mean_target_length
