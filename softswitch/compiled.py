"""The fast `Pipeline`: the program as machine code, with its state in one block of memory.

The packet function runs without the GIL wherever it is called from compiled code (`ports.loop`). Data plane
and control plane take turns by a mutex: the one holds it for a burst, the other for one operation.
"""

from __future__ import annotations

import ctypes

from softswitch import ir
from softswitch.jit import MachineCode
from softswitch.memory.output import HEAD_BYTES, read_head, read_records
from softswitch.pipeline import Notice, Output
from softswitch.state.memory import Memory
from softswitch.state.notices import decode_notice, is_notice
from softswitch.state.pipeline import StatePipeline

OUT_CAPACITY = 1 << 21


class CompiledPipeline(StatePipeline):
    """A `Pipeline` in machine code. `code` may be that of another pipeline of the same program."""

    def __init__(
        self, program: ir.Program, code: MachineCode | None = None, priority_queues: int = 1
    ) -> None:
        self.code = code or MachineCode(program, priority_queues)
        self.process_address = self.code.process_address
        super().__init__(program, self.code.layout, Memory(self.code.state_bytes))
        self.state_address = self._memory.address
        self.mutex_address = self._memory.mutex_address
        self.waiting_address = self._memory.waiting_address
        self._out = (ctypes.c_char * OUT_CAPACITY)()
        self._notices: list[Notice] = []

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame (`Pipeline.process`)."""
        outputs: list[Output] = []
        with self._memory.locked():
            count = self.code.process(
                self.state_address, port, frame, len(frame), t_in, now, self._out, OUT_CAPACITY
            )
            for kind, data in read_records(memoryview(self._out), count):
                if is_notice(kind):
                    self._notices.append(decode_notice(self.program, kind, data))
                else:
                    outputs.append(Output(kind, data))
        return outputs

    def take_notices(self) -> list[Notice]:
        """What packets told since the last call (`Pipeline.take_notices`)."""
        taken, self._notices = self._notices, []
        return taken

    def decode_notice(self, record: bytes) -> Notice:
        """A notice as the port loop hands it over: a record without its padding."""
        kind, _ = read_head(record)
        return decode_notice(self.program, kind, record[HEAD_BYTES:])
