"""From raw files to triples: readers, text keys, pairs, partners, splits and retrieved negatives."""
