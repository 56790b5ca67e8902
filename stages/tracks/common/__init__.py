"""Code that the tracks share: the frame of training, generation and evaluation."""
