"""A stage ends with the DVC that started it even while it still imports."""

import os
import signal
import subprocess
import sys
import time

import pytest
from source_imports import ROOT

from stages.run.guard import alive


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("command", ["exec {}", "sh -c '{}; exit $?'; exit $?"])
def test_a_process_that_imports_ends_with_dvc(tmp_path, command):
    (tmp_path / "slow.py").write_text("import os, sys, time\nopen(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
                                      "assert sys.argv[2:] == ['a'] and __name__ == '__main__'\ntime.sleep(60)\n")
    (tmp_path / "dvc").write_text("import subprocess, sys\nsubprocess.run(['sh', '-c', sys.argv[1]])\n")
    line = command.format(f'"{sys.executable}" -m stages.run.tethered slow "{tmp_path / "pid"}" a')
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    with subprocess.Popen([sys.executable, str(tmp_path / "dvc"), line], env=variables) as above:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
            time.sleep(0.05)
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        above.send_signal(signal.SIGKILL)
    end = time.monotonic() + 2
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_processes_of_a_pool_that_still_import_end_with_the_command(tmp_path):
    """The stage has a guard; those that it has started have none before they have imported what they need."""
    (tmp_path / "slow.py").write_text("import os, sys, time\nopen(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
                                      "time.sleep(60)\n")
    (tmp_path / "stage.py").write_text(
        "import subprocess, sys, time\nfrom stages.run.guard import die_with\ndie_with([int(sys.argv[1])])\n"
        f"subprocess.run(['sh', '-c', '\"{sys.executable}\" {tmp_path / 'slow.py'} {tmp_path / 'pid'}; exit 0'])\n"
        "time.sleep(60)\n")    # or it might end before its guard comes to itself
    with subprocess.Popen(["sleep", "60"]) as command, subprocess.Popen(
            [sys.executable, str(tmp_path / "stage.py"), str(command.pid)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}) as stage:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
            time.sleep(0.05)
        pid = int((tmp_path / "pid").read_text())
        command.kill()
    assert stage.returncode == -signal.SIGKILL
    end = time.monotonic() + 1
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(pid)


def test_the_tether_needs_the_standard_library_alone():
    said = subprocess.run([sys.executable, "-c", "import sys; import stages.run.tethered; print([name for name in "
                           "('numpy', 'torch', 'pandas', 'filelock', 'psutil') if name in sys.modules])"],
                          capture_output=True, text=True, cwd=ROOT, check=True)
    assert said.stdout == "[]\n"
