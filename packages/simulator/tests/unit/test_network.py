"""Networks in virtual time: nothing is lost, nothing appears, and a seed is a run."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.designs.hotset import BASELINE, OFFLOAD, OFFLOAD_PROXY, PROXY
from foundation.designs.interface import Arm
from foundation.protocol.rows import RowRange, RowRanges
from foundation.protocol.rpc import RPC
from hotline_simulator import drive as drives
from hotline_simulator import loop
from hotline_simulator.config import SimulationError
from hotline_simulator.costs import HostCosts, LinkOutage, Network
from hotline_simulator.drive import pass_time
from hotline_simulator.links import head_of, rpc_of
from hotline_simulator.state import FRAME_BYTES, HEAD_BYTES, P4_SWITCH, READY, World
from nativekit.plain import plain
from nativekit.records import Octets, as_records
from nativekit.reference import unwrap_ref
from packages.simulator.tests.unit.networks import PARAMETERS, RandomTestbed
from softswitch.compiled import OUT_CAPACITY
from softswitch.jit import PROCESS_CTYPE
from softswitch.memory.output import read_records
from softswitch.network.arrays import frame_octets
from softswitch.network.links import free_frame, new_frame, send
from softswitch.network.state import ABSENT, ARRIVES, IS_PROCESSED
from softswitch.network.switching import enter_switch
from switch_harness.wording import mentions

MEASURED = [BASELINE, PROXY, OFFLOAD, OFFLOAD_PROXY]
HALF = range(0, PARAMETERS, 2)
FAULTY = Network(loss=0.05, duplication=0.05, reordering=0.1)
MANAGED = Network(rate_mbit=200, queue_kb=8, traffic_manager=True)
DEVICE = Network(switch_us=3, switch_mpps=0.05)
MIXED = (RowRange(0, 1), RowRange(100, 64))
_free_frame, _new_frame = plain(free_frame), plain(new_frame)


def check_conservation(testbed: RandomTestbed) -> None:
    """Check that each cable has delivered, dropped or lost every frame, and that nothing is under way."""
    world = testbed.network.world
    assert world.header.events == 0 and world.header.free == len(world.frames)
    for links in (world.up, world.down, world.racks_up, world.racks_down):
        put = links.frames + links.doubled - links.dropped - links.lost
        assert (links.delivered == put).all()
        octets = links.bytes + links.doubled_bytes - links.dropped_bytes - links.lost_bytes
        assert (links.delivered_bytes == octets).all()
    # Everything that came up passed through the program; every arrival was taken or did not fit.
    behind_racks = int(world.header.workers) if len(world.racks_up) else 0
    assert world.up.delivered[:behind_racks].sum() == world.racks_up.frames.sum()
    came_up = world.racks_up.delivered.sum() + world.up.delivered[behind_racks:].sum()
    assert world.switches.passes[P4_SWITCH] == came_up
    assert (world.agents.waiting == 0).all()


def operate_to_rest(testbed: RandomTestbed, count: int, lanes: int = 0) -> None:
    """Let each worker do so many operations, and check that every pushed value is held at the end."""
    testbed.operate(count)
    testbed.settle()
    assert (testbed.stored_values() == testbed.ledger.sums).all() and testbed.ledger.lanes > lanes
    check_conservation(testbed)


@pytest.mark.parametrize("arm", MEASURED, ids=lambda arm: arm.name)
@pytest.mark.parametrize(
    "network", [Network(), FAULTY, MANAGED, DEVICE], ids=["sound", "faulty", "managed", "device"]
)
def test_every_push_is_held_once(arm: Arm, network: Network) -> None:
    testbed = RandomTestbed(arm, network=network, hot=HALF)
    operate_to_rest(testbed, 12, lanes=500)
    again = int(testbed.network.world.workers.header.retransmissions.sum())
    dropped = int(testbed.network.world.queues.queues.dropped.sum())
    assert (again > 0) == (network is FAULTY or dropped > 0)
    if network is MANAGED:
        assert (testbed.network.world.queues.queues.packets == 0).all()
        down = testbed.network.world.down
        assert down.dropped.sum() == 0 and down.longest_queue.max() <= FRAME_BYTES
    if arm.settings.aggregates:
        # The switch holds what is hot.
        assert testbed.switch.stored_values(arm.job, testbed.space)[::2].any()
        assert not testbed.switch.stored_values(arm.job, testbed.space)[1::2].any()


@pytest.mark.parametrize("arm", [BASELINE, OFFLOAD], ids=lambda arm: arm.name)
def test_a_program_on_its_senders_cores_takes_their_time(arm: Arm) -> None:
    """A frame costs `program_ns`, more if its keys are looked up, and still more if the switch answers it."""

    def run(program_ns: int = 0, lookup_ns: int = 0, hit_ns: int = 0, answer_ns: int = 0) -> RandomTestbed:
        # Nothing else depends on when things come.
        hosts = HostCosts(
            wake_ns=0, idle_ns=0, take_ns=0, program_ns=program_ns, lookup_ns=lookup_ns, hit_ns=hit_ns,
            answer_ns=answer_ns,
        )  # fmt: skip
        testbed = RandomTestbed(arm, workers=1, hosts=hosts, hot=HALF)
        operate_to_rest(testbed, 10)
        return testbed

    def used(testbed: RandomTestbed) -> int:
        return sum(testbed.network.worker_used_ns()) + testbed.network.server_used_ns()

    free, each, hits = run(), run(program_ns=1_000), run(hit_ns=10_000)
    passes = int(free.network.world.switches.passes[P4_SWITCH])
    answers = int(free.network.world.up[1:].frames.sum())
    assert [int(each.network.world.switches.passes[P4_SWITCH]) for each in (each, hits)] == [passes] * 2
    assert used(each) - used(free) == 1_000 * passes
    answered = passes - 2 * answers
    assert (answered > 0) == (arm is OFFLOAD)
    assert used(hits) - used(free) == 10_000 * answered
    requests = int(free.network.world.up[:1].frames.sum())
    assert requests == passes - answers > answered
    looked_up = run(lookup_ns=5_000)
    assert used(looked_up) - used(free) == (5_000 * requests if arm is OFFLOAD else 0)
    assert looked_up.network.server_used_ns() == free.network.server_used_ns()
    of_servers = run(answer_ns=3_000)
    assert used(of_servers) - used(free) == (3_000 * answers if arm is OFFLOAD else 0)
    assert sum(of_servers.network.worker_used_ns()) == sum(free.network.worker_used_ns())


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
def test_no_update_is_lost_or_doubled_on_any_network(
    seed: int, loss: float, duplication: float, reordering: float, queue_kb: float, cores: int, arm: Arm
) -> None:
    network = Network(loss=loss, duplication=duplication, reordering=reordering, queue_kb=queue_kb)
    testbed = RandomTestbed(arm, network=network, hosts=HostCosts(worker_cores=cores), hot=HALF, seed=seed)
    operate_to_rest(testbed, 4)


def test_equal_seeds_give_equal_simulations() -> None:
    def run(seed: int) -> bytes:
        testbed = RandomTestbed(OFFLOAD, network=FAULTY, hot=HALF, seed=seed)
        testbed.operate(6)
        return testbed.state()

    assert run(5) == run(5) != run(6)


@pytest.mark.parametrize("network", [FAULTY, DEVICE], ids=["faulty", "device"])
def test_plain_and_compiled_leave_the_same_bytes(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> bytes:
        testbed = RandomTestbed(OFFLOAD, workers=2, network=network, hot=HALF)
        testbed.operate(2)
        testbed.settle()
        return testbed.state()

    compiled = run()
    for name in ("run", "resume", "wake_agent"):
        twin = plain(getattr(loop, name), PLAIN_FORMS)
        monkeypatch.setattr(drives, name, partial(of_world, twin))
    assert run() == compiled


def of_world(twin: Callable[..., Any], world: Any, *rest: Any) -> Any:
    """Call a plain twin with the world itself in place of its address."""
    return twin(unwrap_ref(world), *rest)


def _find_rpc(world: World, f: int) -> Any:  # a record of an RPC
    """Do what `rpc_of` does without an address."""
    return as_records(frame_octets(world, f)[HEAD_BYTES:FRAME_BYTES].view(RPC))[0]


def _find_head(world: World, f: int) -> Octets:
    return frame_octets(world, f)[:HEAD_BYTES]


def enter_by_python(world: World, i: int, f: int, received: int, now: int) -> int:
    """Do what `enter_switch` does, with the program called by ctypes: numba's pointers are none to Python."""
    switch = world.switches[P4_SWITCH]
    switch.passes += 1
    octets = frame_octets(world, f)[: int(world.frames[f].length)].tobytes()
    out = (ctypes.c_char * OUT_CAPACITY)()
    count = PROCESS_CTYPE(int(switch.process))(
        int(switch.state), int(world.interfaces[i].port), octets, len(octets), received // 1000, now // 1000,
        out, OUT_CAPACITY,
    )  # fmt: skip
    _free_frame(world, f)
    for to, data in read_records(memoryview(out), count):
        if to <= len(world.down):
            g = _new_frame(world, len(data), ABSENT, 0)
            frame_octets(world, g)[: len(data)] = np.frombuffer(data, np.uint8)
            _send(world, int(world.ports[P4_SWITCH, to]), g, now)
    return now


PLAIN_FORMS: dict[Any, Callable[..., Any]] = {  # compiled functions have no common type
    enter_switch: enter_by_python,
    rpc_of: _find_rpc,
    head_of: _find_head,
}
_send = plain(send, PLAIN_FORMS)


def test_the_program_sees_how_long_packets_wait_for_a_port() -> None:
    """Its `residence` is from ingress to egress: with the traffic manager the queue lies in between."""

    def residences(network: Network) -> Any:
        testbed = RandomTestbed(BASELINE, workers=3, servers=1, network=network)
        testbed.operate(3)
        return np.concatenate([client.records["residence_us"] for client in testbed.network.clients])

    slow = Network(rate_mbit=20)
    waits = residences(slow.model_copy(update={"traffic_manager": True}))
    assert (residences(slow) == 0).all()
    # A request takes some 180 µs of such a cable; those of three workers wait for each other.
    assert waits.max() > 300 and (waits > 0).mean() > 0.5


def test_every_pass_takes_the_switchs_time_and_the_program_measures_the_residence() -> None:
    """7 µs a pass, of which an RPC has one where the switch answers it and else two."""

    def rows_of(switch_us: float) -> Any:
        testbed = RandomTestbed(OFFLOAD, workers=1, network=Network(switch_us=switch_us), hot=HALF)
        testbed.network.clients[0].hint(np.array(HALF, np.uint64))
        testbed.operate(6)
        return testbed.network.clients[0].records

    rows = rows_of(7)
    by_server = rows.ps_proc > 0
    assert 0 < by_server.sum() < len(rows)
    assert (rows.residence_us == np.where(by_server, 14, 7)).all()
    assert (rows_of(0).residence_us == 0).all()


def test_frames_wait_before_a_switch_with_a_limited_packet_rate() -> None:
    """10,000 a second: no two passes begin within 100 µs, and everything else takes much less."""
    testbed = RandomTestbed(BASELINE, network=Network(switch_us=20, switch_mpps=0.01))
    operate_to_rest(testbed, 3)
    switch = testbed.network.world.switches[P4_SWITCH]
    last_begun = int(switch.free_ps) // 1000 - 100_000
    assert last_begun == pytest.approx(100_000 * int(switch.passes), rel=0.2)
    assert last_begun > 100_000 * (int(switch.passes) - 1)
    residences = np.concatenate([client.records["residence_us"] for client in testbed.network.clients])
    assert residences.min() >= 40 and np.median(residences) > 300


def test_requests_wait_for_a_server_that_takes_1_ms_each() -> None:
    """1 ms each, one after the other; cables and everything else take 10 µs at most."""
    testbed = RandomTestbed(BASELINE, workers=1, servers=1, hosts=HostCosts(serve_ns=1_000_000, lane_ns=0))
    testbed.network.clients[0].hint(None)
    testbed.operate(1)
    rows: Any = testbed.network.clients[0].records
    assert len(rows) >= 3
    assert (rows.ps_proc == 1_000_000).all()
    waits = np.diff(np.sort(rows.ps_queue.astype(np.int64)))
    assert ((waits > 900_000) & (waits < 1_100_000)).all()
    on_the_way = rows.arrival - rows.t0 - rows.ps_queue.astype(np.int64) - rows.ps_proc
    assert (on_the_way > 0).all()


def test_lanes_that_the_switch_has_served_cost_a_server_nothing() -> None:
    testbed = RandomTestbed(OFFLOAD, hosts=HostCosts(serve_ns=1_000, lane_ns=100), hot=HALF)
    for client in testbed.network.clients:
        client.hint(np.array(HALF, np.uint64))
    testbed.operate(2)
    rows: Any = np.concatenate([client.records for client in testbed.network.clients])
    lanes, served = rows["lanes"].astype(np.int64), rows["served"].astype(np.int64)
    mixed = (served > 0) & (served < lanes)
    assert mixed.sum() > 3
    assert (rows["ps_proc"][mixed] == 1_000 + 100 * (lanes - served)[mixed]).all()


@pytest.mark.parametrize("dim", [1, 4, 16, 64, 128])
def test_each_further_value_of_a_row_costs_a_server(dim: int) -> None:
    hosts = HostCosts(serve_ns=1_000, lane_ns=100, value_ns=1.5)
    testbed = RandomTestbed(BASELINE, hosts=hosts, ranges=(RowRange(0, dim),))
    testbed.operate(2)
    rows: Any = np.concatenate([client.records for client in testbed.network.clients])
    lanes = rows["lanes"].astype(np.int64)
    expected = 1_000 + 100 * lanes + np.floor(1.5 * lanes * (dim - 1)).astype(np.int64)
    assert len(rows) > 3 and (rows["ps_proc"] == expected).all()


@pytest.mark.parametrize(
    ("ranges", "values_of_row"), [((RowRange(0, 16),), [16] * 300), (MIXED, [1] * 100 + [64] * 200)]
)
def test_each_further_value_of_an_operation_costs_its_worker(
    ranges: RowRanges, values_of_row: list[int]
) -> None:
    """The same operations take so much longer before their first RPC."""

    def first_sent_ns(operation_value_ns: float) -> tuple[int, int]:
        hosts = HostCosts(value_ns=0, operation_value_ns=operation_value_ns)
        testbed = RandomTestbed(BASELINE, workers=1, hosts=hosts, ranges=ranges)
        testbed.operate(1)
        [client] = testbed.network.clients
        further = sum(
            values_of_row[each] - 1 for each in client.state.positions[: client.state.header.n_keys]
        )
        assert client.further_values == further > 1_000
        return int(client.records["t0"].min()), further

    without, further = first_sent_ns(0)
    assert first_sent_ns(2.5)[0] == without + round(2.5 * further)


def test_sleeping_takes_cpu_time_and_waking_an_idle_core_takes_time_only() -> None:
    """Without costs of bursts, CPU time does not depend on when frames come, but for the sleeps."""

    def run(wake_ns: int, idle_ns: int) -> RandomTestbed:
        hosts = HostCosts(wake_ns=wake_ns, idle_ns=idle_ns, take_ns=0)
        testbed = RandomTestbed(BASELINE, workers=2, servers=1, hosts=hosts)
        operate_to_rest(testbed, 20)
        return testbed

    def server_ns(testbed: RandomTestbed) -> int:
        return testbed.network.server_used_ns()

    free, slow = run(0, 0), run(0, 50_000)
    assert server_ns(slow) == server_ns(free) and slow.network.now > free.network.now + 10 * 50_000
    asleep = run(7_000, 0)
    bursts, waits = (asleep.network.count_of_servers(name) for name in ("bursts", "waits"))
    packets = int(asleep.network.world.servers.jobs["packets"].sum())
    assert 10 <= waits <= bursts < packets
    assert server_ns(asleep) - server_ns(free) == 7_000 * waits


@pytest.mark.parametrize("field", ["finish_ns", "end_ns", "push_ns"])
def test_the_costs_that_follow_an_operation_take_the_workers_time(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(ns: int) -> tuple[int, Counter[str]]:
        hosts = HostCosts.model_validate({"wake_ns": 0, "idle_ns": 0, "take_ns": 0, "end_ns": 0, field: ns})
        testbed, begun = RandomTestbed(BASELINE, workers=1, hosts=hosts), Counter[str]()
        [client] = testbed.network.clients

        def counted(op: str, begin: Callable[..., None]) -> Callable[..., None]:
            def count_and_begin(*arguments: Any) -> None:
                begun[op] += 1
                begin(*arguments)

            return count_and_begin

        for op in ("pull", "push"):
            monkeypatch.setattr(client, op, counted(op, getattr(client, op)))
        testbed.operate(8)
        testbed.settle()
        return sum(testbed.network.worker_used_ns()), begun

    used_ns, begun = run(0)
    assert begun.total() == 8 and begun["push"] and begun["pull"]
    times = begun["push"] if field == "push_ns" else begun.total()
    assert run(90_000) == (used_ns + 90_000 * times, begun)


@pytest.mark.parametrize(("arm", "connections"), [(BASELINE, 3), (PROXY, 1)], ids=["baseline", "proxy"])
def test_a_server_looks_at_each_of_its_connections_before_a_burst(arm: Arm, connections: int) -> None:
    """The RPC that waits least has only waited for that; each of three workers has a connection."""

    def least(connection_ns: int) -> int:
        hosts = HostCosts(wake_ns=0, idle_ns=0, take_ns=0, connection_ns=connection_ns)
        testbed = RandomTestbed(arm, hosts=hosts)
        testbed.operate(2)
        return min(int(client.records["ps_queue"].min()) for client in testbed.network.clients)

    assert least(0) == 0 and least(1_000) == 1_000 * connections


def test_agents_of_one_core_take_turns() -> None:
    """Four workers that share one take four times as long as with one each, where all is computing."""

    def took(cores: int) -> int:
        hosts = HostCosts(worker_cores=cores, receive_ns=1_000_000, slice_ns=100_000)
        testbed = RandomTestbed(BASELINE, workers=4, servers=1, hosts=hosts)
        testbed.operate(3)
        assert testbed.network.worker_used_ns() == pytest.approx(testbed.network.worker_used_ns(), rel=0.1)
        return testbed.network.now

    assert took(1) / took(4) == pytest.approx(4, rel=0.35)


def test_a_network_without_events_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = RandomTestbed(BASELINE)
    monkeypatch.setattr(drives, "run", lambda world, until: loop.NO_EVENTS)
    with pytest.raises(SimulationError, match=mentions(3, "workers")):
        testbed.operate(1)


def test_a_simulation_may_have_more_hosts_than_a_real_network() -> None:
    """Ports beyond the CPU's, and addresses beyond a block."""
    testbed = RandomTestbed(OFFLOAD_PROXY, workers=252, servers=4, hot=HALF)
    operate_to_rest(testbed, 1, lanes=5_000)
    assert (testbed.network.world.up.frames > 0).all()
    interfaces = testbed.network.world.interfaces
    ports = [int(port) for port in interfaces.port[interfaces.peer[:256]]]
    assert ports == [*range(1, 255), 256, 257]


@pytest.mark.parametrize("arm", MEASURED, ids=lambda arm: arm.name)
def test_workers_of_a_rack_share_a_port(arm: Arm) -> None:
    """The last of three racks has one worker; the workers of a rack share the queue of its uplink."""
    network = Network(rate_mbit=1_000, rack=3, uplink_mbit=500)
    testbed = RandomTestbed(arm, workers=7, network=network, hot=HALF)
    world = testbed.network.world
    # Seven workers and two servers have 18 interfaces, the three racks and their ports the next six.
    assert world.interfaces.switch[9:].tolist() == [1, 1, 1, 2, 2, 2, 3, 0, 0, 1, 2, 3, 0, 0, 0, 0]
    assert world.ports[P4_SWITCH, 1:6].tolist() == [21, 22, 23, 16, 17]
    operate_to_rest(testbed, 6, lanes=1_000)
    assert (testbed.network.world.workers.header.retransmissions == 0).all()
    # A frame takes twice as long on an uplink as on the way to it, so that it waits there; not for others.
    assert (world.racks_up.longest_queue[:2] > FRAME_BYTES).all() and (world.racks_up.waited > 0).all()
    assert (world.racks_down.frames > 0).all()


def test_workers_in_racks_may_exceed_the_ports_of_a_switch() -> None:
    testbed = RandomTestbed(OFFLOAD, workers=512, servers=128, network=Network(rack=8), hot=HALF)
    operate_to_rest(testbed, 1, lanes=20_000)
    assert (testbed.network.world.up.frames[:512] > 0).all()


def test_a_cable_that_is_down_loses_frames_for_as_long() -> None:
    """What was lost is sent again: only operations of the first worker take longer."""
    outage = LinkOutage(host="w1", from_ms=0, duration_ms=30)
    testbed = RandomTestbed(BASELINE, network=Network(outages=(outage,)))
    operate_to_rest(testbed, 3)
    world = testbed.network.world
    assert (world.up.lost > 0).tolist() == [True, False, False, False, False]
    assert (world.workers.header.retransmissions > 0).tolist() == [True, False, False]
    ended = [int(client.records.arrival.max()) for client in testbed.network.clients]
    assert ended[0] > 30_000_000 > max(ended[1:])


def test_a_cable_that_was_slow_for_a_while_is_fast_again() -> None:
    """Outages that overlap add up; one comes again and again."""
    slow = [
        LinkOutage(host="p1", from_ms=1, duration_ms=4, extra_delay_us=500),
        LinkOutage(host="p1", from_ms=3, duration_ms=4, extra_delay_us=300),
        LinkOutage(host="p2", from_ms=1, duration_ms=1, every_ms=5, extra_delay_us=200),
    ]
    testbed = RandomTestbed(BASELINE, network=Network(delay_us=2, outages=tuple(slow)))
    delays = []
    for ms in (0, 2, 4, 6, 8, 11, 12):
        pass_time(testbed.network, ms * 1_000_000 + 500_000)
        world = testbed.network.world
        delays.append((world.up[3:].delay // 1000, world.down[3:].delay // 1000))
    assert [up.tolist() for up, _ in delays] == [down.tolist() for _, down in delays]
    found = [tuple(up.tolist()) for up, _ in delays]
    assert found == [(2, 2), (502, 2), (802, 2), (302, 202), (2, 2), (2, 202), (2, 2)]


def test_littles_law_holds_for_every_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little's law for frames on a cable and in the switch, and for agents that wait for a core.

    The mean number in the system is their rate times the mean time that each stays.
    """
    network = Network(rate_mbit=100, delay_us=3, switch_us=2, switch_mpps=0.03)
    # A host without costs sends a frame in the event in which it is scheduled.
    none = dict.fromkeys(["encode_ns", "send_ns", "take_ns", "receive_ns", "serve_ns", "lane_ns"], 0)
    hosts = HostCosts.model_validate({"worker_cores": 1, "server_cores": 1, **none})
    testbed = RandomTestbed(OFFLOAD, network=network, hosts=hosts, hot=HALF)
    world = testbed.network.world
    n = len(world.agents)
    on_cables, waiting, in_switch, then = np.zeros(2 * n, int), np.zeros(n, int), 0, 0

    def watch(pinned_ref: Any, until: int) -> int:
        nonlocal in_switch, then
        world = unwrap_ref(pinned_ref)
        while world.header.events:
            now = min(int(world.heap[0].time), until)
            for event in world.heap[: world.header.events]:
                if event.kind == ARRIVES:
                    on_cables[world.interfaces[event.target].peer] += now - then
                in_switch += (now - then) * int(event.kind == IS_PROCESSED)
            waiting[world.agents.state == READY] += now - then
            then = now
            reason = loop.run(pinned_ref, min(now + 1, until))
            if reason != loop.TIME_REACHED or now == until:
                return reason
        return loop.NO_EVENTS

    monkeypatch.setattr(drives, "run", watch)
    testbed.operate(3)
    testbed.settle()
    check_conservation(testbed)
    for links, seen in ((world.up, on_cables[:n]), (world.down, on_cables[n:])):
        sent = (links.bytes + 24 * links.frames) * links.picoseconds_per_byte // 1000
        stayed = links.waited + sent + links.frames * 3_000
        # Each frame's time on the wire is rounded down to ns.
        assert ((seen <= stayed) & (seen >= stayed - links.frames)).all()
        assert (links.waited > 0).any() and (links.frames > 0).all()
    switch = world.switches[P4_SWITCH]
    assert in_switch == switch.waited + 2_000 * switch.passes
    assert switch.waited > 10_000 * switch.passes
    assert (waiting == world.agents.queued_ns).all() and (waiting > 0).any()
