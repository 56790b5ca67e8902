"""Validation of ``params.yaml`` and recipes. No stage depends on it."""

from stages.params.load import load_params, parse_params, with_what_dvc_reads
from stages.params.root import Params

__all__ = ["Params", "load_params", "parse_params", "with_what_dvc_reads"]
