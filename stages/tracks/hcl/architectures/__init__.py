"""The architectures of the HCL track: whatever is trained on its items stands in the same table."""

from stages.tracks.hcl.architecture import Architecture
from stages.tracks.hcl.architectures import hcl, seq2seq, transformer

ARCHITECTURES: dict[str, Architecture] = {module.ARCHITECTURE.name: module.ARCHITECTURE
                                          for module in (hcl, seq2seq, transformer)}
