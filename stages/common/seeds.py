"""One seed, fanned out by name, so that no consumer of randomness disturbs another."""

import hashlib
import os
import random

import numpy as np

# What cuBLAS, and cuDNN's recurrent layers with it, need to give the same sums each time; read with the first product.
CUBLAS_WORKSPACE = ":4096:8"


def derived_seed(seed: int, *names: object) -> int:
    """Return a 63-bit seed for the consumer called ``names`` under the project seed ``seed``.

    The same names give the same number on every machine and under every hash seed.
    """
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """Return a NumPy generator seeded for the consumer called ``names``."""
    return np.random.default_rng(derived_seed(seed, *names))


def seed_everything(seed: int, threads: int = 1, deterministic: bool = True, tf32: bool = False) -> None:
    """Seed Python, NumPy and torch, and fix what else decides the bytes of a training run.

    Args:
        seed: the project seed, or one derived from it.
        threads: torch threads inside one operation; other counts sum in another order.
        deterministic: ask torch, cuDNN and cuBLAS for deterministic kernels only.
        tf32: let GPUs round the factors of fp32 products and convolutions to ten bits; said either way, because
            torch lets cuDNN do so unasked.

    Call it before anything is computed on a GPU. Whatever started the process, its environment is then the same.
    """
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = CUBLAS_WORKSPACE
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = deterministic, False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def flipped(p: np.ndarray, seed: int, *name: object) -> np.ndarray:
    """Return 1 for each word whose coin makes it a keyword, else 0, float32 (n_words,): it is one iff U(0, 1) < p.

    Args:
        p: probability of each word of a text (n_words,). Coins fall for words in turn, so the first of them are the
            same if a text is cut.
        seed: the project's.
        name: whose coins they are: of an evaluated source, the mode of its scores (``xx`` or ``xy``) and its example.
    """
    return (generator(seed, "pgkpr", "flips", *name).random(len(p)) < p).astype(np.float32)
