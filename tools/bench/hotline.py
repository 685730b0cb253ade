"""The hotset program under test: pushes whose lanes are all hot or all cold, and the entries for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from controller.tables import (
    Change,
    HotParam,
    JobRow,
    KeyState,
    Route,
    RowEncoder,
    ServerRow,
    TableRow,
    Update,
    WorkerRow,
)
from foundation.designs.registry import DEFAULT, design
from foundation.protocol import addressing, frames
from foundation.protocol.codec import Keys
from foundation.protocol.frames import FRAME_OVERHEAD, UdpEndpoint, UdpFrame
from foundation.protocol.header import HOTLINE_PORT, KEYS, LANES, VALUES, Header, Op, layout, offset_of
from softswitch.conformance.client import read_p4info
from softswitch.p4runtime.messages import adopt, p4r
from switch_bench.workload import INGRESS, MAX_RUN, CompiledProgram, Setup, Stamp, Workload

PROGRAM = CompiledProgram(design(DEFAULT).program.with_suffix(""))
HOT_ENTRIES = 20_000
_JOB, _WORKER, PS_PORT = 1, 1, 2
_FIRST_COLD_KEY = 1 << 40  # keys from here on have no entry
_MAX_LANES = 64
_LOW_HALF = 2  # offset of the low 16 bits of a field of 32 bits
_FRAMES = 625  # together the frames hit every hot entry of 32 lanes


class _HotParam(HotParam):  # also of programs compiled for more lanes than the default
    TABLES = tuple(f"lookup_{lane:02d}.hot_params" for lane in range(_MAX_LANES))


def hot_pushes(lanes: int = LANES, live: int | None = None) -> Workload:
    """Return pushes that the switch answers; `live` of a packet's lanes are filled, by default all."""
    return _pushes("hit", lanes, live or lanes, first_key=0, egress=INGRESS)


def cold_pushes(lanes: int = LANES) -> Workload:
    """Return pushes that pass through to the parameter server: every lane looks up and misses."""
    return _pushes("cold", lanes, lanes, first_key=_FIRST_COLD_KEY, egress=PS_PORT)


def setup(program: CompiledProgram = PROGRAM, lanes: int = LANES, entries: int = HOT_ENTRIES) -> Setup:
    """Return a setup with a worker row for each run (an epoch), a PS, offload, and hot keys in all lanes."""
    encoder = RowEncoder(read_p4info(program.path))
    rows = [*network_rows(), *_hot_rows(lanes, entries // lanes)]
    return Setup(program, [adopt(encoder.update(Update(Change.INSERT, row))) for row in rows])


def setup_without_hot_entries(program: CompiledProgram = PROGRAM) -> Setup:
    return setup(program, entries=0)


def hot_updates(setup: Setup) -> Sequence[p4r.Update]:
    return setup.updates[len(list(network_rows())) :]


def network_rows() -> Iterator[TableRow]:
    yield Route(addressing.worker(_WORKER).mac, INGRESS)
    yield Route(addressing.server(1).mac, PS_PORT)
    yield from job_rows(_JOB, MAX_RUN)


def job_rows(job: int, runs: int = 1) -> Iterator[TableRow]:
    host, ps, service = addressing.worker(_WORKER), addressing.server(1), addressing.service(1)
    yield JobRow(job, offload=True, proxy=True)
    yield ServerRow(
        job=job, ps=0, mac=ps.mac, addr=ps.address, udp_port=HOTLINE_PORT, port=PS_PORT,
        service_mac=service.mac, service_addr=service.address, service_port=HOTLINE_PORT,
    )  # fmt: skip
    udp_port = addressing.worker_udp_port(job)
    for run in range(1, runs + 1):
        yield WorkerRow(
            job=job, worker=_WORKER, epoch=run, caller=job, mac=host.mac, addr=host.address,
            udp_port=udp_port, port=INGRESS,
        )  # fmt: skip


def _hot_rows(lanes: int, slots: int) -> Iterator[TableRow]:
    for lane in range(lanes):
        for slot in range(slots):
            yield _HotParam(_JOB, slot * lanes + lane, lane, slot, KeyState.HOT)


def _pushes(name: str, lanes: int, live: int, first_key: int, egress: int) -> Workload:
    pushes = [
        push(lanes, first_key + slot * lanes + np.arange(live, dtype=np.uint64), egress)
        for slot in range(_FRAMES)
    ]
    # An answer repeats these fields of its request. The epoch is the run, the iteration the egress port.
    run, seq, iteration, t0 = (
        FRAME_OVERHEAD + offset_of(field, lanes) for field in ("epoch", "seq", "iteration", "t0")
    )
    stamp = Stamp(run=run, seq=seq, egress=iteration + _LOW_HALF, t0=t0)
    return Workload(f"{live} lanes {name}", pushes, stamp, (egress,))


def push(lanes: int, keys: Keys, egress: int, job: int = _JOB, dim: int = 1) -> bytes:
    live = (1 << len(keys)) - 1
    header = Header(
        op=Op.PUSH,
        flags=KEYS | VALUES,
        job=job,
        worker=_WORKER,
        count=len(keys),
        dim=dim,
        iteration=egress,
        live=live,
    )
    values = np.ones(len(keys) * dim, ">u4")
    datagram = layout(lanes).pack(*header) + keys.astype(">u8").tobytes() + values.tobytes()
    host, service = addressing.worker(_WORKER), addressing.service(1)
    source = UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(job))
    destination = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
    return frames.build(UdpFrame(source, destination, datagram))
