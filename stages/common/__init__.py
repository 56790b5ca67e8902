"""Schemas, tables, paths, params, seeds, devices and encoders, which all stages share."""
