"""Interfaces that run BPF programs: those of the ports, and one for the CPU port.

All of it lives as long as file descriptors of this process: links, promiscuous mode, the CPU port's
interface.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from pathlib import Path

from softswitch.kernel import bpf
from softswitch.kernel.hooks import Hook
from softswitch.ports.ring import PortError

# linux/if_packet.h, linux/if_tun.h, linux/sockios.h, linux/if.h
_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFMTU, _IFF_UP = 0x8913, 0x8914, 0x8922, 0x1
_TAP_MTU = 65521
"""The largest: frames of any length go to the control plane."""


class Interface:
    """One that is there already: frames that come in by it run the program in the map; raises PortError."""

    def __init__(self, port: int, name: str, programs: int, hook: Hook) -> None:
        self.name = name
        try:
            self.index = socket.if_nametoindex(name)
        except OSError:
            raise PortError(f"port {port}: there is no interface {name!r} here") from None
        with contextlib.ExitStack() as opened:
            try:
                self._socket = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                membership = struct.pack("iHH8s", self.index, _PROMISCUOUS, 0, b"")
                self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
                self._program = hook.entry(programs)
                opened.callback(bpf.close, self._program)
                opened.callback(bpf.close, hook.attach(self._program, self.index))
            except PermissionError:
                raise PortError(f"port {port} ({name}): it needs root or CAP_NET_RAW") from None
            except (bpf.BpfError, OSError) as error:
                raise PortError(f"port {port} ({name}): {error}{hook.hint}") from error
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Take the program off; harmless when repeated."""
        self._opened.close()

    def usage(self) -> bpf.Usage:
        """CPU time of the program for frames that came in here, and how many they were."""
        return bpf.usage(self._program)


class CpuInterface(Interface):
    """A TAP device: what is written to `descriptor` comes in by it, what leaves by it can be read there."""

    def __init__(self, port: int, programs: int, hook: Hook) -> None:
        try:
            self.descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise PortError(f"port {port} (CPU): /dev/net/tun: {error.strerror}") from None
        try:
            request = struct.pack("16sH22x", b"cpu%d", _IFF_TAP | _IFF_NO_PI)
            made = fcntl.ioctl(self.descriptor, _TUNSETIFF, request)
            name = made[:16].rstrip(b"\0").decode()
            _set_up(name)
            super().__init__(port, name, programs, hook.of_tap)
        except OSError as error:
            os.close(self.descriptor)
            raise PortError(f"port {port} (CPU): no TAP device: {error.strerror}") from None
        except PortError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Remove the device."""
        super().close()
        bpf.close(self.descriptor)
        self.descriptor = -1


def _set_up(name: str) -> None:
    """Bring the device up, for large frames, and without any of the kernel's own."""
    with contextlib.suppress(OSError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        named = name.encode()
        fcntl.ioctl(any_socket, _SIOCSIFMTU, struct.pack("16si12x", named, _TAP_MTU))
        flags = struct.unpack_from(
            "H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16s16x", named)), 16
        )
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", named, flags[0] | _IFF_UP))
