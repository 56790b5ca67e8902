"""Stage ingest: files in, examples and texts out."""
