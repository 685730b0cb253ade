"""Attach BPF programs to interfaces until their descriptors are closed, or until unpinned (`pins`)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections import Counter
from pathlib import Path

from softswitch.errors import PortError
from softswitch.kernel import bpf
from softswitch.kernel.devices import PROMISCUOUS, UP, open_tap, set_flag, set_persistent
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pins import CPU, Pins
from softswitch.ports.netlink import find_index
from softswitch.ports.qdiscs import qdiscs

# linux/if_packet.h, linux/if_tun.h, linux/sockios.h, linux/if.h
_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1
_SIOCSIFMTU = 0x8922
_TX_DROPS_COLUMN = 11  # in /proc/net/dev, after the name
_TAP_MTU = 65521  # the largest MTU, so that frames of any length reach the control plane


class Interface:
    """An existing interface, whose frames the program in `program_map` processes; raises PortError."""

    def __init__(self, port: int, name: str, program_map: int, hook: Hook, pins: Pins | None = None) -> None:
        self.name, self._port, self._hook, self._pins = name, port, hook, pins
        index = find_index(name)
        if index is None:
            raise PortError(f"port {port}: there is no interface {name!r} here")
        self.index = index
        self._attachment = contextlib.ExitStack()
        with contextlib.ExitStack() as resources:
            try:
                if pins is None:
                    self._program = hook.load_entry_program(program_map)
                    resources.callback(bpf.close, self._program)
                    self._attach()
                else:
                    set_flag(name, PROMISCUOUS)
                    self._program = self._open_or_pin_program(program_map, pins)
                    resources.callback(bpf.close, self._program)
            except PermissionError:
                raise PortError(f"port {port} ({name}): attaching needs root or CAP_NET_RAW") from None
            except (bpf.BpfError, OSError) as error:
                raise PortError(f"port {port} ({name}): {error}{hook.hint}") from error
            self._resources = resources.pop_all()

    def attach_again(self) -> None:
        """Attach to the interface that has the name now, which was made anew; raises OSError or BpfError."""
        self.index = socket.if_nametoindex(self.name)
        if self._pins is None:
            self._attach()
        else:
            set_flag(self.name, PROMISCUOUS)
            self._pin_link(self._pins)

    def _attach(self) -> None:
        with contextlib.ExitStack() as attachment:
            # The interface is promiscuous as long as the socket is open.
            packet_socket = attachment.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
            # struct packet_mreq: interface, type, and an address, which the type does not need
            membership = struct.pack("iHH8s", self.index, _PROMISCUOUS, 0, b"")
            packet_socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
            attachment.callback(bpf.close, self._hook.attach(self._program, self.index))
            self._attachment.close()
            self._attachment = attachment.pop_all()

    def _open_or_pin_program(self, program_map: int, pins: Pins) -> int:
        program, link = (pins.open_object(f"{kind}-{self._port}") for kind in ("program", "link"))
        if program is not None and link is not None and bpf.linked_interface(link) == self.index:
            bpf.close(link)
            return program
        for stale_descriptor in (program, link):
            if stale_descriptor is not None:
                bpf.close(stale_descriptor)
        self._program = self._hook.load_entry_program(program_map)
        self._pin_link(pins)
        pins.pin(f"program-{self._port}", self._program)
        return self._program

    def _pin_link(self, pins: Pins) -> None:
        link = self._hook.attach(self._program, self.index)
        pins.pin(f"link-{self._port}", link)
        bpf.close(link)

    def close(self) -> None:
        self._attachment.close()
        self._resources.close()

    def usage(self) -> bpf.Usage:
        return bpf.usage(self._program)


class CpuInterface(Interface):
    """A TAP device: it receives frames written to `descriptor`, and frames sent on it can be read there."""

    def __init__(self, port: int, program_map: int, hook: Hook, pins: Pins | None = None) -> None:
        pinned_name = None if pins is None else pins.load(CPU)
        try:
            self.descriptor, name = open_tap(pinned_name or "cpu%d")  # the kernel inserts a number
        except OSError as error:
            raise PortError(f"port {port} (CPU): /dev/net/tun: {error.strerror}") from None
        try:
            if pins is not None:
                set_persistent(self.descriptor)
                pins.save(CPU, name)
            _bring_up(name)
            super().__init__(port, name, program_map, hook.cpu_port_hook, pins)
        except OSError as error:
            os.close(self.descriptor)
            raise PortError(f"port {port} (CPU): no TAP device: {error.strerror}") from None
        except PortError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        super().close()
        bpf.close(self.descriptor)
        self.descriptor = -1  # the number may be another file's next


def _bring_up(name: str) -> None:
    """Bring the device up, with a large MTU, and without IPv6, for which the kernel would send frames."""
    with contextlib.suppress(OSError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # struct ifreq: the name, and in a union the MTU
        fcntl.ioctl(any_socket, _SIOCSIFMTU, struct.pack("16si12x", name.encode(), _TAP_MTU))
    set_flag(name, UP)


def tx_drops() -> Counter[str]:
    """Return the number of frames that each interface of this namespace, or its root qdisc, has dropped."""
    drops: Counter[str] = Counter()
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:  # after the headings
        name, _, numbers = line.partition(":")
        drops[name.strip()] = int(numbers.split()[_TX_DROPS_COLUMN])
    names = dict(socket.if_nameindex())
    for qdisc in qdiscs():
        if qdisc.is_root:  # its drops include those of its children
            drops[names.get(qdisc.interface, "")] += qdisc.dropped
    return drops
