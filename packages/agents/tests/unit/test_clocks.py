"""Who reads the Unix clock, and what a step of it does to the agents' sockets of Python."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from hosts.sockets import Receiver, open_udp
from hotline_agents.worker.trainer import spin_until
from switch_harness.clocks import STEPS_NS, SteppedClock, readers_of_unix_time
from switch_harness.waiting import wait_for

ROOT = Path(__file__).parents[4]
S, MS = 1_000_000_000, 1_000_000
_TIMESPEC = struct.Struct("@ll")


class SteppedSocket:
    """A socket whose datagrams the kernel stamps with a stepped clock: with that of their sending."""

    def __init__(self, sock: socket.socket, clock: SteppedClock) -> None:
        self._sock, self._clock = sock, clock
        self._steps_ns: list[int] = []

    def send(self) -> None:
        self._steps_ns.append(self._clock.step_ns)
        self._sock.sendto(b"datagram", self._sock.getsockname())

    def recvmsg(self, *sizes: int) -> Any:
        datagram, [(level, kind, stamp)], flags, source = self._sock.recvmsg(*sizes)
        seconds, nanoseconds = _TIMESPEC.unpack(stamp)
        stamped_ns = seconds * S + nanoseconds + self._steps_ns.pop(0)
        return datagram, [(level, kind, _TIMESPEC.pack(*divmod(stamped_ns, S)))], flags, source


def is_stamped(sock: socket.socket) -> bool:
    """Whether the kernel notes arrival times yet: it begins some ms after the request."""
    sock.sendto(b"", sock.getsockname())
    return bool(sock.recvmsg(10, 100)[1])


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_arrival_times_of_datagrams_do_not_follow_steps_of_the_unix_clock(
    monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """The receiver is that of Scapy's agents, and of a PS's own RPCs. One datagram in four meets the step."""
    clock = SteppedClock()
    with closing(open_udp(("127.0.0.1", 0))) as sock:
        wait_for(lambda: is_stamped(sock))
        monkeypatch.setattr(time, "time_ns", clock.time_ns)
        stepped = SteppedSocket(sock, clock)
        receiver = Receiver(cast(socket.socket, stepped))
        is_prompt = []
        for k in range(8):
            begin_ns = time.monotonic_ns()
            stepped.send()
            sent_ns = time.monotonic_ns()
            if k % 4 == 1:
                clock.step(step_ns)
            spin_until(sent_ns + MS)
            received = receiver.receive()
            assert received is not None
            assert sent_ns + MS <= received.read <= time.monotonic_ns()
            assert begin_ns - MS <= received.arrival <= received.read
            is_prompt.append(received.arrival <= sent_ns + MS)
        # A busy machine may deliver some late, but times of reading would all be.
        assert any(is_prompt)


def test_a_step_of_the_clock_before_a_datagram_does_not_delay_its_arrival_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first datagram of an idle receiver after a step has no queue, and the next one has its own."""
    clock = SteppedClock()
    with closing(open_udp(("127.0.0.1", 0))) as sock:
        wait_for(lambda: is_stamped(sock))
        monkeypatch.setattr(time, "time_ns", clock.time_ns)
        stepped = SteppedSocket(sock, clock)
        receiver = Receiver(cast(socket.socket, stepped))
        for step_ns in STEPS_NS.values():
            clock.step(step_ns)
            for is_first in (True, False):
                stepped.send()
                sent_ns = time.monotonic_ns()
                spin_until(sent_ns + MS)
                received = receiver.receive()
                assert received is not None and received.arrival <= received.read
                assert (received.arrival == received.read) if is_first else received.arrival <= sent_ns + MS


SOURCES = ("controller", "hosts", "src", "topologies", "packages/*/src")
OTHERS = {"machines", "softswitch"}  # with such tests of their own
READS_UNIX_TIME = {
    "src/experiment/folder.py": "the name of a run's folder",
    "hosts/sockets.py": "converts the kernel's stamps",
    "src/hotline/cli/watch.py": "the time of day on a screen",
}


def test_only_listed_modules_read_the_unix_clock() -> None:
    """No protocol is ordered or timed by it, since it may be set at any time."""
    rooms = [room for pattern in SOURCES for room in ROOT.glob(pattern) if room.parent.name not in OTHERS]
    assert readers_of_unix_time(*rooms) == set(READS_UNIX_TIME)
