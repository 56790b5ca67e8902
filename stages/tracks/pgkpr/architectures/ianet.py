"""IANet: its primary words are by PSI, or what `keywords.by` names beside attribution."""

from models.pgkpr.rewriters import IaNet
from stages.tracks.pgkpr.architecture import RewriterArchitecture
from stages.tracks.pgkpr.items import Rule


def _rule(by: Rule) -> Rule:
    """Return PSI, its own, for attribution: that is what the params say where nobody asked for anything."""
    return "psi" if by == "attribution" else by


ARCHITECTURE = RewriterArchitecture("ianet", "IANet (Su et al. 2021)", 1e-4, IaNet, rule=_rule)
