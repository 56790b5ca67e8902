"""Group-wise contrasts (Cai et al. 2020) over a Transformer, from scratch."""

from models.hcl.baselines.group_wise import GroupWise
from stages.tracks.hcl.group_candidates import CandidateBatches
from stages.tracks.hcl.piece_baselines import of_pieces

ARCHITECTURE = of_pieces("group_wise", "Group-wise (Cai et al. 2020)", __name__, GroupWise, batches=CandidateBatches.of)
