"""T5-CLAPS: T5 with contrasts against perturbed targets (Lee et al. 2021)."""

from functools import partial

from models.hcl.baselines.claps import T5Claps
from stages.tracks.hcl.architectures.t5 import start_t5, t5_sized
from stages.tracks.hcl.piece_baselines import Making, of_pieces
from stages.tracks.hcl.pretrained import weighted


def _built(making: Making) -> T5Claps:
    model: T5Claps = weighted(T5Claps, making, t5_sized(making))
    return model


ARCHITECTURE = of_pieces("t5_claps", "T5-CLAPS", __name__, _built, partial(start_t5, "t5_claps"))
