"""Hosts of tests: they reach each other and nobody else, and nothing is left of them."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import hosts
import pytest

SERVE = """import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    server.accept()[0].sendall(b"here")
"""
REACH = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(4).decode())"


def serve(host):
    server = host.start(sys.executable, "-c", SERVE, host.address, stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().strip()


def reach(host, address, port):
    return host.run(sys.executable, "-c", REACH, address, port, capture_output=True, text=True).stdout.strip()


def left():
    return sorted(Path("/run/netns").glob(f"keycontrast-{os.getpid()}-*"))


def test_hosts_of_a_network_reach_each_other_and_no_others():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with hosts.hosts(2) as (one, two), hosts.hosts(1) as (apart,):
            server, port = serve(one)
            assert reach(two, one.address, port) == "here"
            assert len(said) == (0 if one.within else 2) and len(left()) == (5 if one.within else 0)
            # Neither another network of the same addresses nor a loopback leads there.
            for host, address in [(apart, one.address), (two, "127.0.0.1")] if one.within else []:
                with pytest.raises(subprocess.CalledProcessError):
                    reach(host, address, port)
    print(*[f"{one.message}\n" for one in said])
    assert server.returncode < 0 and left() == []


@pytest.mark.parametrize("refuses", ["netns", "bridge"])
def test_without_namespaces_they_are_processes_on_the_loopback(tmp_path, monkeypatch, refuses):
    """Also if it is seen half way."""
    script = tmp_path / "ip"
    script.write_text(f"""#!/bin/sh
case "$*" in *{refuses}*add*|*add*{refuses}*) echo not permitted >&2; exit 2;; esac
exec ip "$@"
""")
    script.chmod(0o755)
    monkeypatch.setattr(hosts, "IP", str(script))
    with (pytest.warns(UserWarning, match="no network namespaces here .*hosts are processes on the loopback"),
          hosts.hosts(2) as (one, two)):
        assert [one.within, two.within, left()] == [(), (), []]
        server, port = serve(one)
        assert reach(two, one.address, port) == "here"
    assert server.returncode < 0


def test_a_machine_without_the_program(monkeypatch):
    monkeypatch.setattr(hosts, "IP", "no such program")
    with pytest.warns(UserWarning, match="No such file .*no such program"), hosts.hosts(1) as (one,):
        assert one.run("true").returncode == 0
