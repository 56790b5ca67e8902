"""Bringing the project up to date: DVC's DAG, its processes, the Prefect flow, and what a person sees of it."""
