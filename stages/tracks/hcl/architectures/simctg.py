"""DialoGPT's model trained with SimCTG's contrast between tokens."""

from functools import partial

from models.hcl.baselines.simctg import SimCtg
from stages.tracks.hcl.architectures.dialogpt import FAMILIES, sequence_config
from stages.tracks.hcl.piece_baselines import Making, of_pieces
from stages.tracks.hcl.pretrained import start_of, weighted


def _built(making: Making) -> SimCtg:
    model: SimCtg = weighted(SimCtg, making, sequence_config(making))
    return model


ARCHITECTURE = of_pieces("simctg", "SimCTG", __name__, _built, partial(start_of, "simctg", FAMILIES))
