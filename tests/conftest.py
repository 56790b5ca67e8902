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


# Markers that a command leaves out, and the command that runs their tests.
_ELSEWHERE = {"browser": "that need a browser (make test-browser)", "nightly": "of the night (make nightly)",
              "whole": "at full size (make test-whole)"}
_LEFT_OUT = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests that need a browser, and put the files that take longest first; the order within a file stays."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker("browser")
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))


def pytest_deselected(items):
    """Count what is left out by its first marker."""
    for item in items:
        marker = next((name for name in _ELSEWHERE if item.get_closest_marker(name)), None)
        counts = item.config.stash.setdefault(_LEFT_OUT, {})
        counts[marker] = counts.get(marker, 0) + 1


def pytest_sessionfinish(session):
    """Let a process of pytest-xdist send its counts; every one of them collects all tests."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(_LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the counts of a process that has ended."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter, config):
    """Say what was left out, and which command runs it, where tests were chosen by these markers alone."""
    counts = config.stash.get(_LEFT_OUT, {})
    named = [f"{command}: {counts[name]}" for name, command in _ELSEWHERE.items() if name in counts]
    if named and None not in counts:
        terminalreporter.write_line(f"Left out: tests {', '.join(named)}")


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
