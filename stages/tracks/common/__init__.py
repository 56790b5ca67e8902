"""What the tracks share: the frame of training, generating and evaluating."""
