"""The architectures of the HCL track: whatever is trained on its items stands in the same table."""

from stages.tracks.hcl.architecture import Architecture
from stages.tracks.hcl.architectures import (
    cvae,
    dialogpt,
    group_wise,
    hcl,
    seq2seq,
    seq2seq_du,
    simctg,
    t5,
    t5_claps,
    transformer,
)

ARCHITECTURES: dict[str, Architecture] = {
    module.ARCHITECTURE.name: module.ARCHITECTURE
    for module in (hcl, cvae, seq2seq, transformer, seq2seq_du, dialogpt, t5, group_wise, t5_claps, simctg)}
