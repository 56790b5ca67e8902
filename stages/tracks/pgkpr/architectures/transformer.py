"""The plain Transformer that PGKPR builds on."""

from models.pgkpr.pgkpr import PlainTransformer
from stages.tracks.pgkpr.architecture import RewriterArchitecture

ARCHITECTURE = RewriterArchitecture("transformer", "Transformer baseline", 1e-4, PlainTransformer)
