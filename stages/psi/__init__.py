"""Stages word_vectors, psi, s_tagger and character_encoder."""
