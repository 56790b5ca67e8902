"""Which of many alike cases `make test` runs: some; `make test-whole` runs the others."""

import pytest


def mostly_whole(names, *kept):
    """Return ``names`` as params, marked ``whole`` but for those ``kept``, which must be among them."""
    assert set(kept) <= set(names), kept
    return [name if name in kept else pytest.param(name, marks=pytest.mark.whole) for name in names]
