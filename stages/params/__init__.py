"""Validated params: what may stand in ``params.yaml`` and in a recipe, and which stage reads what."""

from stages.params.keys import STAGE_PARAMS, stage_hash, stage_values
from stages.params.load import load_params, parse_params
from stages.params.presets import laid_over
from stages.params.root import Params

__all__ = ["STAGE_PARAMS", "Params", "laid_over", "load_params", "parse_params", "stage_hash", "stage_values"]
