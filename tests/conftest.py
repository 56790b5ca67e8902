"""What every test shares: few threads, quiet libraries, the long files first, and how many processes there are."""

import os

import pytest

# Before torch and transformers are imported by any test module.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

# Files are dealt out to processes in this order (`make test`): one of minutes at the end would leave the others idle.
_LONG = ("test_whole_pipeline.py", "test_flow.py", "test_benchmarks.py", "test_style.py", "test_report_clld.py",
         "test_dvc_yaml.py", "test_report_page.py", "test_pack.py", "test_train_clld.py", "test_pack_clld.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than processors: tests of the pipeline wait for processes of their own, one after the other."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items):
    """Put the files that take longest first; the order within a file stays."""
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))
