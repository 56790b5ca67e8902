"""CLLD's own work: labelled texts, training, what a model is good for, tables of confusions."""
