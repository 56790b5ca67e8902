"""Latent bag of words, which predicts the words of the target before it writes them."""

from models.pgkpr.rewriters import LatentBow
from stages.tracks.pgkpr.architecture import RewriterArchitecture

ARCHITECTURE = RewriterArchitecture("latent_bow", "Latent bag of words (Fu et al. 2019)", 8e-4, LatentBow, bag=True)
