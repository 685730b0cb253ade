"""CPU of the program in the kernel: the configured one, or those of the senders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from softswitch.errors import PortError
from softswitch.kernel import steering
from softswitch.kernel.pins import Pins
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from switch_harness.constructs import compiled
from switch_harness.net import CPU, Net, frame, namespace
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions

pytestmark = pytest.mark.netns
FRAMES = 200
CPUS = sorted(os.sched_getaffinity(0))[:2]
RECEIVED_RPS = 9
"""Column of /proc/net/softnet_stat: number of inter-processor interrupts that announced frames to a CPU."""


@pytest.fixture(autouse=True)
def two_cpus_and_a_program_in_the_kernel(kernel_datapath: None) -> None:
    if len(CPUS) < 2:
        pytest.skip("on one CPU there is no other place")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Enter a network namespace with its own sysfs, and move this thread to the second CPU."""
    before = os.sched_getaffinity(0)
    shown = tmp_path / "sys"
    shown.mkdir()
    with namespace(), ExitStack() as opened:
        subprocess.run(["mount", "-t", "sysfs", "none", str(shown)], check=True)
        opened.callback(subprocess.run, ["umount", str(shown)], check=True)
        monkeypatch.setattr(steering, "INTERFACES", shown / "class" / "net")
        os.sched_setaffinity(0, {CPUS[1]})
        opened.callback(os.sched_setaffinity, 0, before)
        yield opened


def masks(net: Net) -> list[int]:
    files = [steering.INTERFACES / name / "queues" / "rx-0" / "rps_cpus" for name in net.names.values()]
    return [int(file.read_text().replace(",", ""), 16) for file in files]


def reported(cpu: int) -> int:
    """Return how often another CPU announced frames to this one."""
    lines = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
    return {int(line[12], 16): int(line[RECEIVED_RPS], 16) for line in lines}[cpu]


@contextmanager
def running(net: Net, cpu: int | None, pins: Pins | None = None) -> Iterator[KernelPorts]:
    program = compiled("l2")
    with (
        closing(AttachedPipeline(program)) as pipeline,
        KernelPorts(net.names, CPU, pins=pins, rps_cpu=cpu) as ports,
    ):
        ports.start(pipeline)
        yield ports


def ran(ports: KernelPorts, port: int) -> dict[int, int]:
    """Return CPU -> frames of a port."""
    runs = ports.counters().ports[port].program_runs
    return {cpu: frames for cpu, frames in enumerate(runs) if frames}


def send(net: Net, ports: KernelPorts) -> None:
    before = ports.counters().ports[1].rx
    for _ in range(FRAMES):
        net.hosts[1].send(frame())
    wait_for(lambda: ports.counters().ports[1].rx == before + FRAMES)


def test_the_program_runs_on_its_cpu_and_else_on_its_senders(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    here, there = CPUS[1], CPUS[0]
    with running(net, None) as ports:
        send(net, ports)
        assert ran(ports, 1) == {here: FRAMES} and ran(ports, 2) == {}
        before_ns = ports.counters().ports[1].program_ns
        assert before_ns > 0
    before = reported(there)
    with running(net, there) as ports:
        assert masks(net) == [1 << there] * 2
        send(net, ports)
        assert ran(ports, 1) == {there: FRAMES}
        assert ports.counters().ports[1].program_ns > 0
        # An interrupt may announce several frames, also of other processes.
        assert reported(there) > before
        ports.cpu_socket.settimeout(PATIENCE_S)
        ports.cpu_socket.send(frame())
        wait_for(lambda: ran(ports, CPU) == {there: 1})
        # What was counted under one program is there under the next.
        ports.stop()
        with closing(AttachedPipeline(compiled("l2"))) as other:
            ports.start(other)
            send(net, ports)
            assert ran(ports, 1) == {there: 2 * FRAMES}
            ports.stop()
    assert masks(net) == [0, 0]


def test_a_pinned_pipeline_stays_steered_until_the_next_switch_changes_the_cpu(
    stack: ExitStack, tmp_path: Path
) -> None:
    net = Net(stack, range(1, 3))
    pins = Pins(tmp_path / "pins")
    for cpu, mask in ((CPUS[0], 1 << CPUS[0]), (CPUS[1], 1 << CPUS[1]), (None, 0), (CPUS[0], 1 << CPUS[0])):
        KernelPorts(net.names, None, pins=pins, rps_cpu=cpu).close()
        assert masks(net) == [mask] * 2
    pins.remove()
    assert masks(net) == [0, 0]


def test_interfaces_that_sysfs_does_not_show_are_named(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(stack, range(1, 3))
    with (
        pytest.raises(PortError, match=mentions("--rps-cpu", 0, "s1/queues")),
        monkeypatch.context() as patch,
    ):
        patch.setattr(steering, "INTERFACES", Path("/sys/class/net"))
        KernelPorts(net.names, rps_cpu=0)
    assert masks(net) == [0, 0]
