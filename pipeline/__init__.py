"""What a person runs: the command line, the Prefect flows, inspection, prediction and diagnosis."""
