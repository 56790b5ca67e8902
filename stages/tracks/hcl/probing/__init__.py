"""What a trained model makes of keywords and of its latent space (HCL Figure 3 and Table 4)."""
