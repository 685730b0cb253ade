"""Steps of the Unix clock under the kernel's datapath."""

from __future__ import annotations

import pytest

from softswitch.kernel.front import build_front
from softswitch.kernel.instructions import CALL, decode
from softswitch.kernel.target import KTIME_GET_NS
from softswitch.memory.layout import make_layout
from switch_harness.clocks import STEPS_NS
from switch_harness.constructs import compiled
from switch_harness.stepped_switch import EXPECTED, in_kernel, observe_step

KERNEL_CLOCKS = {
    5: "ktime_get_ns",
    118: "jiffies64",
    125: "ktime_get_boot_ns",
    160: "ktime_get_coarse_ns",
    208: "ktime_get_tai_ns",
}
"""Functions of BPF that read a clock (linux/bpf.h), by number."""


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_entries_meters_and_digests_do_not_notice_a_step(
    monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """The program takes the time from its arena, since no test can set what `ktime_get_ns` returns."""
    assert observe_step(monkeypatch, in_kernel, step_ns) == EXPECTED


@pytest.mark.parametrize("name", ["meters", "entities"])
def test_a_program_reads_the_monotonic_clock_alone(name: str) -> None:
    """`ktime_get_ns` is CLOCK_MONOTONIC, which steps of the Unix clock do not change."""
    program = compiled(name)
    instructions = decode(build_front(program, make_layout(program)).instructions)
    calls = {each.immediate for each in instructions if each.opcode == CALL and each.src == 0}
    assert calls & KERNEL_CLOCKS.keys() == {KTIME_GET_NS}
