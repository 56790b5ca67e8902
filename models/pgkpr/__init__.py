"""Rewriters of the PGKPR track."""
