"""The fast `Pipeline`: the program as machine code, with its state in one block of memory.

The packet function runs without the GIL wherever it is called from compiled code (`ports.loop`). Data plane
and control plane take turns by a mutex: the one holds it for a burst, the other for one operation.
"""

from __future__ import annotations

import ctypes

from softswitch import ir
from softswitch.jit import MachineCode
from softswitch.memory.output import read_records
from softswitch.pipeline import Output
from softswitch.state.memory import Memory
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

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame (`Pipeline.process`)."""
        with self._memory.locked():
            count = self.code.process(
                self.state_address, port, frame, len(frame), t_in, now, self._out, OUT_CAPACITY
            )
            return self._outputs(read_records(memoryview(self._out), count))
