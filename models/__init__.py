"""What is learned: networks, losses and the training loop, in torch alone.

Source code only. Trained weights live in ``artifacts/``.
"""
