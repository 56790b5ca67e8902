"""Language pipelines, and tokens as plain columns."""
