"""The same all-reduces as frames through virtual time's links, beside the formula and the α-β model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.settings import Strict
from nativekit.records import records
from simulator.costs import Network as Cables
from simulator.costs import links_of
from simulator.state import EVENT, HEAD_BYTES, ME
from softswitch.queues.fifo import WIRE_OVERHEAD
from studies.dense.catalogue import Model
from studies.dense.errors import DenseError
from studies.dense.fusion import Fusion, fuse
from studies.dense.network import Network, Values, addition_us, reduce_us
from studies.dense.play import Collectives, Plan, play
from studies.dense.wires import WIRE_FRAME, Wires, run_rings

MTU = 1500
_IP_UDP = 28
PAYLOAD = MTU - _IP_UDP
"""Bytes of gradients in a full frame."""
SHARE = PAYLOAD / (PAYLOAD + HEAD_BYTES + WIRE_OVERHEAD)
"""Of what a link carries, with all headers, preamble and gap."""
LOW_WIRE_GBIT, HIGH_WIRE_GBIT = 0.001, 1000.0
"""Of links in virtual time, whose clock ticks in ns."""
WORKERS = (4, 8, 16)
NODES = 8
"""[ASC]'s."""
_QUEUE_KB = 1e6


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of it; µs since backward began."""

    starts: Values
    """[b], at the first host."""
    ends: Values
    """[b], when the last host has the sum."""
    frames: int
    longest_queue: int
    """Bytes before a link."""

    @property
    def end_us(self) -> float:
        """When all gradients are there."""
        return float(self.ends.max())


def carry_rings(
    sizes: NDArray[np.int64],
    ready_us: Values,
    workers: int,
    gbit: float,
    startup_us: float = 0.0,
    at_once: int = 1,
    delay_us: float = 0.0,
    adds: bool = True,
    compression: float = 1.0,
) -> Carried:
    """All-reduces of buffers in a ring of `workers` at one switch, begun as soon as there is room.

    `startup_us` is before each of the 2 · (workers - 1) steps; `delay_us` is of each cable. What was
    compressed is whole again where it is added.
    """
    if not LOW_WIRE_GBIT <= gbit <= HIGH_WIRE_GBIT:
        raise DenseError(
            f"frames are sent on links of {LOW_WIRE_GBIT:g} to {HIGH_WIRE_GBIT:g} Gbit/s, not {gbit:g}"
        )
    parts = np.ceil(sizes / (workers * compression)).astype(np.int64)
    add_us = addition_us(sizes / workers) * adds
    wires = _wires(parts, add_us, ready_us, workers, gbit, delay_us)
    run_rings(wires, PAYLOAD, round(startup_us * 1e3), at_once)
    links = (wires.up, wires.down)
    return Carried(
        wires.starts.min(axis=1) / 1e3,
        wires.ends.max(axis=1) / 1e3,
        int(wires.up.frames.sum()),
        int(max(link.longest.max() for link in links)),
    )


def _wires(
    parts: NDArray[np.int64], add_us: Values, ready_us: Values, workers: int, gbit: float, delay_us: float
) -> Wires:
    cables = Cables(rate_mbit=gbit * 1e3, delay_us=delay_us, queue_kb=_QUEUE_KB)
    on_the_way = 16 + int(2 * delay_us * gbit * 1e3 / 8 / MTU)
    count, buffers = workers * on_the_way, len(parts)
    me = records(1, ME)[0]
    me.free = count
    per_host = (buffers, workers)
    return Wires(
        me=me,
        heap=records(2 * count + (buffers + 4) * workers, EVENT),
        frames=records(count, WIRE_FRAME),
        free=np.arange(count),
        up=links_of(cables, workers),
        down=links_of(cables, workers),
        ready=np.rint(ready_us * 1e3).astype(np.int64),
        parts=parts,
        add=np.rint(add_us * 1e3).astype(np.int64),
        **{name: np.zeros(per_host, np.int64) for name in ("due", "sent", "got", "starts", "ends")},
        **{name: np.zeros(workers, np.int64) for name in ("begun", "under_way", "busy")},
        turn=np.full(workers, buffers - 1),
    )


class Beside(Strict):
    """Formula and packets: when the last all-reduce ends, ms since backward began."""

    model: str
    workers: int
    formula_ms: float
    """With links that are used fully, as [BOTTLENECK] has it."""
    with_headers_ms: float
    """With the share of a link that frames leave for gradients."""
    packets_ms: float
    frames: int
    longest_queue: int

    @property
    def apart(self) -> float:
        """Packets against the formula with headers."""
        return self.packets_ms / self.with_headers_ms - 1


def beside_formula(
    model: Model, network: Network, fusion: Fusion, workers: Sequence[int] = WORKERS,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> list[Beside]:  # fmt: skip
    """A model's buffers in rings of so many workers, on links that are used fully."""
    sizes, ready = fuse(model.layers, fusion)
    found = []
    for done, n in enumerate(workers):
        step(done, len(workers))
        ring = network.model_copy(update={"workers": n, "aggregation": "ring", "utilisation": 1.0})
        carried = carry_rings(
            sizes, ready, n, network.gbit, network.startup_us, compression=network.compression
        )
        found.append(
            Beside(
                model=model.shown,
                workers=n,
                formula_ms=_formula_ms(sizes, ready, ring),
                with_headers_ms=_formula_ms(sizes, ready, ring.model_copy(update={"utilisation": SHARE})),
                packets_ms=carried.end_us / 1e3,
                frames=carried.frames,
                longest_queue=carried.longest_queue,
            )
        )
    return found


def _formula_ms(sizes: NDArray[np.int64], ready: Values, network: Network) -> float:
    end = 0.0
    for size, at in zip(sizes, ready, strict=True):
        end = max(end, float(at)) + float(reduce_us(network, size))
    return end / 1e3


@dataclass(frozen=True, slots=True)
class Contended:
    """A plan by the α-β model and by packets, ms until all gradients are there."""

    plan: Plan
    model_ms: float
    packets_ms: float

    @property
    def apart(self) -> float:
        """Packets against the model."""
        return self.packets_ms / self.model_ms - 1


def beside_model(model: Model, network: Collectives, plans: Sequence[Plan]) -> list[Contended]:
    """Plans on links where an all-reduce alone takes α + β·s; what sharing does emerges."""
    gbit, startup_us = cables_of(network)
    found = []
    for plan in plans:
        played = play(model.layers, network, plan)
        carried = carry_rings(played.sizes, played.ready, NODES, gbit, startup_us, plan.at_once, adds=False)
        found.append(Contended(plan, played.end_us / 1e3, carried.end_us / 1e3))
    return found


def cables_of(network: Collectives, workers: int = NODES) -> tuple[float, float]:
    """(Gbit/s, µs before each step) of a ring whose all-reduce takes α + β·s."""
    steps = 2 * (workers - 1)
    return 8 * steps / workers / network.beta_ns / SHARE, network.alpha_us / steps


def sharing_of(network: Collectives, size: int, at_once: int) -> float:
    """f(k) that packets show: how much longer bytes take for k all-reduces of `size` that begin together."""
    gbit, startup_us = cables_of(network)
    sizes = np.full(at_once, size, np.int64)
    carried = carry_rings(sizes, np.zeros(at_once), NODES, gbit, startup_us, at_once, adds=False)
    return (carried.end_us - network.alpha_us) / (network.beta_us * size)
