"""The bench's own veth pairs: the switch's ends here, the others in a network namespace."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nativekit.forked import NETWORK, enter_namespace
from switch_bench.errors import BenchError

NAMESPACE = "hotline-bench"
SWITCH_ADDRESS, HOST_ADDRESS = "198.18.0.1", "198.18.0.2"
"""Addresses of the switch's and the host's end of `veth_pair`, of the range for benchmarks (RFC 2544)."""
_NO_IPV6 = "net.ipv6.conf.{}.disable_ipv6=1"  # otherwise the kernel sends IPv6 frames of its own


def switch_interface(port: int) -> str:
    return f"hb-s{port}"


def host_interface(port: int) -> str:
    return f"hb-h{port}"


@contextmanager
def network(ports: Sequence[int]) -> Iterator[None]:
    """Make the pairs, after removing what a killed run may have left, and remove them at the end."""
    if os.geteuid() != 0:
        raise BenchError("the bench makes network namespaces and packet sockets: run it as root")
    _remove()
    try:
        _run("ip", "netns", "add", NAMESPACE)
        pairs = [(switch_interface(port), host_interface(port)) for port in ports]
        _ip(f"link add {switch} type veth peer name {host} netns {NAMESPACE}" for switch, host in pairs)
        _run("ip", "netns", "exec", NAMESPACE, "sysctl", "-qw", *(_NO_IPV6.format(host) for _, host in pairs))
        _run("sysctl", "-qw", *(_NO_IPV6.format(switch) for switch, _ in pairs))
        _ip(f"link set {switch} up" for switch, _ in pairs)
        _ip((f"link set {host} up" for _, host in pairs), "-n", NAMESPACE)
        yield
    finally:
        _remove()


@contextmanager
def veth_pair() -> Iterator[None]:
    """Make one pair, with an IPv4 address at each end, and remove it at the end."""
    with network([1]):
        _ip(iter([f"addr add {SWITCH_ADDRESS}/30 dev {switch_interface(1)}"]))
        _ip(iter([f"addr add {HOST_ADDRESS}/30 dev {host_interface(1)}"]), "-n", NAMESPACE)
        yield


@contextmanager
def in_namespace() -> Iterator[None]:
    """Put this thread into the namespace: sockets that it opens belong there."""
    with open("/proc/thread-self/ns/net") as previous, open(f"/run/netns/{NAMESPACE}") as entered:
        _set_namespace(entered.fileno())
        try:
            yield
        finally:
            _set_namespace(previous.fileno())


def _set_namespace(fd: int) -> None:
    enter_namespace(fd, NETWORK)


def _remove() -> None:
    """Delete all pairs, each by its end here, and the namespace, if they exist."""
    prefix = switch_interface(0).removesuffix("0")
    interfaces = [name for _, name in socket.if_nameindex() if name.startswith(prefix)]
    _ip(f"link del {name}" for name in interfaces)
    if os.path.exists(f"/run/netns/{NAMESPACE}"):
        _run("ip", "netns", "del", NAMESPACE)


def _ip(lines: Iterator[str], *options: str) -> None:
    _run("ip", *options, "-batch", "-", commands="\n".join(lines))


def _run(*words: str, commands: str = "") -> None:
    done = subprocess.run(words, input=commands, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
