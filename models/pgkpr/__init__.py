"""Paraphrasers of the PGKPR track; nothing is imported here, since settings are read without torch."""
