"""Hosts for tests of several machines: network namespaces, each with a loopback and an address of its own.

A bridge joins those of one network, in a namespace too. So the machine's own network is left as it is, no packet leaves
for anywhere else, and networks may have the same addresses at the same time. That takes Linux, ``ip`` (Debian's
iproute2) and root. Where one is missing, hosts are processes on the loopback, and a warning says so.
"""

import os
import subprocess
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

IP = "ip"


@dataclass
class Host:
    """Where processes run.

    Attributes:
        address: by which the others of its network reach it.
        interface: that has this address.
        within: the command that starts others there.
        begun: what was started there.
    """

    address: str = "127.0.0.1"
    interface: str = "lo"
    within: tuple[str, ...] = ()
    begun: list[subprocess.Popen] = field(default_factory=list)

    def start(self, *command, **settings):
        """Start a process, whose id is that of the command itself, and which ends with the host."""
        self.begun.append(subprocess.Popen([*self.within, *command], **settings))
        return self.begun[-1]

    def run(self, *command, **settings):
        return subprocess.run([*self.within, *command], timeout=600, check=True, **settings)

    def end(self):
        for process in reversed(self.begun):
            process.kill()
            process.wait()


@contextmanager
def hosts(count):
    """Give so many hosts that reach each other; with them ends what they run, and what they are made of."""
    with ExitStack() as made:
        try:
            found = _joined(f"keycontrast-{os.getpid()}-{uuid4().hex[:8]}", count, made)
        except (OSError, subprocess.SubprocessError) as error:
            made.close()
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            warnings.warn(f"no network namespaces here ({reason}): hosts are processes on the loopback", stacklevel=3)
            found = [Host() for _ in range(count)]
        for host in found:
            made.callback(host.end)
        yield found


def _joined(network, count, made):
    """Make a bridge and what it joins; ``made`` removes each with its own end."""

    def namespace(name):
        _ip("netns", "add", name)
        made.callback(_ip, "netns", "delete", name)
        _ip("-n", name, "link", "set", "lo", "up")
        return name

    switch = namespace(f"{network}-switch")
    _ip("-n", switch, "link", "add", "bridge", "up", "type", "bridge")
    found = []
    for number in range(1, count + 1):
        name, address = namespace(f"{network}-{number}"), f"10.77.0.{number}"
        _ip("-n", switch, "link", "add", f"port{number}", "up", "master", "bridge", "type", "veth", "peer", "name",
            "eth0", "netns", name)
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("netns", "exec", name, "true")
        found.append(Host(address, "eth0", (IP, "netns", "exec", name)))
    return found


def _ip(*words):
    subprocess.run([IP, *words], check=True, capture_output=True, text=True, timeout=60)
