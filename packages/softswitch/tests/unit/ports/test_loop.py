"""The loop by its CPU port alone, which needs neither root nor interfaces."""

import ctypes
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from softswitch.errors import PortError
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.layout import BURST
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from softswitch.ports.sockets import ControlSockets
from switch_harness.native import Stamps, Wires, read_stamp
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says

CPU = 255
LIBC = ctypes.CDLL(None)


@pytest.fixture
def loop() -> Iterator[PortLoop]:
    with PortLoop({}, PortOptions(CPU)) as opened:
        opened.cpu_socket.settimeout(PATIENCE_S)
        yield opened


def test_a_frame_goes_through_the_pipeline(loop: PortLoop) -> None:
    loop.start(Wires({CPU: [CPU, CPU]}))
    loop.cpu_socket.send(b"frame")
    assert [loop.cpu_socket.recv(100) for _ in range(2)] == [b"frame", b"frame"]
    loop.stop()
    counters = loop.counters().ports[CPU]
    assert (counters.rx, counters.tx) == (1, 2)


def test_pipelines_can_be_swapped(loop: PortLoop) -> None:
    loop.start(Wires({CPU: []}))
    loop.cpu_socket.send(b"swallowed")
    loop.stop()
    loop.start(Wires({CPU: [CPU]}))
    loop.cpu_socket.send(b"returned")
    assert loop.cpu_socket.recv(100) == b"returned"


def test_frames_that_came_before_the_pipeline_are_dropped(loop: PortLoop) -> None:
    for _ in range(100):
        loop.cpu_socket.send(b"early")
    loop.start(Wires({CPU: [CPU]}))
    loop.cpu_socket.send(b"in time")
    assert loop.cpu_socket.recv(100) == b"in time"
    assert loop.counters().ports[CPU].rx_dropped == 100


def test_frames_that_wait_when_the_loop_is_stopped_are_dropped_and_counted(loop: PortLoop) -> None:
    wires = Wires({CPU: [7]})
    loop.start(wires)
    LIBC.pthread_mutex_lock(ctypes.c_void_p(wires.mutex_address))
    for _ in range(100):
        loop.cpu_socket.send(b"frame")
    wait_for(lambda: loop.counters().ports[CPU].rx > 0)  # a loop that has not begun ends without a burst
    stopping = threading.Thread(target=loop.stop)
    stopping.start()
    assert select.select([loop._stop_event], [], [], PATIENCE_S)[0]
    LIBC.pthread_mutex_unlock(ctypes.c_void_p(wires.mutex_address))
    stopping.join(PATIENCE_S)
    counters = loop.counters()
    assert counters.ports[CPU].rx == 100
    assert counters.ports[CPU].rx_dropped == 100 - counters.no_such_port >= 100 - 2 * BURST


def test_frames_that_are_held_when_the_loop_is_stopped_are_dropped_and_counted() -> None:
    how = {(CPU, side): Impairment(loss=0.1, duplicate=0.1, reorder=0.5) for side in Direction}
    with PortLoop({}, PortOptions(CPU, how)) as loop:
        for _ in range(20):
            loop.start(Wires({CPU: [CPU]}))
            for _ in range(37):
                loop.cpu_socket.send(b"frame")
            loop.cpu_socket.send(bytes(3000))
            loop.stop()
        port = loop.counters().ports[CPU]
        assert (port.rx, port.rx_oversize) == (20 * 38, 20)
        dropped = port.rx_dropped + port.rx_oversize + port.tx_dropped + port.lost
        assert port.rx + port.duplicated == port.tx + dropped


def test_an_output_without_a_port_is_counted(loop: PortLoop) -> None:
    loop.start(Wires({CPU: [7, 511, 512, CPU]}))
    loop.cpu_socket.send(b"frame")
    assert loop.cpu_socket.recv(100) == b"frame"
    assert loop.counters().no_such_port == 3


def test_times_are_on_one_clock_that_starts_with_the_switch(loop: PortLoop) -> None:
    loop.start(Stamps())
    before = time.monotonic_ns()
    loop.cpu_socket.send(b"frame")
    first = read_stamp(loop.cpu_socket.recv(100))
    loop.cpu_socket.send(b"frame")
    second = read_stamp(loop.cpu_socket.recv(100))
    elapsed = (time.monotonic_ns() - before) // 1000 + 1
    assert 0 <= first[0] <= first[1] <= second[0] <= second[1] <= first[0] + elapsed


def test_a_full_cpu_socket_drops_and_does_not_block(loop: PortLoop) -> None:
    loop.cpu_socket.setblocking(False)
    loop.start(Wires({CPU: [CPU, CPU, CPU, CPU]}))
    sent = 0

    def drops() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += loop.cpu_socket.send(bytes(1000)) // 1000
        return loop.counters().ports[CPU].tx_dropped > 0

    wait_for(drops)
    loop.stop()
    counters = loop.counters().ports[CPU]
    assert counters.tx + counters.tx_dropped == 4 * counters.rx
    assert counters.rx <= sent


def test_a_frame_that_is_too_large_is_named_once_and_counted(
    loop: PortLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.start(Wires({CPU: [CPU]}))
    for size in (3000, 4000):
        loop.cpu_socket.send(bytes(size))
        loop.cpu_socket.send(b"small")
        assert loop.cpu_socket.recv(5000) == b"small"
    loop.stop()
    assert loop.counters().ports[CPU].rx_oversize == 2
    (record,) = caplog.records
    assert says(record.getMessage(), "port 255", "CPU", 3000)


def test_frames_are_reordered_and_all_leave() -> None:
    how = {(CPU, side): Impairment(reorder=0.3) for side in Direction}
    with PortLoop({}, PortOptions(CPU, how)) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        loop.start(Wires({CPU: [CPU]}))
        frames = [b"%d" % number for number in range(200)]
        for frame in frames:
            loop.cpu_socket.send(frame)
        arrived = [loop.cpu_socket.recv(100) for _ in frames]
        assert sorted(arrived) == sorted(frames)
        assert arrived != frames
        assert loop.counters().ports[CPU].reordered > 0


def test_loss_and_duplication_are_counted() -> None:
    how = {(CPU, side): Impairment(loss=0.3, duplicate=0.3) for side in Direction}
    with PortLoop({}, PortOptions(CPU, how)) as loop:
        loop.start(Wires({CPU: [CPU]}))
        for _ in range(200):
            loop.cpu_socket.send(b"frame")
        wait_for(lambda: loop.counters().ports[CPU].rx == 200)
        loop.stop()
        counters = loop.counters().ports[CPU]
        assert counters.lost > 60
        assert counters.duplicated > 60
        assert counters.tx == counters.rx - counters.lost + counters.duplicated


def test_the_description_of_counters_names_only_events_that_occurred(loop: PortLoop) -> None:
    loop.start(Wires({CPU: [7, CPU]}))
    assert loop.counters().describe() == ["port 255 (CPU): received 0, sent 0"]
    loop.cpu_socket.send(b"frame")
    assert loop.cpu_socket.recv(100) == b"frame"
    loop.cpu_socket.send(bytes(3000))
    loop.cpu_socket.send(b"frame")
    assert loop.cpu_socket.recv(100) == b"frame"
    loop.stop()
    of_cpu, of_no_port = loop.counters().describe()
    assert of_cpu == "port 255 (CPU): received 3, sent 2, too large to receive 1"
    assert "does not have" in of_no_port and of_no_port.endswith(": 2")


def test_an_idle_loop_sleeps(loop: PortLoop) -> None:
    loop.start(Wires({CPU: [CPU]}))
    loop.cpu_socket.send(b"frame")
    loop.cpu_socket.recv(100)
    before = time.process_time()
    with pytest.raises(TimeoutError):
        loop.cpu_socket.settimeout(0.2)
        loop.cpu_socket.recv(100)
    assert time.process_time() - before < 0.05


def test_the_mutex_keeps_the_loop_out(loop: PortLoop) -> None:
    wires = Wires({CPU: [CPU]})
    loop.start(wires)
    LIBC.pthread_mutex_lock(ctypes.c_void_p(wires.mutex_address))
    loop.cpu_socket.send(b"frame")
    loop.cpu_socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        loop.cpu_socket.recv(100)
    LIBC.pthread_mutex_unlock(ctypes.c_void_p(wires.mutex_address))
    loop.cpu_socket.settimeout(PATIENCE_S)
    assert loop.cpu_socket.recv(100) == b"frame"


def test_busy_poll_forwards_and_stops() -> None:
    with PortLoop({}, PortOptions(CPU, busy_poll=True)) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        loop.start(Wires({CPU: [CPU]}))
        loop.cpu_socket.send(b"frame")
        assert loop.cpu_socket.recv(100) == b"frame"


def test_starting_twice_is_refused(loop: PortLoop) -> None:
    loop.start(Wires({}))
    with pytest.raises(PortError, match="already running"):
        loop.start(Wires({}))


def test_a_closed_loop_leaves_no_descriptors_and_no_threads() -> None:
    before, threads = sorted(os.listdir("/proc/self/fd")), threading.active_count()
    loop = PortLoop({}, PortOptions(CPU, {(CPU, Direction.IN): Impairment(loss=0.5)}))
    loop.start(Wires({CPU: [CPU]}))
    loop.close()
    loop.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("ports", "cpu", "message"),
    [
        ({512: "lo"}, None, "port 512: port numbers go from 0 to 511"),
        ({3: "lo"}, 3, "port 3 is the CPU port and cannot be interface 'lo' too"),
        ({port: "lo" for port in range(1, 67)}, None, "66 ports: this switch has 65 at most"),
        ({1: "lo", 7: "lo"}, None, "ports 1 and 7 have one interface, 'lo'"),
        ({2: "x", 1: "lo", 9: "x"}, None, "ports 2 and 9 have one interface, 'x'"),
        ({4: "no-such-if"}, None, "port 4: there is no interface 'no-such-if' here"),
    ],
)
def test_bad_ports_are_named(ports: dict[int, str], cpu: int | None, message: str) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(PortError) as raised:
        PortLoop(ports, PortOptions(cpu))
    assert message in str(raised.value)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_cpu_socket_is_a_datagram_socket(loop: PortLoop) -> None:
    assert loop.cpu_socket.family == socket.AF_UNIX
    assert loop.cpu_socket.type == socket.SOCK_DGRAM


def test_a_loop_that_is_stopped_without_a_program_ignores_waiting_frames() -> None:
    """This happens when a switch is restarted under traffic."""
    with closing(ControlSockets()) as ends:
        for _ in range(3):
            ends.cpu_socket.send(bytes(64))
        with PortLoop({}, PortOptions(CPU), control_sockets=ends) as loop:
            loop.stop()
