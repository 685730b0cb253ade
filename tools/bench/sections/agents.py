"""The agents: their state machines alone, and over a veth, compared with an echo that does no work."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from foundation.protocol.header import HOTLINE_PORT, LANES, PS_RPC_PORT, Op, lanes_of_dim
from hosts.keys import KeySpace
from hosts.sockets import open_udp
from switch_bench.network import HOST_ADDRESS, SWITCH_ADDRESS, in_namespace, veth_pair
from switch_bench.processes import cpu_seconds, pinned
from switch_bench.results import Goal, Result, Samples
from switch_bench.scale import Scale
from switch_bench.stage import Stage
from tools.bench.callers import Callers
from tools.bench.echo import echo_server
from tools.bench.requests import Requests, make_requests
from tools.bench.results import (
    AGENT,
    AGENTS,
    BEGIN_OPERATION_US,
    ECHO,
    HANDLE_US,
    SERVER_NS,
    SERVER_RATE,
    WORKER_NS,
    WORKER_US,
)
from tools.bench.servers import parameter_server
from tools.bench.state_machines import (
    available_bytes,
    bytes_needed,
    server_of,
    space_of,
    us_per_operation,
    us_per_rpc,
)
from tools.bench.stepper import Cost, Stepper, stepping

_DENSE, _LARGE, _LARGE_HASHED = (900_000, False), (150_000_000, False), (150_000_000, True)
"""Number of keys, and whether they are hashed."""
_OPS = (Op.PULL, Op.PUSH)
_KEYS = 900_000
_DIMS, _ROWS = (1, 16, 64), 200_000
"""Dims of rows, and number of rows: those of 64 values take 52 MB."""
_STEP_KEYS = 3_000
_RPCS = 40_000
"""Number of different RPCs: with 150 M keys, the parameters that they access exceed a CPU's cache."""
_TRIALS = 3
_WARMUP_RPCS = 10_000
_RPCS_PER_SECOND = 100_000  # approximate rate, to choose the number of RPCs of a trial
_SEED = 2
_ECHO_PORT = PS_RPC_PORT + 1
_CALLERS_PORT, _WORKER_PORT = 20_000, 20_001


def server_sizes(scale: Scale) -> tuple[tuple[int, bool], ...]:
    """Return the sizes of a parameter server: number of keys, and whether they are hashed."""
    return (_DENSE,) if scale.is_quick else (_DENSE, _LARGE, _LARGE_HASHED)


class ServerTrial(NamedTuple):
    """A server's rate in a trial, RPCs/s, and its CPU time per RPC, µs."""

    rate: float
    cpu: float


class Trials(NamedTuple):
    served: Mapping[tuple[str, Op], Sequence[ServerTrial]]
    """Trials by AGENT or ECHO, and by the kind of RPC."""
    worker: Sequence[Cost]


def agents(stage: Stage) -> list[Result]:
    return [
        *(
            result
            for parameters, hashed in server_sizes(stage.scale)
            for result in _handle(stage, parameters, hashed)
        ),
        *(_issue(stage, op) for op in _OPS),
        *(result for dim in _DIMS for result in _rows(stage, dim)),
        *results_of(_trials(stage)),
    ]


def _handle(stage: Stage, parameters: int, hashed: bool) -> Iterator[Result]:
    needed = bytes_needed(parameters, hashed)
    what = f"{parameters:,} {'hashed' if hashed else 'dense'} keys ({needed / 1e9:.2g} GB)"
    stage.announce(f"PS with {what}")
    server = None
    if needed < available_bytes():
        space = space_of(parameters, hashed)
        server = server_of(space)
        positions = np.random.default_rng(_SEED).integers(parameters, size=(_RPCS, LANES))
        keys = space.keys(positions)
        del space  # frees its hashed keys before the measurement
    for op in _OPS:
        samples = {} if server is None else {AGENT: us_per_rpc(server, make_requests(op, keys))}
        goals = HANDLE_US.get((parameters, hashed), ())
        yield _result(f"PS, `handle` alone, {LANES}-lane {_name(op)}, {what}", "µs", samples, goals)


def _rows(stage: Stage, dim: int) -> Iterator[Result]:
    """Yield the costs of a value in full RPCs of rows, for a server and a worker with as many rows."""
    stage.announce(f"rows of {dim}")
    lanes, space = lanes_of_dim(dim), space_of(_ROWS, hashed=False, dim=dim)
    server = server_of(space)
    keys = space.keys(np.random.default_rng(_SEED).integers(_ROWS, size=(_RPCS, lanes)))
    for op in _OPS:
        what, ns_per_us = f"{_name(op)} of rows of {dim}, {_ROWS:,} rows", 1_000
        per_rpc = us_per_rpc(server, make_requests(op, keys, dim))
        values = [us / (lanes * dim) * ns_per_us for us in per_rpc]
        yield _result(f"PS, `handle` alone, {what}: a value", "ns", {AGENT: values}, SERVER_NS.get(dim, ()))
        per_operation = us_per_operation(op, _ROWS, _STEP_KEYS, dim)
        values = [us / (_STEP_KEYS * dim) * ns_per_us for us in per_operation]
        yield _result(
            f"worker, {what}: hash, pack, encode, a value", "ns", {AGENT: values}, WORKER_NS.get(dim, ())
        )


def _issue(stage: Stage, op: Op) -> Result:
    stage.announce(f"worker: {_name(op)}")
    what = f"worker, {_name(op)} of {_STEP_KEYS:,} keys alone: hash, pack, encode"
    return _result(what, "µs", {AGENT: us_per_operation(op, _KEYS, _STEP_KEYS)}, BEGIN_OPERATION_US)


def _trials(stage: Stage) -> Trials:
    served: dict[tuple[str, Op], list[ServerTrial]] = defaultdict(list)
    worker: list[Cost] = []
    count = round(stage.scale.latency_seconds * _RPCS_PER_SECOND)
    with _network(stage) as (servers, stepper):
        keys = KeySpace(_KEYS).keys(np.random.default_rng(_SEED).integers(_KEYS, size=(_RPCS, LANES)))
        requests = {op: make_requests(op, keys) for op in _OPS}
        # None stands for a trial of the worker.
        targets = [*((target, op) for target in servers for op in _OPS), None]
        for each in stage.shuffled(targets, _TRIALS):
            stage.announce("worker over veth" if each is None else f"{each[0]} over veth: {_name(each[1])}")
            if each is None:
                stepper.run(_steps(_WARMUP_RPCS))
                worker.append(stepper.run(_steps(count)))
            else:
                target, op = each
                servers[target].call(requests[op], _WARMUP_RPCS)
                served[each].append(servers[target].call(requests[op], count))
    return Trials(served, worker)


def results_of(trials: Trials) -> Iterator[Result]:
    """Yield the results over the veth; the worker's RPCs are pulls and pushes in equal numbers."""
    for op in _OPS:
        samples = {target: trials.served[target, op] for target in (AGENT, ECHO)}
        what = f"PS over veth, {LANES}-lane {_name(op)}, {_KEYS:,} keys"
        rates = {target: [each.rate for each in rounds] for target, rounds in samples.items()}
        costs = {target: [each.cpu for each in rounds] for target, rounds in samples.items()}
        yield _result(what, "RPCs/s", rates, SERVER_RATE)
        yield _result(f"{what}: CPU time an RPC", "µs", costs)
    what = f"worker over veth, {_STEP_KEYS:,} keys a step: CPU time an RPC"
    echo = [
        mean(each.cpu for each in pair)
        for pair in zip(*(trials.served[ECHO, op] for op in _OPS), strict=True)
    ]
    yield _result(what, "µs", {AGENT: [cost.loop for cost in trials.worker], ECHO: echo}, WORKER_US)
    yield _result(f"{what}, while logging", "µs", {AGENT: [cost.log for cost in trials.worker]})


class _Server(NamedTuple):
    callers: Callers
    cpu_seconds: Callable[[], float]
    expect: Callable[[Requests], None]
    """Called with the requests before they are sent."""

    def call(self, requests: Requests, count: int) -> ServerTrial:
        self.expect(requests)
        start_s = self.cpu_seconds()
        trial = self.callers.call(requests, count)
        return ServerTrial(trial.rate, (self.cpu_seconds() - start_s) / trial.rpcs * 1e6)


@contextmanager
def _network(stage: Stage) -> Iterator[tuple[Mapping[str, _Server], Stepper]]:
    address, echo_address = (SWITCH_ADDRESS, HOTLINE_PORT), (SWITCH_ADDRESS, _ECHO_PORT)
    with ExitStack() as stack:
        stack.enter_context(veth_pair())
        ps = stack.enter_context(parameter_server(address, _KEYS, stage.cores.softswitch))
        echo = stack.enter_context(echo_server(echo_address, stage.cores.softswitch))
        with in_namespace():
            callers, worker = (
                stack.enter_context(closing(open_udp((HOST_ADDRESS, port))))
                for port in (_CALLERS_PORT, _WORKER_PORT)
            )
        stack.enter_context(pinned({stage.cores.generator}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stepper = stack.enter_context(stepping(worker, address, _KEYS, _STEP_KEYS, folder))
        yield (
            {
                AGENT: _Server(Callers(callers, address), lambda: cpu_seconds(ps), lambda _: None),
                ECHO: _Server(
                    Callers(callers, echo_address),
                    echo.cpu_seconds,
                    lambda requests: echo.answer_with(requests.answer_octets),
                ),
            },
            stepper,
        )


def _steps(rpcs: int) -> int:
    rpcs_per_step = 2 * _STEP_KEYS / LANES  # pulls and pushes
    return max(1, round(rpcs / rpcs_per_step))


def _name(op: Op) -> str:
    return op.name.lower()


def _result(what: str, unit: str, samples: Samples, goals: tuple[Goal, ...] = ()) -> Result:
    return Result("agents", what, unit, samples, goals, AGENTS)
