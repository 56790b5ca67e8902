"""Decoding for every generator: greedy, beam search and contrastive search over anything that takes steps."""

from models.decoding.beam import EarlyStopping, beam_search
from models.decoding.cache import BeamCache
from models.decoding.contrastive import contrastive_search
from models.decoding.decodable import Decodable, Rules
from models.decoding.projection import project

__all__ = ["BeamCache", "Decodable", "EarlyStopping", "Rules", "beam_search", "contrastive_search", "project"]
