"""Tables that the stages ingest and annotate write."""
