"""Explain one RPC through the aggregation program, with a small hot set in the switch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from controller.hotset.initial_rows import CONTROL
from controller.tables import HotParam, KeyState
from foundation.designs.hotset import DESIGN, OFFLOAD_PROXY
from foundation.designs.interface import SwitchHosts
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import WINDOW_BITS, Op
from foundation.protocol.requests import request_frame
from hotline_simulator.simulated_switch import RowWriter, loaded_config
from softswitch.explain.events import Event
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.p4runtime.control import ControlledPipeline

WORKER, EPOCH = 1, 1
HOSTS = SwitchHosts(workers=2, servers=1)
FIRST_VALUE = 100  # of a push's first lane; each further lane has one more
SLOT = 5  # of every hot key in its lane; any number does
_ARRIVAL_US, _NOW_US = 0, 3  # times on the switch's clock


def keys_of_lanes(lanes: int) -> list[int]:
    return [next(key for key in count() if lane_of(key) == lane) for lane in range(lanes)]


def program() -> Program:
    return loaded_config(DESIGN).program


def explain_rpc(op: Op, lanes: int, cold_keys: int = 0) -> list[Event]:
    """Return the switch's events for a push or pull of worker 1, with a key in each of `lanes` lanes.

    The last `cold_keys` keys are not in the switch. A pull follows a push of the same keys, so that it reads
    values.
    """
    pipeline, recorder = _make_switch(keys_of_lanes(lanes)[: lanes - cold_keys])
    rpcs = [op] if op is Op.PUSH else [Op.PUSH, op]
    for rpc_number, rpc_op in enumerate(rpcs, start=1):
        recorder.take()
        pipeline.process(
            HOSTS.worker_port(WORKER),
            _make_frame(rpc_op, keys_of_lanes(lanes), rpc_number),
            t_in=_ARRIVAL_US,
            now=_NOW_US,
        )
    return recorder.take()


def _make_switch(hot_keys: Sequence[int]) -> tuple[InterpretedPipeline, Recorder]:
    config = loaded_config(DESIGN)
    recorder = Recorder(config.program)
    control = ControlledPipeline(
        config, lambda loaded_config: InterpretedPipeline(loaded_config, observer=recorder), clock=lambda: 0
    )
    params = [HotParam(OFFLOAD_PROXY.job, key, lane_of(key), SLOT, KeyState.HOT) for key in hot_keys]
    RowWriter(control).insert([*CONTROL.rows(HOSTS, [OFFLOAD_PROXY], EPOCH), *params])
    return control.pipeline, recorder


def _make_frame(op: Op, keys: Sequence[int], rpc_number: int) -> bytes:
    is_push = op is Op.PUSH
    return request_frame(
        "push" if is_push else "pull",
        keys,
        range(FIRST_VALUE, FIRST_VALUE + len(keys)) if is_push else None,
        job=OFFLOAD_PROXY.job,
        worker=WORKER,
        epoch=EPOCH,
        seq=rpc_number << WINDOW_BITS,  # slot 0, in its turn `rpc_number`
    )
