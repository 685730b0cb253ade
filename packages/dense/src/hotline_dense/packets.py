"""All-reduces simulated frame by frame, compared with the formula and with the α-β model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.settings import Strict
from hotline_dense import DenseError
from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule, simulate
from hotline_dense.catalogue import DenseModel
from hotline_dense.fusion import Fusion, fuse
from hotline_dense.layers import Values
from hotline_dense.network import DenseNetwork, addition_us
from hotline_dense.rings import Rings, run_rings
from hotline_dense.whatif import last_end_us
from hotline_simulator.costs import Network as LinkSettings
from hotline_simulator.costs import links_of
from hotline_simulator.state import HEAD_BYTES
from nativekit.records import one_record, records
from softswitch.network.state import FrameState, NetworkHeader, ScheduledEvent
from softswitch.queues.fifo import WIRE_OVERHEAD

MTU = 1500
_IP_UDP_BYTES = 28
PAYLOAD = MTU - _IP_UDP_BYTES
GOODPUT_SHARE = PAYLOAD / (PAYLOAD + HEAD_BYTES + WIRE_OVERHEAD)
"""Share of gradients in what a link carries, including headers, preamble and gap."""
MIN_LINK_GBIT, MAX_LINK_GBIT = 0.001, 1000.0
"""Range of the simulated links' rates, limited by the resolution of simulated time, 1 ns."""
WORKERS = (4, 8, 16)
NODES = 8  # of the measurements behind `AlphaBetaModel`
_QUEUE_KB = 1e6  # large enough that no frame is lost
_MIN_FRAMES_PER_HOST = 16


@dataclass(frozen=True, slots=True)
class RingResult:
    end_times: Values
    """[b]: time in µs at which the last host has the sum."""
    frames: int  # sent by hosts
    longest_queue: int  # bytes

    @property
    def end_us(self) -> float:
        return float(self.end_times.max())


def simulate_rings(
    sizes: NDArray[np.int64],
    ready_us: Values,
    workers: int,
    gbit: float,
    startup_us: float = 0.0,
    at_once: int = 1,
    delay_us: float = 0.0,
    includes_additions: bool = True,
    compression: float = 1.0,
) -> RingResult:
    """Simulate all-reduces of buffers in a ring of `workers` at one switch, at most `at_once` at a time.

    `startup_us` precedes each of the 2 · (workers - 1) steps; `delay_us` is the delay of each cable.
    `includes_additions` adds the time of additions, which are of uncompressed gradients.
    """
    if not MIN_LINK_GBIT <= gbit <= MAX_LINK_GBIT:
        raise DenseError(f"expected links of {MIN_LINK_GBIT:g} to {MAX_LINK_GBIT:g} Gbit/s, got {gbit:g}")
    part_bytes = np.ceil(sizes / (workers * compression)).astype(np.int64)
    add_us = addition_us(sizes / workers) * includes_additions
    ring_state = _make_rings(part_bytes, add_us, ready_us, workers, gbit, delay_us)
    run_rings(ring_state, PAYLOAD, round(startup_us * 1e3), at_once)
    links = (ring_state.up, ring_state.down)
    return RingResult(
        ring_state.end_times.max(axis=1) / 1e3,
        int(ring_state.up.frames.sum()),
        int(max(link.longest_queue.max() for link in links)),
    )


def _make_rings(
    part_bytes: NDArray[np.int64],
    add_us: Values,
    ready_us: Values,
    workers: int,
    gbit: float,
    delay_us: float,
) -> Rings:
    link_settings = LinkSettings(rate_mbit=gbit * 1e3, delay_us=delay_us, queue_kb=_QUEUE_KB)
    # Frames on a host's two cables, and some in queues.
    frames_in_flight = _MIN_FRAMES_PER_HOST + int(2 * delay_us * gbit * 1e3 / 8 / MTU)
    frame_count, buffers = workers * frames_in_flight, len(part_bytes)
    header = one_record(NetworkHeader)
    header.free = frame_count
    shape = (buffers, workers)
    return Rings(
        header=header,
        # Room for two events per frame, one READY or DUE per buffer and host, and a few per host.
        heap=records(2 * frame_count + (buffers + 4) * workers, ScheduledEvent),
        frames=records(frame_count, FrameState),
        free=np.arange(frame_count),
        up=links_of(link_settings, workers),
        down=links_of(link_settings, workers),
        ready_times=np.rint(ready_us * 1e3).astype(np.int64),
        part_bytes=part_bytes,
        add_times=np.rint(add_us * 1e3).astype(np.int64),
        **{
            name: np.zeros(shape, np.int64)
            for name in ("due_frames", "sent_frames", "received_frames", "end_times")
        },
        **{name: np.zeros(workers, np.int64) for name in ("begun_buffers", "active_buffers", "is_sending")},
        last_buffer=np.full(workers, buffers - 1),
    )


class FormulaComparison(Strict):
    """The end of the last all-reduce by formula and by frames, in ms since backward began."""

    model: str
    workers: int
    formula_ms: float
    """End with fully used links, as in [BOTTLENECK]."""
    with_headers_ms: float
    """End if `GOODPUT_SHARE` of the bandwidth is used."""
    packets_ms: float
    frames: int
    longest_queue: int  # bytes

    @property
    def deviation(self) -> float:
        return self.packets_ms / self.with_headers_ms - 1


def compare_with_formula(
    model: DenseModel, network: DenseNetwork, fusion: Fusion, workers: Sequence[int] = WORKERS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[FormulaComparison]:  # fmt: skip
    sizes, ready_times = fuse(model.layers, fusion)
    comparisons = []
    for done, worker_count in enumerate(workers):
        progress(done, len(workers))
        ring = network.model_copy(update={"workers": worker_count, "aggregation": "ring", "per_machine": 1})
        formula_ms, with_headers_ms = (
            float(last_end_us(sizes, ready_times, ring.model_copy(update={"utilisation": share}))) / 1e3
            for share in (1.0, GOODPUT_SHARE)
        )
        result = simulate_rings(
            sizes,
            ready_times,
            worker_count,
            network.gbit,
            network.startup_us,
            compression=network.compression,
        )
        comparisons.append(
            FormulaComparison(
                model=model.label,
                workers=worker_count,
                formula_ms=formula_ms,
                with_headers_ms=with_headers_ms,
                packets_ms=result.end_us / 1e3,
                frames=result.frames,
                longest_queue=result.longest_queue,
            )
        )
    return comparisons


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The end of a schedule's last all-reduce by the α-β model and by frames, in ms since backward began."""

    schedule: GradientSchedule
    model_ms: float
    packets_ms: float

    @property
    def deviation(self) -> float:
        return self.packets_ms / self.model_ms - 1


def compare_with_model(
    model: DenseModel, network: AlphaBetaModel, schedules: Sequence[GradientSchedule]
) -> list[ModelComparison]:
    gbit, startup_us = link_of(network)
    comparisons = []
    for schedule in schedules:
        timing = simulate(model.layers, network, schedule)
        result = simulate_rings(
            timing.sizes,
            timing.ready_times,
            NODES,
            gbit,
            startup_us,
            schedule.at_once,
            includes_additions=False,
        )
        comparisons.append(ModelComparison(schedule, timing.end_us / 1e3, result.end_us / 1e3))
    return comparisons


def link_of(network: AlphaBetaModel) -> tuple[float, float]:
    """Return the Gbit/s, and the µs before each step, of a ring of `NODES` that takes α + β·s."""
    steps = 2 * (NODES - 1)
    return 8 * steps / NODES / network.beta_ns / GOODPUT_SHARE, network.alpha_us / steps
