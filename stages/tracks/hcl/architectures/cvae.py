"""CVAE of GRUs (Zhao et al. 2017), from scratch."""

from models.hcl.baselines.cvae import Cvae
from stages.tracks.hcl.piece_baselines import of_pieces

ARCHITECTURE = of_pieces("cvae", "CVAE (Zhao et al. 2017)", __name__, Cvae)
