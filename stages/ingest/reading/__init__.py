"""Rows of a data set's files, each with its place: text, CSV, TSV, JSONL, JSON, Parquet, packed or not."""
