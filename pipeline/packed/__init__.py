"""What a pack carries beside the project's own code: its params as plain values, and the script that runs it."""
