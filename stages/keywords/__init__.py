"""Stages that rank phrases, choose the keyword of each text, and compare methods."""
