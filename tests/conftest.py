"""What every test shares: few threads, quiet libraries, and the long files first."""

import os

# Before torch and transformers are imported by any test module.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

# Files are dealt out to processes in this order (`make test`): one of minutes at the end would leave the others idle.
_LONG = ("test_whole_pipeline.py", "test_flow.py", "test_small_pipeline.py", "test_benchmarks.py", "test_style.py")


def pytest_collection_modifyitems(items):
    """Put the files that take longest first; the order within a file stays."""
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))
