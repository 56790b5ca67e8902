"""What validation says of an epoch: the loss that selects, and whether z and the contrasts still do their work."""

from collections.abc import Mapping

import torch
from torch import Tensor

from models.hcl.monitors import Monitor
from models.hcl.network import HclNetwork
from models.hcl.objective import validation_loss
from models.hcl.output import HclOutput
from models.hcl.plan import Targets

# Reconstructions from the prior and from zero cost a pass of the decoder each; with those of every fourth item,
# validation takes about one and a half times as long as the selecting loss alone.
EVERY = 4


class Validation:
    """Adds up validation batches; see :class:`HclNetwork` for what a batch holds.

    The loss that selects checkpoints reads input, target and input keyword alone. Negatives and output keywords,
    where a batch has them, are read by monitors only (METHODS A.8), and so change no choice.

    >>> validation = Validation(model.eval())
    >>> for batch in batches:
    ...     validation.add(batch)
    >>> validation.values()["loss"]

    Args:
        model: on the device of the batches.
        every: reconstruct one item in so many from the prior and from zero as well.
    """

    def __init__(self, model: HclNetwork, every: int = EVERY) -> None:
        self.model, self.every = model, every
        self._items = 0
        self._monitor = Monitor(model.config)
        self._rows: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def add(self, batch: Mapping[str, Tensor]) -> None:
        """Take in a batch; see :meth:`HclNetwork.passed`.

        Raises:
            ValueError: the model is in training mode.
        """
        model = self.model
        if model.training:
            raise ValueError("Validation: call eval() on the model, or dropout decides the values")
        output = model.passed(batch, validating=True)
        self._keep(loss=validation_loss(output, model.config), reconstruction=output.reconstruction)
        self._monitor.add(output)
        self._probe_latent(output, batch)
        self._items += len(output.reconstruction)

    def values(self) -> dict[str, float]:
        """Return the values by name.

        ``loss`` selects: L_rec(z ~ q) + KL over the mean target length, mean over items. ``reconstruction`` with
        z from the posterior, ``reconstruction_prior`` and ``reconstruction_zero`` with z from the prior and z = 0,
        in nats per item; of the latter two, the difference to the first was measured on every fourth item. The
        rest is :meth:`Monitor.values`; keyword contrasts are those of items whose keywords are all nodes.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found = {name: float(rows.pop(name).mean()) for name in ("loss", "reconstruction")}
        found |= {name: found["reconstruction"] + float(worse.mean()) for name, worse in rows.items()}
        return found | self._monitor.values()

    def _probe_latent(self, output: HclOutput, batch: Mapping[str, Tensor]) -> None:
        """Keep how much worse some items are reconstructed without the posterior."""
        if output.latent is None:
            return
        first = -self._items % self.every  # by the item's number, however items fall into batches
        chosen = torch.arange(first, len(output.hidden), self.every, device=output.hidden.device)
        if not len(chosen):
            return
        part = {name: batch[name][chosen] for name in ("x_mask", "y_in", "y_in_mask", "y_out")}
        u_in = output.keyword.u_in[chosen] if output.keyword is not None else None
        noise, targets = self.model.noise(batch), Targets.of(part["y_in_mask"])
        for name, z in (("prior", output.latent.prior.sample(noise)), ("zero", torch.zeros_like(noise))):
            found = self.model.reconstruct(output.hidden[chosen], u_in, z[chosen], part, targets)
            self._keep(**{f"reconstruction_{name}": found - output.reconstruction[chosen]})

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor)
