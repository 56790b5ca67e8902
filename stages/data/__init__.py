"""From raw files to annotated texts: the stages ingest, annotate and manifest, and their workshops."""
