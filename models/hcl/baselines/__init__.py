"""Baselines of HCL's table that read and write word pieces (METHODS B): a file each, by name in ``auto``."""
