"""The contrasts of HCL by name, in the order in which they enter the objective (HCL section 3.2).

A further one is a module here, its place in :data:`CONTRASTS`, and its block in ``stages.tracks.hcl.params.Contrasts``:
objective, monitors, alarms, validation and curves go over this mapping.
"""

from models.hcl.contrasts.contrast import Contrast
from models.hcl.contrasts.instance import InstanceContrast
from models.hcl.contrasts.keyword import KeywordContrast
from models.hcl.contrasts.mahalanobis import MahalanobisContrast

CONTRASTS: dict[str, Contrast] = {
    contrast.name: contrast for contrast in (InstanceContrast(), KeywordContrast(), MahalanobisContrast())}

__all__ = ["CONTRASTS", "Contrast"]
