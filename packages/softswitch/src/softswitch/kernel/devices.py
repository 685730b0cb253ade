"""Network devices through ioctl(2): TAP devices, and flags of interfaces."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from softswitch.kernel import bpf

# linux/if_tun.h, linux/sockios.h, linux/if.h
_TUNSETIFF, _TUNSETPERSIST, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x0002, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
UP, PROMISCUOUS = 0x1, 0x100


def open_tap(name: str) -> tuple[int, str]:
    """Return the file descriptor and name of a TAP device; create it if it does not exist."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # struct ifreq: the name, and in a union the flags
        request = struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI)
        result = fcntl.ioctl(descriptor, _TUNSETIFF, request)
    except OSError:
        bpf.close(descriptor)
        raise
    return descriptor, result[:16].rstrip(b"\0").decode()


def set_persistent(descriptor: int, is_persistent: bool = True) -> None:
    fcntl.ioctl(descriptor, _TUNSETPERSIST, is_persistent)


def set_flag(name: str, flag: int, is_on: bool = True) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        encoded_name = name.encode()
        old_flags: int = struct.unpack_from(
            "H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16s16x", encoded_name)), 16
        )[0]
        new_flags = old_flags | flag if is_on else old_flags & ~flag
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", encoded_name, new_flags))
