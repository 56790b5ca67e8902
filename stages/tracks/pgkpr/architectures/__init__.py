"""The architectures of the PGKPR track: PGKPR, and what it is compared with."""

from stages.tracks.pgkpr.architecture import RewriterArchitecture
from stages.tracks.pgkpr.architectures import ianet, latent_bow, pgkpr, residual_lstm, transformer

ARCHITECTURES: dict[str, RewriterArchitecture] = {module.ARCHITECTURE.name: module.ARCHITECTURE for module in (
    pgkpr, transformer, residual_lstm, latent_bow, ianet)}
