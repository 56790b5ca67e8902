"""Workshop of the evaluate stages: floors, systems scored side by side with intervals, similarity by encoders."""
