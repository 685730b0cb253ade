"""The bench's frames do what they claim, in the packet function itself, and its goals are judged rightly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import cast

import pytest

from softswitch.errors import SwitchEnded
from softswitch.network import Network
from switch_bench import plain, switches
from switch_bench.baseline import C_LOOP
from switch_bench.calls import install_program, ns_per_packet
from switch_bench.errors import BenchError
from switch_bench.measure import ThroughputTest
from switch_bench.processes import Cores
from switch_bench.results import FROM_JSON, Result, at_least, at_most
from switch_bench.scale import QUICK
from switch_bench.sections import compiler as compiler_section
from switch_bench.sections import load as load_section
from switch_bench.sections import networks as networks_section
from switch_bench.sections.forwarding import forwarding
from switch_bench.stage import Stage
from switch_bench.switches import BMV2, KERNEL, MAX_BURSTS, SOFTSWITCH
from switch_bench.traffic import UNLIMITED_BURST, Generator, Trial, pace
from switch_bench.workload import INGRESS, Setup, Workload
from switch_harness.bench import ModelGenerator, check_frames, model_stage
from switch_harness.wording import mentions

BENCH = Path(__file__).parents[3] / "bench"
CASES: dict[str, Callable[[], tuple[Setup, Workload]]] = {
    "l3": lambda: (plain.l3_setup(8), plain.l3(8)),
    "wire": lambda: (plain.wire_setup(), plain.l3(2)),
}
"""Made by the test that wants one: to collect tests takes long enough."""


@pytest.mark.parametrize("case", CASES)
def test_every_frame_leaves_by_the_port_in_its_header_with_its_stamp(case: str) -> None:
    check_frames(*CASES[case](), 14)


def test_routes_have_the_requested_number_and_all_match() -> None:
    setup, prefixes = plain.routes(1000)
    assert len(setup.updates) == len(set(prefixes.tolist())) == 1000
    pipeline = install_program(setup)
    for prefix in prefixes.tolist():
        address = ".".join(map(str, prefix.to_bytes(4, "big")))
        assert len(pipeline.process(INGRESS, plain.frame_to("10.0.0.1", address), 0, 3)) == 1


def test_a_measurement_of_frames_that_are_dropped_is_refused() -> None:
    with pytest.raises(BenchError, match=mentions(0, 10)):
        ns_per_packet(install_program(Setup(plain.L3, [])), plain.l3(), 10)


def test_ratios_are_of_pairs_and_goals_of_medians() -> None:
    line = Result("s", "w", "packets/s", {SOFTSWITCH: [10, 30, 20], BMV2: [1, 10, 1], C_LOOP: [20, 40, 40]})
    assert line.value(SOFTSWITCH) == 20
    assert line.ratio(BMV2) == 10  # of 10, 3 and 20
    assert [line.is_met(goal) for goal in (at_least(10, BMV2), at_least(11, BMV2))] == [True, False]
    assert [line.is_met(goal) for goal in (at_most(20), at_most(19))] == [True, False]
    assert Result("s", "w", "ns", {SOFTSWITCH: [1]}).is_met(at_least(1, BMV2)) is None


# ---- what the lines of the table are of


def test_latency_is_reported_with_the_rate_of_its_measurement() -> None:
    results = {result.what: result for result in forwarding(model_stage(SOFTSWITCH))}
    l3 = "L3 forwarding, 128 B"
    rate = results[l3].value(SOFTSWITCH)
    assert rate is not None and 58_000 <= rate <= 60_000
    reported = {
        what: result.value(SOFTSWITCH) for what, result in results.items() if what.startswith(f"{l3}: ")
    }
    assert reported == {
        f"{l3}: p50 at 1,000/s": 1_049.5,
        f"{l3}: p99 at 1,000/s": pytest.approx(1_098.01),
        f"{l3}: p50 at 5,000/s": 5_049.5,
        f"{l3}: p99 at 5,000/s": pytest.approx(5_098.01),
        f"{l3}: p50 at 10 % of its own capacity": pytest.approx(rate / 10 + 49.5),
        f"{l3}: p99 at 10 % of its own capacity": pytest.approx(rate / 10 + 98.01),
    }
    assert {result.unit for what, result in results.items() if ": p" in what} == {"µs"}


def test_only_bmv2_gets_short_bursts() -> None:
    for target, max_burst in ((SOFTSWITCH, UNLIMITED_BURST), (BMV2, MAX_BURSTS[BMV2])):
        ModelGenerator.max_bursts.clear()
        forwarding(model_stage(target))
        assert max_burst in ModelGenerator.max_bursts
        assert set(ModelGenerator.max_bursts) <= {max_burst, UNLIMITED_BURST}  # the C loop has no limit


@pytest.mark.parametrize("max_burst", [1, 16])
def test_a_generator_that_was_late_catches_up_with_few_frames_at_once(max_burst: int) -> None:
    """It sleeps for 100 intervals, and then sends all that is due in each step."""
    interval_ns, start, sent = 1000.0, 0, 0
    bursts = []
    for now in (0, 100_000, 100_100, 101_200, 102_300):
        due, lateness = pace.py_func(now - start, interval_ns, sent, max_burst)  # type: ignore[attr-defined]  # numba's
        bursts.append(due - sent)
        start, sent = start + lateness, due
    assert bursts == [1, max_burst, 0, 1, 1]


def test_frames_that_were_lost_are_waited_for_before_the_next_trial() -> None:
    generator = ModelGenerator()
    test = ThroughputTest(cast(Generator, generator), QUICK, SOFTSWITCH)
    for rate, drains in ((60_000, 0), (70_000, 1), (60_000, 1)):
        test.run_paced(rate, 0.001)
        assert generator.drains == drains


def test_an_overloaded_switch_gets_time_before_a_second_trial() -> None:
    class Overloaded(ModelGenerator):
        def run(self, count: int, rate: float, max_burst: int) -> Trial:
            trial = super().run(count, rate, max_burst)
            return trial if self.drains else trial._replace(received=0)

    generator = Overloaded()
    assert ThroughputTest(cast(Generator, generator), QUICK, SOFTSWITCH).run_paced(60_000, 0.001).lost == 0
    assert generator.drains == 1


def test_a_switch_that_carries_nothing_any_more_is_reported_with_its_rate() -> None:
    class Stuck(ModelGenerator):
        workload = "l3"

        def run(self, count: int, rate: float, max_burst: int) -> Trial:
            trial = super().run(count, rate, max_burst)
            return trial if rate <= 5_000 else trial._replace(received=0)

    test = ThroughputTest(cast(Generator, Stuck()), QUICK, SOFTSWITCH)
    with pytest.raises(BenchError, match=mentions("7,500/s", "5,000/s")):
        test.highest_loss_free_rate()


def test_a_load_measurement_names_the_cache_that_the_switch_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch's n-th start takes n seconds, and half of them from the JSON; a cache that it had is named."""
    seen: dict[str, list[str]] = {}

    def first_packet(
        _: Stage, name: str, environment: Mapping[str, str], folder: Path, *of: Setup | Workload
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
        f"{whole}, a program seen before": {SOFTSWITCH: [2.0], KERNEL: [2.0], BMV2: [1.0]},
    }
    given = results["JSON to first packet, a program seen before"]
    assert (given.unit, given.value(KERNEL), given.goals) == ("s", 1.0, (at_most(2),))


def test_starts_from_source_are_compared_with_starts_from_its_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, bool]] = []

    def seconds_until_ready(_stage: Stage, options: Sequence[str], environment: Mapping[str, str]) -> float:
        files = [Path(option) for option in options if not option.startswith("-")]
        seen.append((environment["XDG_CACHE_HOME"], all(file.is_file() for file in files)))
        return 3.0 if files[0].suffix == ".p4" else 2.0

    monkeypatch.setattr(compiler_section, "_seconds_until_ready", seconds_until_ready)
    source = compiler_section.Source(Path(__file__).parents[2] / "programs" / "wire.p4", max_cpu_s=60)
    compiled, ready = compiler_section.measure_compiler(model_stage(), [source])
    assert compiled.is_met(compiled.goals[0]) and compiled.unit == "CPU s"
    assert (ready.ratio(FROM_JSON), ready.is_met(ready.goals[0])) == (1.5, False)
    assert len(seen) == 4 and len(set(seen)) == 1 and seen[0][1]  # each twice, the first to fill the cache


def test_all_frames_cross_the_switches_between_two_hosts_of_the_fat_tree() -> None:
    with networks_section.small_l3() as program, Network() as net:
        networks_section.build_fat_tree(net, program)
        flows = [a.send(a.udp_frame(str(b.ip), 7, b"")) for a, b in permutations(net.hosts, 2)]
        net.run()
        assert [flow.received for flow in flows] == [1] * 16 * 15
        # 1 to the host of the same edge switch, 3 within a pod, and 5 to other pods.
        assert sum(switch.passes for switch in net.switches) == 16 * (1 * 1 + 2 * 3 + 12 * 5)


def test_the_bench_runs_the_bmv2_of_the_environment_variable_or_of_the_path(
    fake_bmv2: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cores = Cores(0, 0, (0,))
    assert {"softswitch", "BMv2"} <= set(switches.switches()) <= {"softswitch", switches.KERNEL, "BMv2"}
    message = r"^the switch ended with code 3: fake: .* -i 1@hb-s1 "
    with pytest.raises(SwitchEnded, match=message), switches.running_process("BMv2", [1], cores):
        raise AssertionError("it runs")
    monkeypatch.delenv("HOTLINE_BMV2")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "BMv2" not in switches.switches()


def test_the_bench_runs_without_the_tests_on_the_path() -> None:
    """In its folder, without anything of tests on the path."""
    command = [sys.executable, "-m", "switch_bench", "--help"]
    done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True)
    assert (done.returncode, "forwarding" in done.stdout) == (0, True), done.stderr
