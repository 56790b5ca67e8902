"""What the papers of the tracks printed."""
