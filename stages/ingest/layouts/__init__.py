"""What the rows of a file mean: one module per kind of layout."""
