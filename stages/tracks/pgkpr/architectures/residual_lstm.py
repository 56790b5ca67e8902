"""Residual-LSTM (Prakash et al. 2016)."""

from models.pgkpr.rewriters import ResidualLstm
from stages.tracks.pgkpr.architecture import RewriterArchitecture

ARCHITECTURE = RewriterArchitecture("residual_lstm", "Residual-LSTM (Prakash et al. 2016)", 1e-3, ResidualLstm)
