"""PGKPR and its ablations: keywords by attribution, by PSI, by TextRank, or a control."""

from models.pgkpr.pgkpr import Pgkpr
from stages.tracks.pgkpr.architecture import RewriterArchitecture

ARCHITECTURE = RewriterArchitecture("pgkpr", "PGKPR (Findings of ACL 2022)", 1e-4, Pgkpr, rule=lambda by: by)
