"""Word vectors, and how much each word of a text matters by them: paired semantic importance (IANet)."""
