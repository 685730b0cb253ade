"""The targets by name, each opened for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from finsy.proto import p4i

from conformance.errors import Refusal
from softswitch.compiled import CompiledPipeline
from softswitch.errors import UnsupportedConstruct
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.load import load_program
from targets import bmv2
from targets.target import Target

Opener = Callable[[bytes, p4i.P4Info], AbstractContextManager[Target]]
"""Takes BMv2 JSON and its P4Info; raises `Refusal` or `SwitchError` for a program that it does not take."""


def _in_process(pipeline: Callable[[Program], Target]) -> Opener:
    @contextmanager
    def opened(program: bytes, _p4info: p4i.P4Info) -> Iterator[Target]:
        try:
            target = pipeline(load_program(program))
        except UnsupportedConstruct as error:
            raise Refusal(str(error)) from error
        yield target

    return opened


TARGETS: dict[str, Opener] = {
    "interpreter": _in_process(InterpretedPipeline),
    "compiled": _in_process(CompiledPipeline),
    "bmv2": bmv2.running,
}
