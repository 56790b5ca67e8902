"""Baselines of HCL's table that read and write word pieces: a file each, by name in ``auto``."""
