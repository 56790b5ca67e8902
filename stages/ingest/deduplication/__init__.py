"""Rows checked, their texts numbered, repeated and contradictory ones set aside."""
