"""The DVC stages, one module each, and the code that they share."""
