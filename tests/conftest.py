"""What every test shares: few threads, quiet libraries, the long files first, and reports that several files read."""

import contextlib
import gc
import os

import psutil
import pytest
from filelock import FileLock

gc.set_threshold(20_000, 20, 50)  # libraries alone are a million objects, which never become free
os.fsync = lambda handle: None  # what a test writes need not outlive the machine
# Before torch and transformers are imported by any test module.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

# Files are dealt out to processes in this order (`make test`): one of minutes at the end would leave the others idle.
_LONG = ("test_whole_pipeline.py", "test_flow.py", "test_benchmarks.py", "test_contract.py", "test_device.py",
         "test_train_clld.py", "test_report_page.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than there are processors, as tests wait for commands, servers and a browser; up to four."""
    return min(psutil.cpu_count() + 1, 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests that need a browser, and put the files that take longest first; the order within a file stays."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker("browser")
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))


@pytest.fixture(scope="session")
def made_report(tmp_path_factory):
    """Gives the folder with the small artifacts of tracks and their report: made once for all processes, only read."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # whose own folders lie in one that is of all
        shared = shared.parent

    def made(*tracks):
        from classifier_artifacts import write_classifiers
        from report_artifacts import write_project, write_rewriting

        from stages.common.paths import REPORT_PAGE
        from stages.results.report import main

        folder = shared / f"report of {' '.join(tracks)}"
        with FileLock(f"{folder}.lock"):
            if not (folder / REPORT_PAGE).exists():
                folder.mkdir(exist_ok=True)
                with contextlib.chdir(folder):
                    for track in tracks:
                        {"hcl": write_project, "pgkpr": write_rewriting, "clld": write_classifiers}[track]()
                    assert main([]) == 0
        return folder

    return made
