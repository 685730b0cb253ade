"""The bench's frames do what they claim, in the packet function itself, and its goals are judged rightly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tools.bench import hotline, plain
from tools.bench.baseline import C_LOOP
from tools.bench.calls import installed, ns_a_packet
from tools.bench.errors import BenchError
from tools.bench.processes import Cores
from tools.bench.results import Result, at_least, at_most
from tools.bench.scale import QUICK
from tools.bench.sections import load as load_section
from tools.bench.sections.forwarding import forwarding
from tools.bench.stage import Stage
from tools.bench.switches import BMV2, KERNEL, SOFTSWITCH
from tools.bench.traffic import Trial
from tools.bench.workload import FIRST_SEQ, INGRESS, Setup, Workload

CASES: dict[str, Callable[[], tuple[Setup, Workload]]] = {
    "hit": lambda: (hotline.setup(entries=64), hotline.hot()),
    "8 lanes hit": lambda: (hotline.setup(entries=64), hotline.hot(live=8)),
    "cold": lambda: (hotline.setup_of_cold(), hotline.cold()),
    "l3": lambda: (plain.l3_setup(8), plain.l3(8)),
    "wire": lambda: (plain.wire_setup(), plain.l3(2)),
}
"""Made by the test that wants one: to collect tests takes long enough."""


def stamped(workload: Workload, k: int) -> bytes:
    frame = bytearray(workload.frames[k])
    for offset, size, value in (
        (workload.stamp.run, 4, 3),
        (workload.stamp.seq, 4, FIRST_SEQ + k),
        (workload.stamp.t0, 8, 1 << 60 | k),
    ):
        frame[offset : offset + size] = value.to_bytes(size, "big")
    return bytes(frame)


def number(frame: bytes, offset: int, size: int) -> int:
    return int.from_bytes(frame[offset : offset + size], "big")


@pytest.mark.parametrize("case", CASES)
def test_every_frame_leaves_by_the_port_that_it_names_with_its_stamp(case: str) -> None:
    setup, workload = CASES[case]()
    pipeline = installed(setup)
    egress = set()
    for k in range(2 if setup.program is hotline.PROGRAM else 14):  # the entries are of the first slots
        (output,) = pipeline.process(INGRESS, stamped(workload, k), 0, 3)
        stamp = workload.stamp
        assert output.port == number(output.frame, stamp.egress, 2)
        assert number(output.frame, stamp.run, 4) == 3
        assert number(output.frame, stamp.seq, 4) == FIRST_SEQ + k
        assert number(output.frame, stamp.t0, 8) == 1 << 60 | k
        egress.add(output.port)
    assert egress == set(workload.egress)


def test_hit_frames_are_answered_and_cold_ones_pass() -> None:
    hit, cold = (
        installed(setup).process(INGRESS, stamped(workload, 0), 0, 3)[0]
        for setup, workload in (
            (hotline.setup(entries=64), hotline.hot()),
            (hotline.setup_of_cold(), hotline.cold()),
        )
    )
    assert (len(hit.frame), len(cold.frame)) == (98, 482)


def test_routes_are_as_many_as_asked_for_and_all_match() -> None:
    setup, prefixes = plain.routes(1000)
    assert len(setup.updates) == len(set(prefixes.tolist())) == 1000
    pipeline = installed(setup)
    for prefix in prefixes.tolist():
        address = ".".join(map(str, prefix.to_bytes(4, "big")))
        assert len(pipeline.process(INGRESS, plain.frame_to("10.0.0.1", address), 0, 3)) == 1


def test_a_measurement_of_frames_that_are_dropped_is_refused() -> None:
    with pytest.raises(BenchError, match="0 of 10 frames came out"):
        ns_a_packet(installed(Setup(plain.L3, [])), plain.l3(), 10)


def test_ratios_are_of_pairs_and_goals_of_medians() -> None:
    line = Result("s", "w", "packets/s", {SOFTSWITCH: [10, 30, 20], BMV2: [1, 10, 1], C_LOOP: [20, 40, 40]})
    assert line.value(SOFTSWITCH) == 20
    assert line.ratio(BMV2) == 10  # of 10, 3 and 20
    assert [line.is_met(goal) for goal in (at_least(10, BMV2), at_least(11, BMV2))] == [True, False]
    assert [line.is_met(goal) for goal in (at_most(20), at_most(19))] == [True, False]
    assert Result("s", "w", "ns", {SOFTSWITCH: [1]}).is_met(at_least(1, BMV2)) is None


# ---- what the lines of the table are of


class ModelGenerator:
    """Of a target that carries 60,000 frames/s; one takes 0, 1, ... 99 µs more than 1 µs for each frame/s."""

    loaded = ""

    def load(self, workload: Workload) -> None:
        self.loaded = workload.name

    def run(self, count: int, rate: float) -> Trial:
        carried = count if rate <= 60_000 else count - 1
        return Trial(count, carried, 0, rate, rate + np.arange(100.0))


@dataclass(frozen=True)
class ModelStage(Stage):
    """Without a network; the switches are those that it is told of."""

    targets: Sequence[str]

    def switches(self) -> list[str]:
        return list(self.targets)

    @contextmanager
    def traffic(self, ports: int) -> Iterator[Any]:
        yield ModelGenerator()

    @contextmanager
    def target(self, name: str, ports: int, setup: Setup, workload: Workload) -> Iterator[int]:
        yield 1


def model_stage(*targets: str) -> ModelStage:
    scale = QUICK._replace(trial_seconds=0.001)
    return ModelStage(Cores(0, 1, (0, 1)), scale, Random(1), lambda _: None, targets)


def test_latency_is_told_of_the_rate_at_which_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.bench.measure.time.sleep", lambda _: None)
    results = {result.what: result for result in forwarding(model_stage(SOFTSWITCH))}
    hit = "our program, 32 lanes hit"
    rate = results[hit].value(SOFTSWITCH)
    assert rate is not None and 58_000 <= rate <= 60_000
    told = {what: result.value(SOFTSWITCH) for what, result in results.items() if what.startswith(f"{hit}: ")}
    assert told == {
        f"{hit}: p50 at 1,000/s": 1_049.5,
        f"{hit}: p99 at 1,000/s": pytest.approx(1_098.01),
        f"{hit}: p50 at 5,000/s": 5_049.5,
        f"{hit}: p99 at 5,000/s": pytest.approx(5_098.01),
        f"{hit}: p50 at 10 % of its own capacity": pytest.approx(rate / 10 + 49.5),
        f"{hit}: p99 at 10 % of its own capacity": pytest.approx(rate / 10 + 98.01),
    }
    assert {result.unit for what, result in results.items() if ": p" in what} == {"µs"}


def test_a_load_is_told_of_what_was_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch's n-th start takes n seconds, and half of them from the JSON; a cache that it had is named."""
    seen: dict[str, list[str]] = {}

    def first_packet(
        _: Stage, name: str, environment: Mapping[str, str], folder: Path
    ) -> tuple[float, float]:
        cache = environment.get("XDG_CACHE_HOME", "")
        seen.setdefault(name, []).append(cache)
        return float(len(seen[name])), len(seen[name]) / 2

    monkeypatch.setattr(load_section, "first_packet", first_packet)
    results = {result.what: result for result in load_section.load(model_stage(SOFTSWITCH, KERNEL, BMV2))}
    nothing, again, unseen = seen[SOFTSWITCH]
    assert nothing == again != unseen
    assert seen[KERNEL] == [unseen, unseen]
    whole = "process start to first packet"
    assert {what: result.samples for what, result in results.items() if what.startswith(whole)} == {
        f"{whole}, nothing cached": {SOFTSWITCH: [1.0]},
        f"{whole}, a program not seen before": {SOFTSWITCH: [3.0], KERNEL: [1.0]},
        f"{whole}, again": {SOFTSWITCH: [2.0], KERNEL: [2.0], BMV2: [1.0]},
    }
    given = results["JSON to first packet, again"]
    assert (given.unit, given.value(KERNEL), given.goals) == ("s", 1.0, (at_most(2),))
