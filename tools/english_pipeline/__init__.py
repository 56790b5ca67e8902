"""How the shipped English pipeline data/language/en_ewt was trained: the recipe from treebank to scores."""
