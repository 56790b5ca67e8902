"""The three tracks: training, generating or classifying, and evaluating."""
