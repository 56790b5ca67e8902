"""Code of the CLLD track: labelled texts, training, evaluation, tables of confusions."""
