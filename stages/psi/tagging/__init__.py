"""The S-Tagger's work: labelled sources as numbers of words, tags, and the folder of a trained tagger."""
