"""Tables of the keyword graph."""
