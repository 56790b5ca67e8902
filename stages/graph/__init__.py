"""Keyword clusters, edges and neighbourhoods, as columns and sparse matrices."""
