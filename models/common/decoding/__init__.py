"""Decoding for every generator: greedy, beam search and contrastive search over anything that takes steps."""

from models.common.decoding.beam import beam_search, best_outputs
from models.common.decoding.cache import BeamCache
from models.common.decoding.contrastive import contrastive_search
from models.common.decoding.scores import project_in_full
from models.common.decoding.steps import CachedSteps, Decodable, Rules

__all__ = [
    "BeamCache",
    "CachedSteps",
    "Decodable",
    "Rules",
    "beam_search",
    "best_outputs",
    "contrastive_search",
    "project_in_full",
]
