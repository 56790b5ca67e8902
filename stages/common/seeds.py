"""Random seeds derived from one project seed by name, so that no consumer of randomness disturbs another."""

import hashlib
import os
import random

import numpy as np

# With this, cuBLAS and the recurrent layers of cuDNN give the same sums each time; read at the first product.
CUBLAS_WORKSPACE = ":4096:8"


def derived_seed(seed: int, *names: object) -> int:
    """Return a 63-bit seed for the consumer called ``names``, the same on every machine and under every hash seed."""
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """Return a NumPy generator seeded for the consumer called ``names``."""
    return np.random.default_rng(derived_seed(seed, *names))


def seed_everything(seed: int, threads: int = 1, deterministic: bool = True, tf32: bool = False) -> None:
    """Seed Python, NumPy and torch, and fix everything else that decides the bytes, before the first use of a GPU.

    Other counts of ``threads`` sum in another order. ``tf32`` is set in either case, because torch allows it to cuDNN
    by default.
    """
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    # Not `use_deterministic_algorithms`, which imports the compiler, for a second.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = CUBLAS_WORKSPACE
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = deterministic, False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def flipped(p: np.ndarray, seed: int, *name: object) -> np.ndarray:
    """Draw the keyword mask of a text, float32 (n_words,): 1 where U(0, 1) < p, else 0; ``p`` is (n_words,).

    A text that is cut keeps the mask of its first words. ``name`` is that of the draws.
    """
    return (generator(seed, "pgkpr", "flips", *name).random(len(p)) < p).astype(np.float32)
