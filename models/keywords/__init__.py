"""Networks that find keywords."""
