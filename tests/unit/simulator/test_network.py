"""Networks in virtual time: nothing is lost, nothing appears, and a seed is a run."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.plain import plain
from protocol.arms import BOTH, HOT, NEITHER, PROXY, Arm
from simulator import drive as drives
from simulator import loop
from simulator.costs import Hosts, Network
from simulator.errors import SimulationError
from simulator.links import carry, free_frame, new_frame
from simulator.state import AT_HOST, NOBODY, World
from simulator.switch import host_at, pass_through, port_of
from softswitch.compiled import OUT_CAPACITY
from softswitch.jit import PROCESS
from softswitch.memory.output import read_records
from tests.unit.simulator.networks import PARAMETERS, Bed

MEASURED = [NEITHER, PROXY, HOT, BOTH]
HALF = range(0, PARAMETERS, 2)
FAULTY = Network(loss=0.05, duplication=0.05, reordering=0.1)


def check_conservation(bed: Bed) -> None:
    """What every cable took is what it delivered, dropped or lost; nothing is under way."""
    world = bed.network.world
    assert world.me.events == 0 and world.me.free == len(world.frames)
    for links in (world.up, world.down):
        put = links.frames + links.doubled - links.dropped - links.lost
        assert (links.delivered == put).all()
        octets = links.bytes + links.doubled_bytes - links.dropped_bytes - links.lost_bytes
        assert (links.delivered_bytes == octets).all()
    # Everything that came up passed through the program; every arrival was taken or did not fit.
    assert world.me.passes == world.up.delivered.sum()
    assert (world.agents.waiting == 0).all()


@pytest.mark.parametrize("arm", MEASURED, ids=lambda arm: arm.name)
@pytest.mark.parametrize("network", [Network(), FAULTY], ids=["sound", "faulty"])
def test_every_push_is_held_once(arm: Arm, network: Network) -> None:
    bed = Bed(arm, network=network, hot=HALF)
    bed.operate(12)
    bed.settle()
    assert (bed.held() == bed.book.sums).all() and bed.book.lanes > 500
    check_conservation(bed)
    again = int(bed.network.world.calls.me.retransmissions.sum())
    assert (again > 0) == (network is FAULTY)
    if arm.offloaded:
        # The switch holds what is hot.
        assert bed.board.held(arm.job, bed.space)[::2].any()
        assert not bed.board.held(arm.job, bed.space)[1::2].any()


@pytest.mark.parametrize("arm", [NEITHER, HOT], ids=lambda arm: arm.name)
def test_a_program_on_its_senders_cores_takes_their_time(arm: Arm) -> None:
    """So much for every frame that somebody sends, and more for those that the switch answers."""

    def run(program_ns: int, hit_ns: int) -> Bed:
        # Nothing else depends on when things come.
        hosts = Hosts(wake_ns=0, idle_ns=0, take_ns=0, program_ns=program_ns, hit_ns=hit_ns)
        bed = Bed(arm, workers=1, hosts=hosts, hot=HALF)
        bed.operate(10)
        bed.settle()
        assert (bed.held() == bed.book.sums).all()
        check_conservation(bed)
        return bed

    def used(bed: Bed) -> int:
        return sum(bed.network.worker_used_ns()) + bed.network.server_used_ns()

    free, each, hits = run(0, 0), run(1_000, 0), run(0, 10_000)
    passes = int(free.network.world.me.passes)
    answers = int(free.network.world.up[1:].frames.sum())
    assert [int(bed.network.world.me.passes) for bed in (each, hits)] == [passes] * 2
    assert used(each) - used(free) == 1_000 * passes
    answered = passes - 2 * answers
    assert (answered > 0) == (arm is HOT)
    assert used(hits) - used(free) == 10_000 * answered


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.floats(0, 0.3),
    duplication=st.floats(0, 0.3),
    reordering=st.floats(0, 0.3),
    queue_kb=st.floats(1, 64),
    cores=st.integers(1, 3),
    arm=st.sampled_from(MEASURED),
)
def test_whatever_the_network_does_nothing_is_lost_or_doubled(
    seed: int, loss: float, duplication: float, reordering: float, queue_kb: float, cores: int, arm: Arm
) -> None:
    network = Network(loss=loss, duplication=duplication, reordering=reordering, queue_kb=queue_kb)
    bed = Bed(arm, network=network, hosts=Hosts(worker_cores=cores), hot=HALF, seed=seed)
    bed.operate(4)
    bed.settle()
    assert (bed.held() == bed.book.sums).all()
    check_conservation(bed)


def test_a_seed_is_a_run() -> None:
    def run(seed: int) -> bytes:
        bed = Bed(HOT, network=FAULTY, hot=HALF, seed=seed)
        bed.operate(6)
        return bed.state()

    assert run(5) == run(5) != run(6)


def test_plain_and_compiled_leave_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> bytes:
        bed = Bed(HOT, workers=2, network=FAULTY, hot=HALF)
        bed.operate(2)
        bed.settle()
        return bed.state()

    compiled = run()
    for name in ("run", "resume", "awake"):
        twin = plain(getattr(loop, name), {pass_through: pass_by_python})
        monkeypatch.setattr(drives, name, twin)
    assert run() == compiled


def pass_by_python(world: World, h: int, f: int, now: int) -> int:
    """`pass_through`, but that the program is called by ctypes: numba's pointers are none to Python."""
    world.me.passes += 1
    frame = world.frames[f]
    length = int(frame.length)
    world.up[h].delivered += 1
    world.up[h].delivered_bytes += length
    octets = ctypes.string_at(frame.head.ctypes.data, length)
    out = (ctypes.c_char * OUT_CAPACITY)()
    count = PROCESS(int(world.me.process))(
        int(world.me.memory), h + 1, octets, length, now // 1000, now // 1000, out, OUT_CAPACITY
    )
    plain(free_frame)(world, f)
    for port, data in read_records(memoryview(out), count):
        if port <= len(world.down):
            g = plain(new_frame)(world)
            world.frames[g].length = len(data)
            ctypes.memmove(world.frames[g].head.ctypes.data, data, len(data))
            plain(carry)(world, world.down[port - 1], g, now, AT_HOST, port - 1)
    return now


def test_a_server_takes_its_time_and_requests_wait_for_it() -> None:
    """1 ms each, one after the other; cables and everything else take 10 µs at most."""
    bed = Bed(NEITHER, workers=1, servers=1, hosts=Hosts(serve_ns=1_000_000, lane_ns=0))
    bed.network.clients[0].hint(None)
    bed.operate(1)
    rows: Any = bed.network.clients[0].records
    assert len(rows) >= 3
    assert (rows.ps_proc == 1_000_000).all()
    waits = np.diff(np.sort(rows.ps_queue.astype(np.int64)))
    assert ((waits > 900_000) & (waits < 1_100_000)).all()
    on_the_way = rows.arrival - rows.t0 - rows.ps_queue.astype(np.int64) - rows.ps_proc
    assert (on_the_way > 0).all()


def test_agents_of_one_core_take_turns() -> None:
    """Four workers that share one take four times as long as with one each, where all is computing."""

    def took(cores: int) -> int:
        hosts = Hosts(worker_cores=cores, receive_ns=1_000_000, slice_ns=100_000)
        bed = Bed(NEITHER, workers=4, servers=1, hosts=hosts)
        bed.operate(3)
        assert bed.network.worker_used_ns() == pytest.approx(bed.network.worker_used_ns(), rel=0.1)
        return bed.network.now

    assert took(1) / took(4) == pytest.approx(4, rel=0.35)


def test_a_network_that_takes_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(NEITHER)
    monkeypatch.setattr(drives, "run", lambda world, until: loop.QUIET)
    with pytest.raises(SimulationError, match="nothing happens any more, and 3 workers are not done"):
        bed.operate(1)


def test_a_host_has_every_port_but_the_cpus() -> None:
    ports = [port_of(h) for h in range(509)]
    assert ports == [*range(1, 255), *range(256, 511)]
    assert [host_at(port) for port in ports] == list(range(509))
    assert host_at(255) == NOBODY


def test_more_hosts_than_a_kind_has_in_a_real_network() -> None:
    """Ports beyond the CPU's, and addresses beyond a block."""
    bed = Bed(BOTH, workers=252, servers=4, hot=HALF)
    bed.operate(1)
    bed.settle()
    assert (bed.held() == bed.book.sums).all() and bed.book.lanes > 5_000
    check_conservation(bed)
    assert (bed.network.world.up.frames > 0).all()
