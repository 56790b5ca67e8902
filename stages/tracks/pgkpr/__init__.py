"""Code of the PGKPR track: words, vocabulary, batches, keyword masks, training."""
