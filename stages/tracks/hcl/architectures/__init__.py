"""The architectures of the HCL track: whatever is trained on its items stands in the same table."""

from stages.tracks.architecture import Architecture
from stages.tracks.hcl.architectures import hcl, transformer
from stages.tracks.hcl.row import HclRow

ARCHITECTURES: dict[str, Architecture[HclRow]] = {module.ARCHITECTURE.name: module.ARCHITECTURE
                                                  for module in (hcl, transformer)}
