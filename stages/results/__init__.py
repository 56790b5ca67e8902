"""What the runs come to: comparison between them, and the report."""
