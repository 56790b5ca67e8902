"""What a contrast of HCL is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from models.hcl.alarms import Alarm, Row
from models.hcl.output import BatchTotals, Contrasted, KeywordOutput, LatentOutput

if TYPE_CHECKING:
    from models.hcl.config import HclConfig
    from models.hcl.network import HclNetwork


class Contrast(ABC):
    """A contrast between a right and a wrong candidate for each sample.

    Attributes:
        name: its block in ``contrasts`` of the configuration, its part of the objective, and the beginning of the
            names of its monitors: ``NAME_loss``, ``NAME_gap`` and so on.
        defaults: of its block, ``weight`` and ``temperature`` among them; weight 0 takes it out of the objective.
        needs_latent: it reads distributions over z; a model without them lacks it.
        needs_keyword: it reads keyword vectors, likewise.
        two_sided: each sample has one wrong candidate, so that its loss is log 2 where the two are equal.
        modules: makers of modules of its own, by the names that they have in the network.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]
    needs_latent: ClassVar[bool] = False
    needs_keyword: ClassVar[bool] = False
    two_sided: ClassVar[bool] = False
    modules: ClassVar[Mapping[str, Callable[["HclConfig"], nn.Module]]] = {}

    @abstractmethod
    def of(self, network: "HclNetwork", keyword: KeywordOutput | None,
           latent: LatentOutput | None) -> Contrasted | None:
        """Return what it makes of a batch; None if the batch has nothing to contrast.

        Args:
            network: with the configuration, and the contrast's own modules.
            keyword: never None if :attr:`needs_keyword`.
            latent: never None if :attr:`needs_latent`; None otherwise, for a contrast of keywords alone comes first.
        """

    @abstractmethod
    def count(self, totals: BatchTotals) -> int:
        """Return how many samples of a whole batch take part."""

    def advice_if_stuck(self, config: "HclConfig") -> str:
        """Return what to try if its loss does not move."""
        temperature = config.contrasts[self.name]["temperature"]
        return (f"lower contrasts.{self.name}.temperature (now {temperature:g}), raise its weight or the learning "
                f"rate, and look at train_{self.name}_masked: few items may take part")

    def alarms(self, rows: Sequence[Row]) -> list[Alarm]:
        """Return alarms of its own that stand after the last of ``rows``; see :func:`models.hcl.find_alarms`."""
        return []
