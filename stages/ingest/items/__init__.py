"""Items of source, target and negative, or of text and class, made of the rows that were taken."""
