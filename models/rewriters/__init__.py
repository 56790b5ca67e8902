"""Paraphrasers of the PGKPR track: the model, its ablations and the baselines (METHODS C)."""

from models.rewriters.auto import load_rewriter, rewriter_of
from models.rewriters.base import Rewriter
from models.rewriters.config import ARCHITECTURES, RewriterConfig

__all__ = ["ARCHITECTURES", "Rewriter", "RewriterConfig", "load_rewriter", "rewriter_of"]
