"""The process of `guard`, run as a script, which imports nothing of softswitch so that it starts at once.

Its arguments are interfaces. Each line of its input is a network namespace, as /proc/PID/ns/net links to it.
At the end of the input it kills all processes in these namespaces, and removes the interfaces.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress


def processes_in(namespaces: set[str]) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):  # the process has ended
                if os.readlink(f"/proc/{name}/ns/net") in namespaces:
                    found.append(int(name))
    return found


def main(interfaces: list[str], namespaces: set[str]) -> None:
    while pids := processes_in(namespaces):  # again, for what they have started meanwhile
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    # /sys lists the interfaces of the namespace that it was mounted in, which may be another one.
    existing = {name for _, name in socket.if_nameindex()}
    for name in interfaces:
        if name in existing:  # not the other end of one that has been removed
            subprocess.run(["ip", "link", "delete", name], stderr=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    main(sys.argv[1:], {line.strip() for line in sys.stdin} - {os.readlink("/proc/self/ns/net")})
