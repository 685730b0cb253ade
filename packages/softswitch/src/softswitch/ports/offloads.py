"""Offloads of the ports' interfaces, turned off while the switch has them.

A socket of this machine leaves checksums and segmentation to its interface. A veth has no hardware that
would do it: frames cross with unfinished checksums, and several segments in one. So the offloads of its other
end are turned off, in whichever network namespace that end is. Interfaces that merge received frames (GRO)
stop that, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from nativekit.forked import NETWORK, enter_namespace
from softswitch.ports.netlink import VETH, Link, find_namespace_id, read_link

T = TypeVar("T")


class Feature(NamedTuple):
    """A feature's name, as `ethtool -K` has it, and the ethtool commands that read and write it."""

    name: str
    get: int
    set: int


# linux/sockios.h, linux/ethtool.h
_SIOCETHTOOL, _SIOCGIFNAME = 0x8946, 0x8910
_TX_CHECKSUM, _GRO = Feature("tx", 0x16, 0x17), Feature("gro", 0x2B, 0x2C)
"""Without checksums the kernel segments too, since a segment needs one."""
_VALUE = struct.Struct("II")  # struct ethtool_value: command, data
_GET_DRIVER_INFO, _DRIVER_INFO = 3, struct.Struct("I32s160x")  # struct ethtool_drvinfo
_VIRTUAL_NICS = frozenset({"virtio_net", "vif"})
"""Drivers of KVM's and Xen's NICs, whose senders may be on the same machine."""


class OffloadChange(NamedTuple):
    """A feature that was turned off; `interface` is a name in the network namespace of `control`."""

    control: socket.socket
    interface: str
    feature: Feature


class Offloads:
    """Turns off offloads that change what ports receive, from `turn_off` to `restore` or `close`."""

    def __init__(self) -> None:
        self._changes: dict[str, list[OffloadChange]] = {}
        self._sockets = contextlib.ExitStack()
        self._control = self._open_control(None)

    def _open_control(self, namespace: Path | None) -> socket.socket:
        return self._sockets.enter_context(contextlib.closing(_open_socket_in(namespace)))

    def turn_off(self, name: str) -> str | None:
        """Turn off the offloads for one port's interface.

        Return None if all frames that it receives will have their checksums, else the reason, as a sentence.
        """
        changes = self._changes.setdefault(name, [])
        try:
            link = read_link(name)
            if link.is_loopback:  # its offloads are those of all local connections
                return f"{name} has frames with unfinished checksums"
            self._turn_off(changes, self._control, name, _GRO)
            if link.kind == VETH:
                self._turn_off(changes, *self._find_peer(link), _TX_CHECKSUM)
                return None
            kind = link.kind or _read_driver(self._control, name)
        except OSError as error:
            return f"the offloads of {name} cannot be turned off: {error.strerror or error}"
        if link.kind or kind in _VIRTUAL_NICS:
            return f"{name} ({kind}) may receive frames with unfinished checksums"
        return None

    def _find_peer(self, link: Link) -> tuple[socket.socket, str]:
        control = self._control
        if link.lower_namespace is not None:
            control = self._open_control(_find_namespace(link.lower_namespace))
        return control, _name_of(control, link.lower)

    @staticmethod
    def _turn_off(
        changes: list[OffloadChange], control: socket.socket, interface: str, feature: Feature
    ) -> None:
        if _ethtool(control, interface, feature.get, 0):
            _ethtool(control, interface, feature.set, 0)
            changes.append(OffloadChange(control, interface, feature))

    def describe(self) -> str | None:
        """Return what is turned off, as one line, or None if nothing is."""
        names: dict[str, list[str]] = {}
        for name, changes in self._changes.items():
            for control, interface, feature in changes:
                is_port = (control, interface) == (self._control, name)
                text = interface if is_port else f"{interface} (other end of {name})"
                names.setdefault(feature.name, []).append(text)
        if not names:
            return None
        parts = [f"{feature} of {', '.join(interfaces)}" for feature, interfaces in names.items()]
        return f"offloads turned off while the switch runs: {'; '.join(parts)}"

    def restore(self, name: str) -> None:
        for control, interface, feature in self._changes.pop(name, []):
            with contextlib.suppress(OSError):  # the interface is gone
                _ethtool(control, interface, feature.set, 1)

    def restore_all(self) -> None:
        for name in list(self._changes):
            self.restore(name)

    def close(self, restores: bool = True) -> None:
        if restores:
            self.restore_all()
        self._sockets.close()


def _ethtool(control: socket.socket, interface: str, command: int, value: int) -> int:
    data = ctypes.create_string_buffer(_VALUE.pack(command, value), _VALUE.size)
    _call_ethtool(control, interface, data)
    _, result = _VALUE.unpack(data)
    return int(result)


def _call_ethtool(control: socket.socket, interface: str, data: ctypes.Array[ctypes.c_char]) -> None:
    request = struct.pack("16sQ16x", interface.encode(), ctypes.addressof(data))  # struct ifreq
    fcntl.ioctl(control.fileno(), _SIOCETHTOOL, request)


def _read_driver(control: socket.socket, interface: str) -> str:
    """Return the driver's name, or an empty text for an interface without one."""
    data = ctypes.create_string_buffer(_DRIVER_INFO.pack(_GET_DRIVER_INFO, b""), _DRIVER_INFO.size)
    try:
        _call_ethtool(control, interface, data)
    except OSError:
        return ""
    _, driver = _DRIVER_INFO.unpack(data)
    return bytes(driver).rstrip(b"\0").decode()


def _name_of(control: socket.socket, index: int) -> str:
    answer = fcntl.ioctl(control.fileno(), _SIOCGIFNAME, struct.pack("16si20x", b"", index))
    return bytes(answer[:16]).rstrip(b"\0").decode()


# -- other network namespaces


def _find_namespace(namespace_id: int) -> Path:
    """Return the file of a namespace that has a name or a process; raises OSError if there is none."""
    for path in _namespaces():
        if find_namespace_id(path) == namespace_id:
            return path
    raise OSError("its other end is in a network namespace without a name or a process")


def _namespaces() -> Iterator[Path]:
    seen: set[int] = set()
    for pattern in (Path("/run/netns").glob("*"), Path("/proc").glob("[0-9]*/ns/net")):
        for path in pattern:
            with contextlib.suppress(OSError):  # the process has ended, or is another user's
                inode = path.stat().st_ino
                if inode not in seen:
                    seen.add(inode)
                    yield path


def _open_socket_in(namespace: Path | None) -> socket.socket:
    def open_socket() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    return open_socket() if namespace is None else call_in_namespace(namespace, open_socket)


def call_in_namespace(namespace: Path, call: Callable[[], T]) -> T:
    """Call a function in a thread that enters a network namespace, which this thread does not."""
    results: list[T] = []
    errors: list[OSError] = []

    def enter() -> None:
        try:
            with namespace.open() as file:
                enter_namespace(file.fileno(), NETWORK)
            results.append(call())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
