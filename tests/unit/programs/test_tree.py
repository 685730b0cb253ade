"""Hot sets in a network of two leaves and a spine: sums of all pushes, and forged packets."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.tables import CPU_PORT
from foundation.designs import hotset
from foundation.protocol import addressing
from foundation.protocol.control import Command
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HOTLINE_PORT,
    KEYS,
    LANES,
    PS_BITS,
    PS_CALLER_BASE,
    PS_RPC_PORT,
    RESPONSE,
    VALUES,
    WINDOW_BITS,
    Header,
    Op,
)
from foundation.protocol.leaf_spine import HotSetPlace, Routing
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from switch_harness.effort import examples
from tests.harness import frames
from tests.harness.programs import Edit, edited
from tests.harness.switches import CELLS
from tests.harness.testbed import JOB, SERVERS, WORKERS
from tests.harness.testnet import lane_stats, new_switch
from tests.harness.tree import Tree, TreeTestbed
from tests.unit.programs.test_exactly_once import SPARSE, play

PLACES: tuple[HotSetPlace, ...] = get_args(HotSetPlace)


class TreeLayout(NamedTuple):
    place: HotSetPlace
    spines: int = 1
    routing: Routing = "fixed"


SPREAD_LAYOUTS = [
    TreeLayout(place, 2, routing)
    for place in PLACES
    if place.endswith("leaves")
    for routing in ("ecmp", "spray")
]
LAYOUTS = [TreeLayout(place, spines) for place in PLACES for spines in (1, 2)] + SPREAD_LAYOUTS


def played(switch: Tree, seed: int, stimuli: int, testbed: type[TreeTestbed] = TreeTestbed) -> TreeTestbed:
    random = Random(seed)
    network = testbed(
        switch,
        random,
        loss=random.choice([0.0, 0.05, 0.3]),
        doubling=random.choice([0.0, 0.05, 0.5]),
        proxy=random.random() < 0.5,
        window=max(random.choice([2, 8, 64]), len(switch.network.homes)),
        sparse=random.choice([None, SPARSE]),
    )
    play(network, stimuli)
    network.quiesce()
    assert not any(core.malformed for core in network.cores())
    return network


@pytest.mark.parametrize("place", [place for place in PLACES if place != "worker-leaves"])
@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32), spines=st.integers(1, 2))
def test_hot_sets_in_a_network_add_every_push_once(place: HotSetPlace, seed: int, spines: int) -> None:
    """Links between switches lose, double and reorder frames as those of hosts do."""
    played(Tree(new_switch, place, spines), seed, 1500).check()


def test_rows_are_at_both_levels_while_workers_push() -> None:
    """Both a spine and leaves have served rows, and rows have moved from one level to the other."""
    tree, levels = Tree(new_switch, "both"), set[tuple[int, int]]()
    begin_move = TreeTestbed._begin_move

    class Noting(TreeTestbed):
        def _begin_move(self, command: Command, number: int, keys: list[int]) -> None:
            levels.update((key, number >> PS_BITS) for key in keys)
            begin_move(self, command, number, keys)

    played(tree, 4, 3000, Noting).check()
    assert {key for key, level in levels if level} & {key for key, level in levels if not level}
    for home in tree.network.homes:
        assert sum(lane_stats(tree.parts[home].pipeline, lane)[0] for lane in range(LANES))


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_hot_sets_at_leaves_add_every_push_once_on_any_path(routing: Routing, seed: int) -> None:
    tree = Tree(new_switch, "leaves", 2, routing)
    played(tree, seed, 1500).check()


def test_pushes_that_take_turns_at_spines_with_hot_sets_are_noticed() -> None:
    with pytest.raises(AssertionError, match="come to rest"):
        played(Tree(new_switch, "spine", 2, "spray"), 1, 800).check()


def test_a_program_that_compares_members_of_a_bundle_is_noticed() -> None:
    edit = Edit("common/bundle.p4", "port = first;", "")
    program = load_program(json.dumps(edited(hotset.DESIGN, edit)).encode())
    tree = Tree(lambda: InterpretedPipeline(program), "leaves", 2, "ecmp")
    with pytest.raises(AssertionError, match="come to rest"):
        played(tree, 1, 200).check()


def test_one_window_over_two_homes_is_noticed() -> None:
    """A home that misses a turn drops all that follow."""
    tree = Tree(new_switch, "leaves")
    tree.homes = ()
    with pytest.raises(AssertionError, match="come to rest"):
        played(tree, 1, 800).check()


# -- forged packets

EPOCHS = (5, 10)  # of servers and workers of the testbed
HOT_KEYS = [next(key for key in range(64) if ps_of(key, SERVERS) == ps) for ps in range(SERVERS)]
"""A key of each server."""
REQUESTS = [
    (Op.PULL, KEYS),
    (Op.PULL, KEYS | VALUES),  # served in part by a switch
    (Op.PUSH, KEYS | VALUES),
    (Op.EMPTY, 0),
    (Op.CONTROL, 0),
]
ANSWERS = [(Op.PULL, RESPONSE | VALUES), (Op.PUSH, RESPONSE), (Op.EMPTY, RESPONSE), (Op.CONTROL, RESPONSE)]
WORKER_PORTS = [addressing.worker_port(worker) for worker in range(1, WORKERS + 1)]
SERVER_PORTS = [addressing.server_port(WORKERS, ps + 1) for ps in range(SERVERS)]
PORT_OF_CALLER = {
    **dict(enumerate(WORKER_PORTS, start=1)),
    **{
        PS_CALLER_BASE + (ps | home << PS_BITS): port
        for home in range(2)
        for ps, port in enumerate(SERVER_PORTS)
    },
    CONTROLLER_CALLER: CPU_PORT,
}
"""Caller, also by its number at a second home -> the port from which alone it may send."""
ENDS = [
    *((addressing.worker(number), HOTLINE_PORT) for number in (1, 2)),
    *((addressing.server(number), PS_RPC_PORT) for number in (1, 2)),
    *((addressing.service(number), HOTLINE_PORT) for number in (1, 2)),
    (addressing.controller(), HOTLINE_PORT),
]
U32 = st.integers(0, 2**32 - 1)


def with_hot_keys(tree: Tree) -> Tree:
    TreeTestbed(tree, Random(1))  # admits servers and callers
    for key in HOT_KEYS:
        tree.set_entry(JOB, key, "hot", 0)
    return tree


TREES = {layout: with_hot_keys(Tree(new_switch, *layout)) for layout in LAYOUTS}


CALLER_CELLS = (1, 2, 100, 101)
"""Numbers of the workers and servers in the exactly-once cells."""


def state_of(tree: Tree) -> list[list[int]]:
    """Return each switch's exactly-once cells of workers and servers, and its values of hot keys."""
    ranges = [(row << WINDOW_BITS, row + 1 << WINDOW_BITS) for row in CALLER_CELLS]
    return [
        [cell for cells in ranges for cell in part.pipeline.cells.read_register(CELLS, *cells)]
        + [part.register(key, 0) for key in HOT_KEYS]
        for part in tree.parts
    ]


@st.composite
def forged(draw: st.DrawFn) -> tuple[int, bytes]:
    """Draw a packet of any kind and a host's port, from which it may not come."""
    op, flags = draw(st.sampled_from(REQUESTS + ANSWERS))
    ps, caller = draw(st.integers(0, SERVERS - 1)), draw(st.sampled_from([*PORT_OF_CALLER, 7]))
    number = ps | draw(st.integers(0, 1)) << PS_BITS
    owner = SERVER_PORTS[ps] if flags & RESPONSE else PORT_OF_CALLER.get(caller, CPU_PORT)
    port = draw(st.sampled_from([port for port in (*WORKER_PORTS, *SERVER_PORTS, 9) if port != owner]))
    has_lanes = op in (Op.PULL, Op.PUSH)
    lanes = {lane_of(key): key for key in HOT_KEYS} if has_lanes else {}
    count, marks = max(lanes, default=-1) + 1, st.integers(0, 2**LANES - 1)
    header = Header(
        op=op, flags=flags, job=JOB, worker=caller, epoch=draw(st.sampled_from(EPOCHS)), ps=number,
        count=count, seq=1 << WINDOW_BITS | draw(st.integers(0, 63)), live=sum(1 << lane for lane in lanes),
        served=draw(st.just(0) | marks), refused=draw(st.just(0) | marks),
    )  # fmt: skip
    keys = [lanes.get(lane, 2**64 - 1) for lane in range(count)] if flags & KEYS else None
    datagram = frames.datagram(header, keys, [draw(U32)] * count if flags & VALUES else None)
    ends = [
        UdpEndpoint(host.mac, host.address, udp)
        for host, udp in draw(st.tuples(*[st.sampled_from(ENDS)] * 2))
    ]
    if HOTLINE_PORT not in (ends[0].port, ends[1].port):
        ends[1] = ends[1]._replace(port=HOTLINE_PORT)
    return port, build(UdpFrame(ends[0], ends[1], datagram))


@pytest.mark.parametrize("tree", TREES.values(), ids=["-".join(map(str, layout)) for layout in TREES])
@settings(max_examples=examples(250), deadline=None)
@given(packet=forged())
def test_forged_packets_are_dropped_at_the_first_switch(tree: Tree, packet: tuple[int, bytes]) -> None:
    before = state_of(tree)
    assert tree.process(*packet, 0, 0) == []
    assert state_of(tree) == before


def test_a_worker_uses_no_home_but_its_own_leaf() -> None:
    """Its requests to a server's number at another home are dropped there, or before."""
    for layout in (layout for layout in LAYOUTS if layout.place == "worker-leaves"):
        tree = TREES[layout]
        before = state_of(tree)
        for worker, ps, home in product((1, 2), range(SERVERS), range(2)):
            header = Header(
                op=Op.PUSH, flags=KEYS | VALUES, job=JOB, worker=worker, epoch=10, ps=ps | home << PS_BITS,
                count=1, seq=1 << WINDOW_BITS | ps, live=1,
            )  # fmt: skip
            ends = [
                UdpEndpoint(each.mac, each.address, HOTLINE_PORT)
                for each in (addressing.worker(worker), addressing.service(ps + 1))
            ]
            cold = [next(key for key in range(64) if ps_of(key, SERVERS) == ps and key not in HOT_KEYS)]
            frame = build(UdpFrame(ends[0], ends[1], frames.datagram(header, cold, [5])))
            outputs = tree.process(WORKER_PORTS[worker - 1], frame, 0, 0)
            while outputs and outputs[0].port not in SERVER_PORTS:
                [output] = outputs
                outputs = tree.process(output.port, output.frame, 0, 0)
            is_own_home = tree.network.homes[home] == tree.network.leaf_of(worker)
            assert bool(outputs) == is_own_home
            if not is_own_home:
                assert state_of(tree) == before
            before = state_of(tree)


CHECK_OF_CALLER = "meta.kind == PacketKind.REQUEST && meta.ingress_port == meta.worker.port"
CHECK_OF_MARKS = "if (meta.is_from_switch && !(meta.is_passed_on && meta.ingress_port == meta.home_port))"


@pytest.mark.parametrize(
    ("edit", "marks"),
    [
        (None, 0),
        (Edit("hotset/pass_on.p4", CHECK_OF_CALLER, "meta.kind == PacketKind.REQUEST"), 0),
        (None, 1),
        (Edit("hotset/identify.p4", CHECK_OF_MARKS, "if (false)"), 1),
    ],
)
def test_a_program_without_a_check_is_noticed(edit: Edit | None, marks: int) -> None:
    """A push as the other worker, and one of the own worker with lanes that no switch has served."""
    program = None if edit is None else load_program(json.dumps(edited(hotset.DESIGN, edit)).encode())
    tree = with_hot_keys(
        Tree(new_switch if program is None else lambda: InterpretedPipeline(program), "leaves")
    )
    header = Header(
        op=Op.PUSH, flags=KEYS | VALUES, job=JOB, worker=1 if marks else 2, epoch=10, ps=1, count=1,
        seq=1 << WINDOW_BITS, live=1, served=marks,
    )  # fmt: skip
    host, service = addressing.worker(1), addressing.service(2)
    ends = [UdpEndpoint(each.mac, each.address, HOTLINE_PORT) for each in (host, service)]
    frame = build(UdpFrame(ends[0], ends[1], frames.datagram(header, HOT_KEYS[1:], [5])))
    assert bool(tree.process(1, frame, 0, 0)) is (edit is not None)
