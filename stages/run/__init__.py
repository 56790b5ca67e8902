"""What every stage process shares: errors, logging, progress, seeds, checkpoints, locks and resource records."""
