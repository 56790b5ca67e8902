"""Stage annotate: tokens, lemmas, parts of speech and noun chunks."""
