"""The bench's own veth pairs: the switch's ends here, the others in a network namespace."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import BenchError

NAMESPACE = "hotline-bench"
PORTS = (1, 2)
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def switch_interface(port: int) -> str:
    """Name of the switch's end."""
    return f"hb-s{port}"


def host_interface(port: int) -> str:
    """Name of the end in the namespace."""
    return f"hb-h{port}"


@contextmanager
def network() -> Iterator[None]:
    """Make the pairs, after removing what a killed run may have left, and remove them at the end."""
    if os.geteuid() != 0:
        raise BenchError("the bench makes network namespaces and packet sockets: run it as root")
    _remove()
    try:
        _ip("netns", "add", NAMESPACE)
        for port in PORTS:
            here, there = switch_interface(port), host_interface(port)
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", NAMESPACE)
            # No frames but the bench's: IPv6 would send some of its own.
            _ip("netns", "exec", NAMESPACE, "sysctl", "-qw", f"net.ipv6.conf.{there}.disable_ipv6=1")
            Path(f"/proc/sys/net/ipv6/conf/{here}/disable_ipv6").write_text("1")
            _ip("link", "set", here, "up")
            _ip("-n", NAMESPACE, "link", "set", there, "up")
        yield
    finally:
        _remove()


@contextmanager
def inside() -> Iterator[None]:
    """Put this thread into the namespace: sockets that it opens belong there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{NAMESPACE}") as there:
        _set_namespace(there.fileno())
        try:
            yield
        finally:
            _set_namespace(home.fileno())


def _set_namespace(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _remove() -> None:
    # Deleting one end deletes the pair; most of these do not exist.
    for words in (*(("link", "del", switch_interface(port)) for port in PORTS), ("netns", "del", NAMESPACE)):
        subprocess.run(["ip", *words], capture_output=True, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
