"""Which datapath a program gets, and why."""

from __future__ import annotations

import weakref

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import KernelError
from softswitch.kernel import assembler, front, program
from softswitch.kernel.instructions import AssemblyError
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.ports.impairment import Direction, Impairment
from softswitch.settings import Datapath, Settings
from switch_harness.constructs import compiled
from switch_harness.lifetimes import without_collector

CPU = 255
REASON = "LLVM's BPF back end gave up"


@pytest.fixture
def arithmetic_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_module = assembler.compile_module

    def fail(module: str, area_bytes: int) -> tuple[bytes, int]:
        if "i512" in module:
            raise AssemblyError(REASON)
        return compile_module(module, area_bytes)

    monkeypatch.setattr(program, "compile_module", fail)
    monkeypatch.setattr(front, "cached_code", lambda _program, _options, build: build())


@pytest.mark.usefixtures("arithmetic_fails")
def test_auto_decides_for_each_program_anew() -> None:
    with SwitchPorts(Settings()) as ports:
        assert ports.describe_datapath() == "datapath kernel: BPF (tcx) at the ingress of 0 interfaces"
        for name, kind, message in (
            ("arithmetic", CompiledPipeline, f"datapath sockets: {REASON}"),
            ("value_sets", AttachedPipeline, "datapath kernel: BPF (tcx) at the ingress of 0 interfaces"),
        ):
            pipeline = ports.make(compiled(name))
            assert isinstance(pipeline, kind)
            ports.start(pipeline)
            assert ports.describe_datapath() == message
            assert ports.counters().datapath == ports.datapath.value
            ports.stop()


@pytest.mark.usefixtures("arithmetic_fails")
def test_a_pipeline_on_sockets_is_freed_when_the_kernel_runs_the_next_pipeline() -> None:
    with SwitchPorts(Settings()) as ports, without_collector():
        pipelines = [ports.make(compiled(name)) for name in ("arithmetic", "value_sets")]
        on_sockets, in_kernel = map(weakref.ref, pipelines)
        while pipelines:
            ports.start(pipelines.pop(0))
            ports.stop()
        assert (on_sockets(), in_kernel()) == (None, None)


@pytest.mark.usefixtures("arithmetic_fails")
def test_a_program_that_bpf_cannot_do_is_refused_by_the_kernel_datapath() -> None:
    with (
        SwitchPorts(Settings(datapath=Datapath.KERNEL)) as ports,
        pytest.raises(KernelError, match=REASON),
    ):
        ports.make(compiled("arithmetic"))


def test_impairments_need_the_sockets_datapath() -> None:
    how = {(CPU, Direction.IN): Impairment(loss=0.5)}
    reason = "only the sockets can impair frames"
    with SwitchPorts(Settings(cpu_port=CPU, impairments=how)) as ports:
        assert ports.describe_datapath() == f"datapath sockets: {reason}"
        assert isinstance(ports.make(compiled("value_sets")), CompiledPipeline)
    with pytest.raises(KernelError, match=reason):
        SwitchPorts(Settings(cpu_port=CPU, impairments=how, datapath=Datapath.KERNEL))
