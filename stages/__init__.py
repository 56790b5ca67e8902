"""What is computed: one module per DVC stage, and the workshops those modules share."""
