"""The HCL generator: hierarchical contrasts over instances and keywords (ACL 2022)."""

from models.hcl.alarms import Alarm, find_alarms
from models.hcl.config import HclConfig
from models.hcl.keyword_graph import KeywordGraph
from models.hcl.model import HclModel
from models.hcl.objective import kl_weight, objective, validation_loss
from models.hcl.output import BatchTotals, HclOutput
from models.hcl.validation import Monitor, Validation, training_monitors
from models.hcl.warm_start import InitReport, init_from

__all__ = [
    "Alarm",
    "BatchTotals",
    "HclConfig",
    "HclModel",
    "HclOutput",
    "InitReport",
    "KeywordGraph",
    "Monitor",
    "Validation",
    "find_alarms",
    "init_from",
    "kl_weight",
    "objective",
    "training_monitors",
    "validation_loss",
]
