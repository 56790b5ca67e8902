"""Tables that the keyword stages write, but for ranked phrases."""
