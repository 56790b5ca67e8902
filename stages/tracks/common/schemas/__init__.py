"""Tables that tracks have in common."""
