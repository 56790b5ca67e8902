"""The command line, the Prefect flow, inspection, prediction and diagnosis."""
