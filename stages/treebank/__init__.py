"""The recipe of the embedded English pipeline: from a treebank to a trained spaCy pipeline and its scores."""
