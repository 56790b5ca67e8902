"""What is computed: one module per DVC stage, and what those modules share."""
