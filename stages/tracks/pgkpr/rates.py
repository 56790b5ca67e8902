"""Learning rates of the PGKPR track where params leave them open."""

# By architecture (METHODS C.5 and C.7), for training.learning_rate null.
RATES: dict[str, float] = {"pgkpr": 1e-4, "transformer": 1e-4, "ianet": 1e-4, "residual_lstm": 1e-3, "latent_bow": 8e-4}
