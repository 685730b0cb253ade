"""The bench's frames of the hotset program, and the lines of its results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switch_bench.calls import install_program
from switch_bench.switches import SOFTSWITCH
from switch_bench.workload import INGRESS, Setup, Workload
from switch_harness.bench import check_frames, model_stage, stamped
from tools.bench import hotline
from tools.bench.sections.switch import forwarding

CASES: dict[str, Callable[[], tuple[Setup, Workload]]] = {
    "hit": lambda: (hotline.setup(entries=64), hotline.hot_pushes()),
    "8 lanes hit": lambda: (hotline.setup(entries=64), hotline.hot_pushes(live=8)),
    "cold": lambda: (hotline.setup_without_hot_entries(), hotline.cold_pushes()),
}
"""Built on demand, so that collection stays fast."""


@pytest.mark.parametrize("case", CASES)
def test_every_frame_leaves_by_the_port_in_its_header_with_its_stamp(case: str) -> None:
    check_frames(*CASES[case](), 2)  # the entries are of the first slots


def test_frames_that_hit_are_answered_and_cold_frames_pass() -> None:
    hit, cold = (
        install_program(setup).process(INGRESS, stamped(workload, 0), 0, 3)[0]
        for setup, workload in (
            (hotline.setup(entries=64), hotline.hot_pushes()),
            (hotline.setup_without_hot_entries(), hotline.cold_pushes()),
        )
    )
    assert (len(hit.frame), len(cold.frame)) == (98, 482)


def test_latencies_name_their_rate() -> None:
    results = {result.what: result for result in forwarding(model_stage(SOFTSWITCH))}
    hit = "our program, 32 lanes hit"
    rate = results[hit].value(SOFTSWITCH)
    assert rate is not None and 58_000 <= rate <= 60_000
    reported = {
        what: result.value(SOFTSWITCH) for what, result in results.items() if what.startswith(f"{hit}: ")
    }
    assert reported == {
        f"{hit}: p50 at 1,000/s": 1_049.5,
        f"{hit}: p99 at 1,000/s": pytest.approx(1_098.01),
        f"{hit}: p50 at 5,000/s": 5_049.5,
        f"{hit}: p99 at 5,000/s": pytest.approx(5_098.01),
        f"{hit}: p50 at 10 % of its own capacity": pytest.approx(rate / 10 + 49.5),
        f"{hit}: p99 at 10 % of its own capacity": pytest.approx(rate / 10 + 98.01),
    }
    assert {result.unit for what, result in results.items() if ": p" in what} == {"µs"}
