"""The report page: gather artifacts, describe them as plain context, draw plots, render one HTML file."""
