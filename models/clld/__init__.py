"""CLLD: text classification with a contrast between classes, weighted by label distance."""
