"""Networks, losses and the training loop, in torch alone; trained weights are in ``artifacts/``."""
