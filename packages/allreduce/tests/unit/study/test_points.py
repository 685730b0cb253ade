"""Points of the all-reduce comparison against calculations by hand, for small vectors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hotline_allreduce.simulation.measure import AllReduceResult
from hotline_allreduce.study import AllReduceError
from hotline_allreduce.study.breakdown import PARTS, parts_of
from hotline_allreduce.study.memory import memories
from hotline_allreduce.study.plan import (
    FULL,
    QUICK,
    AllReducePlan,
    breakdown_points,
    make_point,
    points_by_size,
    points_of,
)
from hotline_allreduce.study.point import AllReducePoint
from hotline_allreduce.study.schemes import SCHEMES, scheme_of
from switch_harness.wording import mentions

TINY = AllReducePlan(
    workers=(2, 3), values=6_400, lengths=(640,), seeds=1, steps=5, jobs=(1,), shared_values=640, model=None
)
OCTETS = 14 + 20 + 8 + 10 + 4 * 64
"""Bytes of SwitchML's frame: Ethernet, IPv4, UDP, header, 64 values."""
FRAME_NS = int((OCTETS + 24) * 0.8)
"""Time of a frame with preamble, checksum and gap, at 10 Gbit/s."""
CHUNKS, BATCH = 100, 64
"""Packets of 6,400 values, and of the first batch, which has exponents only."""


def of(name: str, **changes: object) -> AllReducePoint:
    return make_point(TINY, scheme_of(name), 10.0, **{"workers": 2, **changes})


def with_few_workers(
    name: str, gbit: float, workers: int
) -> tuple[dict[str, AllReducePoint], dict[str, AllReduceResult]]:
    points = {
        part: point.model_copy(update={"workers": workers})
        for part, point in breakdown_points(TINY, scheme_of(name), gbit).items()
    }
    return points, {part: point.run() for part, point in points.items()}


def test_octets_and_goodput_of_switchml_equal_a_calculation_by_hand() -> None:
    """Each packet goes up once and its sum comes down once; cables and switch have no delay."""
    found = of("switchml", has_latency=False).run()
    packets = CHUNKS + BATCH
    assert OCTETS / 64 == 4.8125
    assert found.worker_up == found.worker_down == packets * OCTETS / found.values
    assert found.server_up == found.server_down == 0
    assert found.limit_s == pytest.approx(packets * FRAME_NS / 1e9)
    assert found.payload_limit_s == pytest.approx(6_400 * 4 * 0.8 / 1e9)
    # The last sum follows the last packet by a frame, and by 1 ns of the switch and of each host.
    assert 0 < found.seconds - found.limit_s - FRAME_NS / 1e9 < 10e-9
    assert found.values_per_s == 6_400 / found.seconds
    assert found.frames == 2 * 2 * packets


def test_a_check_costs_no_byte_and_no_time() -> None:
    assert of("switchml").run() == of("switchml-checked").run()


def test_packets_that_find_no_free_cell_go_to_the_server() -> None:
    """104 packets of 62 values go up once; the server gets each sum, or each packet of both workers."""
    free, full = (of("atp", occupied=share).run() for share in (0.0, 1.0))
    assert free.worker_up == free.server_down == free.server_up == 104 * 316 / free.values
    assert full.server_down == 2 * full.worker_up == 2 * full.server_up
    assert [of("switchml", occupied=share).run().window for share in (0.0, 0.5, 0.75)] == [64, 32, 16]


@pytest.mark.parametrize("name", [each.name for each in SCHEMES])
def test_parts_add_up_to_the_whole(name: str) -> None:
    points, runs = with_few_workers(name, 10.0, 4)
    found = parts_of(points["latency"], runs)
    assert list(found) == list(PARTS) and sum(found.values()) == pytest.approx(runs["loss"].seconds)
    assert sum(list(found.values())[:5]) == pytest.approx(runs["latency"].seconds)
    assert found["values"] == runs["latency"].payload_limit_s
    assert min(found[part] for part in PARTS[:-1]) >= 0
    trip_us = 3 if name.startswith("switchml") else 6
    # Of a ring the last acknowledgements come while others fill up.
    assert 0.9 * trip_us < found["a round trip"] * 1e6 < trip_us + 1e-6
    # 100 packets of 5.5 µs, or more of them.
    assert found["hosts"] > 100e-6 / 4


def test_latency_that_a_full_window_cannot_hide_is_attributed_to_the_window() -> None:
    """At 100 Gbit/s, 64 packets of 64 values leave in less than a round trip, so the sender waits."""
    points, runs = with_few_workers("switchml", 100.0, 2)
    found = parts_of(points["latency"], runs)
    assert found["the window"] > 1e-6


def test_the_number_of_servers_follows_from_the_number_of_workers() -> None:
    [one] = [each for each in SCHEMES if each.workers_per_server == 4]
    assert [one.server_count(workers) for workers in (2, 4, 5, 32)] == [1, 1, 2, 8]
    assert [scheme_of("psdense").server_count(workers) for workers in (2, 32)] == [2, 32]
    assert scheme_of("ring").server_count(32) == 1
    with pytest.raises(AllReduceError, match=mentions("rong", "switchml-checked")):
        scheme_of("rong")


def test_packet_sizes_are_the_sizes_that_a_design_accepts() -> None:
    sizes = {each.name: [point.chunk_size for point in points_by_size(FULL, each, 10.0)] for each in SCHEMES}
    assert sizes["switchml"] == [64] and sizes["ring"] == [64, 128, 256, 360]
    with pytest.raises(ValueError, match=mentions(64, 256)):
        of("switchml", chunk_size=256).run()


def test_memory_is_counted_from_the_registers_of_the_compiled_programs() -> None:
    found = {each.arm: each for each in memories()}
    published, checked, hot = (found[name] for name in ("switchml", "switchml-checked", "offload"))
    # 8,192 slots in two sets; of each a byte that counts, two of exponents, and of a slot 8 of bits.
    assert (published.slots, published.value_bytes) == (16_384, 16_384 * 256)
    assert published.other_bytes == 16_384 * (1 + 2) + 8_192 * 8
    assert checked.bytes - published.bytes == 16_384 * 4
    assert (hot.slots, hot.values, hot.value_bytes) == (32 * 4_096, 4, 32 * 4_096 * 16)
    assert hot.other_bytes == 524_288 * 12
    assert [found[name].bytes for name in ("none", "psdense", "ring")] == [0, 0, 0]


def test_the_page_has_the_memory_of_the_compiled_programs() -> None:
    page = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    (sentence,) = re.findall(r"Registers in kB: .*? the others 0\.", page.replace(",", ""))
    shown = {name: int(number) for name, number in re.findall(r"`([\w-]+)` (\d+)\b", sentence)}
    found = {each.arm: each for each in memories() if each.bytes}
    assert shown == {name: pytest.approx(each.bytes / 1_000, abs=0.5) for name, each in found.items()}
    (values,) = re.findall(r"\((\d+) of values", sentence)
    assert int(values) == pytest.approx(found["offload"].value_bytes / 1_000, abs=0.5)


@pytest.mark.parametrize("plan", [QUICK, FULL], ids=["quick", "full"])
def test_points_are_done_once_and_the_longest_first(plan: AllReducePlan) -> None:
    points = points_of(plan)
    assert len({point.model_dump_json() for point in points}) == len(points)
    assert [point.cost for point in points] == sorted((point.cost for point in points), reverse=True)
    assert len({point.name for point in points}) == len(points)
