"""How large models are to be and what a run will take, by the data and the machine: estimates, and sizes: auto."""
