"""The architectures of the HCL track: whatever is trained on its items stands in the same table."""

from stages.tracks.hcl.architecture import Architecture
from stages.tracks.hcl.architectures import dialogpt, hcl, seq2seq, simctg, t5, t5_claps, transformer

ARCHITECTURES: dict[str, Architecture] = {
    module.ARCHITECTURE.name: module.ARCHITECTURE
    for module in (hcl, seq2seq, transformer, dialogpt, t5, t5_claps, simctg)}
