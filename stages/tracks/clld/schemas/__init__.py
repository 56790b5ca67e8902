"""Tables of the CLLD track."""
