"""Interfaces that run BPF programs: those of the ports, and one for the CPU port.

All of it lives as long as file descriptors of this process: links, promiscuous mode, the CPU port's
interface. Unless it is pinned (`pins`): then it is there for the next process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections import Counter
from pathlib import Path

from softswitch.kernel import bpf
from softswitch.kernel.devices import PROMISCUOUS, UP, keep_tap, open_tap, set_flag
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pins import CPU, Pins
from softswitch.ports.qdiscs import qdiscs
from softswitch.ports.sockets import PortError

# linux/if_packet.h, linux/if_tun.h, linux/sockios.h, linux/if.h
_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1
_SIOCSIFMTU = 0x8922
_TAP_MTU = 65521
"""The largest: frames of any length go to the control plane."""


class Interface:
    """One that is there already: frames that come in by it run the program in the map; raises PortError."""

    def __init__(self, port: int, name: str, programs: int, hook: Hook, pins: Pins | None = None) -> None:
        self.name = name
        try:
            self.index = socket.if_nametoindex(name)
        except OSError:
            raise PortError(f"port {port}: there is no interface {name!r} here") from None
        with contextlib.ExitStack() as opened:
            try:
                if pins is None:
                    self._socket = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                    membership = struct.pack("iHH8s", self.index, _PROMISCUOUS, 0, b"")
                    self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
                    self._program = hook.entry(programs)
                    opened.callback(bpf.close, self._program)
                    opened.callback(bpf.close, hook.attach(self._program, self.index))
                else:
                    set_flag(name, PROMISCUOUS)
                    self._program = self._pinned(port, programs, hook, pins)
                    opened.callback(bpf.close, self._program)
            except PermissionError:
                raise PortError(f"port {port} ({name}): it needs root or CAP_NET_RAW") from None
            except (bpf.BpfError, OSError) as error:
                raise PortError(f"port {port} ({name}): {error}{hook.hint}") from error
            self._opened = opened.pop_all()

    def _pinned(self, port: int, programs: int, hook: Hook, pins: Pins) -> int:
        """The entry program of the link that is pinned, or of a new one where that is of no interface now."""
        program, link = (pins.objects(f"{what}-{port}") for what in ("program", "link"))
        if program is not None and link is not None and bpf.linked_to(link) == self.index:
            bpf.close(link)
            return program
        for stale in (program, link):
            if stale is not None:
                bpf.close(stale)
        program = hook.entry(programs)
        link = hook.attach(program, self.index)
        pins.pin(f"program-{port}", program)
        pins.pin(f"link-{port}", link)
        bpf.close(link)
        return program

    def close(self) -> None:
        """Take the program off; harmless when repeated."""
        self._opened.close()

    def usage(self) -> bpf.Usage:
        """CPU time of the program for frames that came in here, and how many they were."""
        return bpf.usage(self._program)


class CpuInterface(Interface):
    """A TAP device: what is written to `descriptor` comes in by it, what leaves by it can be read there."""

    def __init__(self, port: int, programs: int, hook: Hook, pins: Pins | None = None) -> None:
        kept = None if pins is None else pins.recall(CPU)
        try:
            self.descriptor, name = open_tap(kept or "cpu%d")
        except OSError as error:
            raise PortError(f"port {port} (CPU): /dev/net/tun: {error.strerror}") from None
        try:
            if pins is not None:
                keep_tap(self.descriptor)
                pins.remember(CPU, name)
            _set_up(name)
            super().__init__(port, name, programs, hook.of_tap, pins)
        except OSError as error:
            os.close(self.descriptor)
            raise PortError(f"port {port} (CPU): no TAP device: {error.strerror}") from None
        except PortError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Remove the device, unless it is pinned."""
        super().close()
        bpf.close(self.descriptor)
        self.descriptor = -1


def _set_up(name: str) -> None:
    """Bring the device up, for large frames, and without any of the kernel's own."""
    with contextlib.suppress(OSError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFMTU, struct.pack("16si12x", name.encode(), _TAP_MTU))
    set_flag(name, UP)


def sent_in_vain() -> Counter[str]:
    """By interface of this thread's network namespace: what it or its queueing discipline has dropped."""
    found: Counter[str] = Counter()
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        found[name.strip()] = int(numbers.split()[11])
    names = dict(socket.if_nameindex())
    for each in qdiscs():
        if each.is_root:  # what its children drop is its own
            found[names.get(each.interface, "")] += each.dropped
    return found
