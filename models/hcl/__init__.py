"""The HCL generator: hierarchical contrasts over instances and keywords (ACL 2022)."""

from models.hcl.config import HclConfig
from models.hcl.keyword_graph import KeywordGraph
from models.hcl.model import HclModel
from models.hcl.monitors import Monitor
from models.hcl.objective import BatchTotals, kl_weight, objective, validation_loss
from models.hcl.output import HclOutput

__all__ = [
    "BatchTotals",
    "HclConfig",
    "HclModel",
    "HclOutput",
    "KeywordGraph",
    "Monitor",
    "kl_weight",
    "objective",
    "validation_loss",
]
