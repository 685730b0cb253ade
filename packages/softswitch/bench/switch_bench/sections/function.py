"""CPU time of the packet function alone, and how it grows with entries."""

from __future__ import annotations

import numpy as np

from switch_bench import plain
from switch_bench.calls import install_program, ns_per_key, ns_per_packet
from switch_bench.results import Goal, Result
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH
from switch_bench.workload import Setup, Workload

_SEED = 1
_MAC_OFFSET, _MAC_BYTES = 0, 6  # offset and size of the destination in a frame
_IPV4_OFFSET, _IPV4_BYTES = 26, 8  # offset and size of source and destination in a frame


def function(stage: Stage) -> list[Result]:
    return [*programs(stage), *tables(stage)]


def programs(stage: Stage) -> list[Result]:
    return [
        packets(stage, "L3 forwarding", plain.l3_setup(), plain.l3()),
        packets(stage, "no P4 work", plain.wire_setup(), plain.l3()),
    ]


def tables(stage: Stage) -> list[Result]:
    results = [_exact(stage, entries) for entries in stage.scale.table_sizes]
    return results + [_lpm(stage, entries) for entries in stage.scale.table_sizes]


def packets(
    stage: Stage, what: str, setup: Setup, workload: Workload, goals: tuple[Goal, ...] = ()
) -> Result:
    stage.announce(what)
    return packet_function(what, ns_per_packet(install_program(setup), workload, stage.scale.calls), goals)


def _exact(stage: Stage, entries: int) -> Result:
    what = f"one exact table, {entries:,} entries"
    stage.announce(what)
    pipeline = install_program(Setup(plain.L2, list(plain.hosts(entries))))
    host_numbers = np.random.default_rng(_SEED).integers(entries, size=stage.scale.calls)
    return packet_function(
        what,
        ns_per_key(pipeline, plain.l3().frames[0], plain.FIRST_MAC + host_numbers, _MAC_OFFSET, _MAC_BYTES),
    )


def _lpm(stage: Stage, entries: int) -> Result:
    what = f"L3 forwarding, {entries:,} routes of {len(plain.SHORT_LENGTHS) + 1} lengths"
    stage.announce(what)
    setup, prefixes = plain.routes(entries)
    pipeline = install_program(setup)
    addresses = prefixes[np.random.default_rng(_SEED).integers(entries, size=stage.scale.calls)]
    # The source is the complement of the destination, so that all frames have the same header checksum.
    pairs = (~addresses & 0xFFFFFFFF) << 32 | addresses
    frame = plain.frame_to("0.0.0.0", "255.255.255.255")
    return packet_function(
        what, ns_per_key(pipeline, frame, pairs.astype(np.int64), _IPV4_OFFSET, _IPV4_BYTES)
    )


def packet_function(what: str, values: list[float], goals: tuple[Goal, ...] = ()) -> Result:
    """Return the result line of the packet function's CPU times (`values`, ns)."""
    return Result("function", f"packet function, {what}", "ns", {SOFTSWITCH: values}, goals)
