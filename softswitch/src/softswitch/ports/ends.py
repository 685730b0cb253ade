"""How the control plane hears from the ports: frames of the CPU port, and notices, a datagram each."""

from __future__ import annotations

import socket

_SEND_BUFFER = 1 << 21  # some thousand frames in each direction


class ControlEnds:
    """Two socket pairs: `cpu_socket` and `notice_socket` are the control plane's, the others the ports'."""

    def __init__(self) -> None:
        self.cpu_socket, self.switch_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self.notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in self._all():
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def _all(self) -> tuple[socket.socket, ...]:
        return self.cpu_socket, self.switch_end, self.notice_socket, self.notice_end

    def close(self) -> None:
        """Close all four; harmless when repeated."""
        for end in self._all():
            end.close()
