"""IANet, whose primary words are by PSI alone (METHODS C.6, C.7)."""

from models.rewriters.ianet import IaNet
from stages.tracks.pgkpr.architecture import RewriterArchitecture

ARCHITECTURE = RewriterArchitecture("ianet", "IANet (Su et al. 2021)", 1e-4, IaNet, rule=lambda by: "psi")
