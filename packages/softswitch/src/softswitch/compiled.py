"""The fast `Pipeline`: the program as machine code, with its state in one memory block.

The packet function runs without the GIL when compiled code calls it (`ports.loop`). A mutex serializes the
data plane, which holds it for a burst of packets, and the control plane, which holds it for one operation.
"""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import replace
from functools import cached_property

from softswitch import ir
from softswitch.hashing import Crc
from softswitch.jit import MachineCode
from softswitch.memory.output import WAITING, read_records
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.memory.rows import Words
from softswitch.memory.waiting import read_queue_head, set_depths
from softswitch.pipeline import Output, PassResult, QueueDepths, WaitingPacket
from softswitch.state.memory import Memory
from softswitch.state.pipeline import StatePipeline

OUT_CAPACITY = 1 << 21  # bytes of output records


class CompiledPipeline(StatePipeline):
    """A `Pipeline` in machine code, and a `BufferedPipeline` if it is `buffered`.

    `code` may be shared with other pipelines of the same program; if it is given, `buffered` is ignored.
    """

    def __init__(
        self,
        program: ir.Program,
        code: MachineCode | None = None,
        priority_queues: int = 1,
        buffered: bool = False,
    ) -> None:
        self._priority_queues = priority_queues
        self.code = code or MachineCode(program, priority_queues, buffered)
        self.process_address = self.code.process_address
        self.queue_record_bytes = self.code.queue_record_bytes
        memory = Memory(self.code.state_bytes)
        super().__init__(program, self.code.layout, memory, self.code.table_rows)
        self.state_address = self._memory.address
        self.mutex_address = self._memory.mutex_address
        self.waiting_address = self._memory.waiting_address

    def use_code(self, code: MachineCode, program: ir.Program) -> None:
        """Switch to other machine code on the same state; no loop may be running the previous code.

        `program` may differ from the previous one only in parameters of calculations.
        """
        assert code.state_bytes == self.code.state_bytes
        self.code, self.program = code, program
        self.process_address, self.queue_record_bytes = code.process_address, code.queue_record_bytes

    def code_with_crc(self, calculation: str, crc: Crc) -> tuple[MachineCode, ir.Program]:
        calculations = tuple(
            replace(declared, custom_crc=crc) if declared.name == calculation else declared
            for declared in self.program.calculations
        )
        program = replace(self.program, calculations=calculations)
        return MachineCode(program, self._priority_queues, buffered=self.queue_record_bytes > 0), program

    def memory_image(self) -> Words:
        with self._memory.locked():
            return self._memory.words.copy()

    def load_image(self, image: Words) -> None:
        with self._memory.locked():
            self._memory.store(0, image)
            self.tables.invalidate_chains()

    def close(self) -> None:
        super().close()
        for name in ("code", "_output_buffer"):
            vars(self).pop(name, None)

    @cached_property
    def _output_buffer(self) -> ctypes.Array[ctypes.c_char]:
        # Only pipelines that Python calls need it.
        return (ctypes.c_char * OUT_CAPACITY)()

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        outputs, waiting = self.enter(port, frame, t_in, now)
        queue = deque(waiting)
        while queue:
            result = self.leave(queue.popleft(), QueueDepths(), now)
            outputs += result.outputs
            queue += result.waiting
        return outputs

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> PassResult:
        return self._run(port, frame, t_in, now)

    def leave(self, waiting: WaitingPacket, depths: QueueDepths, now: int) -> PassResult:
        assert isinstance(waiting.packet, bytes)
        return self._run(DEPARTURE_PORT, set_depths(waiting.packet, *depths), t_in=0, now=now)

    def _run(self, port: int, data: bytes, t_in: int, now: int) -> PassResult:
        waiting: list[WaitingPacket] = []
        output_records: list[tuple[int, bytes]] = []
        with self._memory.locked():
            count = self.code.process(
                self.state_address, port, data, len(data), t_in, now, self._output_buffer, OUT_CAPACITY
            )
            for kind, record in read_records(memoryview(self._output_buffer), count):
                if kind == WAITING:
                    waiting.append(WaitingPacket(*read_queue_head(record), record))
                else:
                    output_records.append((kind, record))
            return PassResult(self._outputs(output_records), waiting)
