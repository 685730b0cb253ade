"""A program under test, with its entries, its clock and the trace of its last frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from softswitch import ir
from softswitch.commands.console import Console
from softswitch.errors import SwitchError
from softswitch.explain.tree import draw, make_tree
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir.names import find_by_end
from softswitch.p4runtime.loaded_config import read_p4info
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.pipeline import DigestMessage, Notice
from softswitch.program_files import read_program
from softswitch.runtime.no_ports import NoPorts
from softswitch.testing.coverage import Coverage, CoverageRecorder
from softswitch.testing.mask import FrameLike, to_bytes
from softswitch.testing.outputs import ExpectedOutput, are_alike, describe, read_expected

_PACKET_GAP_US = 1000


class Switch(AbstractContextManager["Switch"]):
    """A program with its entries, which processes frames one by one; refused calls raise `SwitchError`.

    `program` is P4 source, or BMv2 JSON with its P4Info, which only `write` needs. Files that source includes
    are searched for in `include_folders`, too, and `definitions` are its macros. Times are in µs.
    """

    def __init__(
        self,
        program: str | Path,
        p4info: str | Path | None = None,
        *,
        include_folders: Sequence[str | Path] = (),
        definitions: Mapping[str, str | int] | None = None,
    ) -> None:
        macros = [(name, str(value)) for name, value in (definitions or {}).items()]
        data, compiled_p4info = read_program(Path(program), [*map(Path, include_folders)], macros)
        self._ports = NoPorts()
        # `Any`, since an interpreted pipeline cannot decode ports' notices; `NoPorts` has none.
        self._pipelines = Pipelines[Any](self._ports, self._make_pipeline, folder_of=lambda _: None)
        try:
            info = read_p4info(Path(p4info)) if p4info is not None else compiled_p4info
            if info is None:
                self._pipelines.load_bare(data)
            else:
                self._pipelines.load(p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=data))
        except SwitchError as error:
            self.close()
            raise SwitchError(f"{program}: {error}") from error
        self._digest_fields = [_fields_of(each, info) for each in self.pipeline.program.digests]
        self._console = Console(self._pipelines, self._ports)
        self._now = 0

    def _make_pipeline(self, program: ir.Program) -> InterpretedPipeline:
        self._recorder = CoverageRecorder(program)
        self.pipeline = InterpretedPipeline(program, observer=self._recorder)
        return self.pipeline

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pipelines.close()
        self._ports.close()

    @property
    def coverage(self) -> Coverage:
        return self._recorder.coverage

    def run(self, *commands: str) -> list[str]:
        """Run BMv2's commands, as `softswitch cli` takes them; return the lines of their output."""
        return self._console.run(*commands)

    def write(self, request: str) -> None:
        """Apply a P4Runtime `WriteRequest` in protobuf's text format; raise the first refusal."""
        self._console.write(request)

    def process(self, port: int, frame: FrameLike, time: int | None = None) -> list[tuple[int, bytes]]:
        """Process a frame, by default 1 ms after the last one; return the output frames with their ports.

        A frame is bytes, hexadecimal text, or a packet of Scapy.
        """
        data = to_bytes(frame)
        self._recorder.take()
        self._now = self._now + _PACKET_GAP_US if time is None else time
        return [(out.port, out.frame) for out in self.pipeline.process(port, data, self._now, self._now)]

    def read_register(self, name: str, first: int = 0, count: int | None = None) -> list[int]:
        """Return `count` cells of a register, from cell `first` on; by default all after it.

        `name` is that of the P4Info, such as `MyIngress.sums`, or its end if that is unique, `sums`.
        """
        names = {register.name: register for register in self.pipeline.program.registers}
        if (found := find_by_end(name, names)) is None:
            raise SwitchError(f"expected a register ({', '.join(names) or 'none'}), got {name!r}")
        size = found.size
        stop = size if count is None else first + count
        if not 0 <= first <= stop <= size:
            expected = f"register {found.name}: expected cells from 0 to {size - 1}"
            raise SwitchError(f"{expected}, got {first} to {stop - 1}")
        return self.pipeline.cells.read_register(found.name, first, stop)

    def digests(self) -> list[dict[str, int]]:
        """Return the digests since the last call, as values by field; the same call loses log messages."""
        return [
            dict(zip(self._digest_fields[notice.digest], notice.values, strict=True))
            for notice in self.notices()
            if isinstance(notice, DigestMessage)
        ]

    def notices(self) -> Sequence[Notice]:
        """Return digests and log messages since the last call."""
        return self.pipeline.take_notices()

    def explain(self) -> str:
        """Return the trace of the last frame, as `softswitch explain` prints it into a file."""
        return click.unstyle("\n".join(draw(make_tree(self._recorder.take()))))

    def expect(self, port: int, frame: FrameLike, *expected: ExpectedOutput, time: int | None = None) -> None:
        """Process a frame; raise `AssertionError` with its trace unless exactly these frames are output.

        Each expected output is a port and a frame, or a `Mask` of it. Without any, the frame has to be
        dropped. The frames' order is not compared.
        """
        patterns = read_expected(expected)
        outputs = self.process(port, frame, time)
        if not are_alike(outputs, patterns):
            text = f"expected {describe(patterns)}, got {describe(outputs)}"
            raise AssertionError(f"{text}\n{self.explain()}")


def _fields_of(digest: ir.FieldList, info: p4i.P4Info | None) -> list[str]:
    """Return the names of a digest's values: of its struct's members, or their positions without P4Info."""
    found = [each for each in info.digests if each.preamble.name == digest.name] if info else []
    structs = info.type_info.structs if info else {}
    members = structs[found[0].type_spec.struct.name].members if found else []
    names = [member.name for member in members]
    return names if len(names) == len(digest.values) else [str(place) for place in range(len(digest.values))]
