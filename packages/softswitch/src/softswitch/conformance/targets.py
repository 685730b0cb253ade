"""Functions that open a target for one program, by the target's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from softswitch.compiled import CompiledPipeline
from softswitch.conformance import bmv2
from softswitch.conformance.direct import DirectPipeline
from softswitch.conformance.errors import Unsupported
from softswitch.conformance.target import ConformanceTarget
from softswitch.errors import KernelError, UnsupportedConstruct
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.load import load_program
from softswitch.p4runtime.messages import p4r

Opener = Callable[[p4r.ForwardingPipelineConfig], AbstractContextManager[ConformanceTarget]]
"""Opens a target with a program; raises Unsupported or SwitchError if the target does not accept it."""


def _in_process_opener(make_target: Callable[[Program], ConformanceTarget]) -> Opener:
    @contextmanager
    def open_target(config: p4r.ForwardingPipelineConfig) -> Iterator[ConformanceTarget]:
        try:
            target = make_target(load_program(config.p4_device_config))
        except (KernelError, UnsupportedConstruct) as error:
            raise Unsupported(str(error)) from error
        try:
            yield target
        finally:
            if isinstance(target, DirectPipeline):
                target.close()

    return open_target


TARGETS: dict[str, Opener] = {
    "interpreter": _in_process_opener(InterpretedPipeline),
    "compiled": _in_process_opener(CompiledPipeline),
    "kernel": _in_process_opener(DirectPipeline),  # without network interfaces
    "bmv2": bmv2.open_bmv2,
}
