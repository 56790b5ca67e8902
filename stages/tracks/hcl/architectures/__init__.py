"""The architectures of the HCL track: whatever is trained on its items stands in the same table."""

from stages.tracks.hcl.architecture import Architecture
from stages.tracks.hcl.architectures import cvae, group_wise, hcl, seq2seq, seq2seq_du, transformer

ARCHITECTURES: dict[str, Architecture] = {module.ARCHITECTURE.name: module.ARCHITECTURE
                                          for module in (
    hcl, cvae, seq2seq, transformer, seq2seq_du, group_wise)}
