"""Explain one RPC through the aggregation program, with a small hot set in the switch or in a network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from controller.controller_ops import control_of
from controller.network_rows import rows_of_switch
from controller.tables import HotParam, InitialRow, KeyState
from foundation.designs.collect import COLLECT
from foundation.designs.hotset import OFFLOAD_PROXY
from foundation.designs.interface import Arm, SwitchHosts
from foundation.designs.registry import design
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import WINDOW_BITS, Op
from foundation.protocol.leaf_spine import SPINE, HotSetPlace, LeafSpine
from foundation.protocol.requests import request_frame
from hotline_simulator.simulated_switch import RowWriter, loaded_config
from softswitch.explain.events import Event
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.pipeline import Output

WORKER, FAR_WORKER, EPOCH = 1, 2, 1
HOSTS = SwitchHosts(workers=2, servers=1)
FIRST_VALUE = 100  # of a push's first lane; each further lane has one more
SLOT = 5  # of every hot key in its lane; any number does
_ARRIVAL_US, _NOW_US = 0, 3  # times on the switch's clock


def keys_of_lanes(lanes: int) -> list[int]:
    return [next(key for key in count() if lane_of(key) == lane) for lane in range(lanes)]


def program(place: HotSetPlace | None = None) -> Program:
    """Return the program of the switches, of which those at workers' leaves sum for servers."""
    return loaded_config(design(_arm_of(place).design)).program


def _arm_of(place: HotSetPlace | None) -> Arm:
    return COLLECT if place == "worker-leaves" else OFFLOAD_PROXY


class Hop(NamedTuple):
    switch: str
    """Name of a switch that the RPC passes; "" for the only one."""
    events: list[Event]


def explain_rpc(op: Op, lanes: int, cold_keys: int = 0) -> list[Event]:
    """Return the switch's events for a push or pull of worker 1, with a key in each of `lanes` lanes.

    The last `cold_keys` keys are not in the switch. A pull follows a push of the same keys, so that it reads
    values.
    """
    arm = _arm_of(None)
    [hop] = _hops(
        [_Switch(arm, _rows(arm), _hot_params(arm, lanes, cold_keys))], arm, None, WORKER, op, lanes
    )
    return hop.events


def explain_in_network(op: Op, lanes: int, place: HotSetPlace, cold_keys: int = 0) -> list[Hop]:
    """Return the events of each switch on the way of such an RPC, until it leaves the network.

    There are two leaves and a spine. The RPC is of worker 2, whose leaf is not that of the server.
    """
    network = LeafSpine(HOSTS.workers, HOSTS.servers, leaves=2, place=place)
    arm = _arm_of(place)
    hot_params = _hot_params(arm, lanes, cold_keys)
    switches = [
        _Switch(
            arm, rows_of_switch(_rows(arm), network, number), hot_params if number in network.homes else ()
        )
        for number in network.switches
    ]
    return _hops(switches, arm, network, FAR_WORKER, op, lanes)


def _hops(
    switches: Sequence[_Switch], arm: Arm, network: LeafSpine | None, worker: int, op: Op, lanes: int
) -> list[Hop]:
    rpcs = [op] if op is Op.PUSH else [Op.PUSH, op]
    hops: list[Hop] = []
    for rpc_number, rpc_op in enumerate(rpcs, start=1):
        home = 0 if network is None else network.home_index_of(worker)
        frame: bytes | None = _make_frame(rpc_op, keys_of_lanes(lanes), arm, worker, rpc_number, home)
        at, port, hops = SPINE if network is None else network.leaf_of(worker), HOSTS.worker_port(worker), []
        peers = {} if network is None else network.port_peers()
        while frame is not None:
            events, outputs = switches[at].process(port, frame)
            hops.append(Hop("" if network is None else network.name_of(at), events))
            frame = None
            for output in outputs:  # one at most
                if (at, output.port) in peers:
                    frame = output.frame
                    at, port = peers[at, output.port]
    return hops


def _rows(arm: Arm) -> list[InitialRow]:
    return list(control_of(design(arm.design)).rows(HOSTS, [arm], EPOCH))


def _hot_params(arm: Arm, lanes: int, cold_keys: int) -> list[HotParam]:
    hot_keys = keys_of_lanes(lanes)[: lanes - cold_keys]
    return [HotParam(arm.job, key, lane_of(key), SLOT, KeyState.HOT) for key in hot_keys]


class _Switch:
    def __init__(self, arm: Arm, rows: Sequence[InitialRow], hot_params: Sequence[HotParam]) -> None:
        config = loaded_config(design(arm.design))
        recorder = self._recorder = Recorder(config.program)
        control = ControlledPipeline(
            config, lambda loaded: InterpretedPipeline(loaded, observer=recorder), clock=lambda: 0
        )
        RowWriter(control).insert([*rows, *hot_params])
        self._pipeline = control.pipeline

    def process(self, port: int, frame: bytes) -> tuple[list[Event], list[Output]]:
        self._recorder.take()
        outputs = self._pipeline.process(port, frame, t_in=_ARRIVAL_US, now=_NOW_US)
        return self._recorder.take(), list(outputs)


def _make_frame(op: Op, keys: Sequence[int], arm: Arm, worker: int, rpc_number: int, home: int) -> bytes:
    is_push = op is Op.PUSH
    return request_frame(
        "push" if is_push else "pull",
        keys,
        range(FIRST_VALUE, FIRST_VALUE + len(keys)) if is_push else None,
        job=arm.job,
        worker=worker,
        home=home,
        epoch=EPOCH,
        seq=rpc_number << WINDOW_BITS,  # slot 0, in its turn `rpc_number`
    )
