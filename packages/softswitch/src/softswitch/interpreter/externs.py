"""State that statements share between packets: counters, meters, registers, random numbers, notices."""

from __future__ import annotations

from softswitch import ir
from softswitch.hashing import GOLDEN_RATIO, SPLITMIX_LAST_SHIFT, SPLITMIX_STEPS
from softswitch.interpreter.expressions import UINT64
from softswitch.interpreter.meters import MeterCell
from softswitch.pipeline import Notice


class RandomSequence:
    """Numbers for `random`, by splitmix64. BMv2 seeds its generator randomly, so any sequence conforms."""

    def __init__(self) -> None:
        self.state = 0

    def draw(self, low: int, high: int) -> int:
        self.state = (self.state + GOLDEN_RATIO) & UINT64
        z = self.state
        for shift, factor in SPLITMIX_STEPS:
            z = (z ^ z >> shift) * factor & UINT64
        z ^= z >> SPLITMIX_LAST_SHIFT
        return low + (z * (high - low + 1) >> 64)  # scales the 64-bit number to the range


class Externs:
    def __init__(self, program: ir.Program) -> None:
        # A cell of a counter is [packets, bytes].
        self.counters = [[[0, 0] for _ in range(counter.size)] for counter in program.counters]
        self.meters = [[MeterCell() for _ in range(meter.size)] for meter in program.meters]
        self.registers = [[0] * register.size for register in program.registers]
        self.random = RandomSequence()
        self.notices: list[Notice] = []
        self.now = 0
        """Clock of meters and idle timeouts, in µs since start."""
