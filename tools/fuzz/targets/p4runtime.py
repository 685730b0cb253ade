"""P4Runtime batches on a server of softswitch, which a plain model of server and data plane judges.

An input is a sequence of decisions: which updates are drawn, how they are mutated, and which call of the
pipeline fails. So a mutated input is a structured batch again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Hashable
from random import Random

from tools.fuzz.target import ROOT, Target

sys.path.append(str(ROOT / "packages" / "softswitch" / "tests"))

from softswitch.interpreter import InterpretedPipeline
from switch_harness.p4runtime_fuzz import Fuzzer  # needs the path

MAX_BATCHES = 4  # of one input
_SEED_BYTES = 800


class Decisions(Random):
    """Random numbers that are read from an input; at its end, all are 0."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = memoryview(data)

    @property
    def is_at_end(self) -> bool:
        return not self._data

    def getrandbits(self, k: int, /) -> int:
        size = -(-k // 8)
        taken, self._data = self._data[:size], self._data[size:]
        return int.from_bytes(taken, "little") & (1 << k) - 1

    def random(self) -> float:
        return self.getrandbits(16) / (1 << 16)


def run(data: bytes) -> Hashable:
    logging.getLogger("softswitch").setLevel(logging.CRITICAL)  # the failures are injected
    decisions = Decisions(data)
    fuzzer = Fuzzer(InterpretedPipeline, decisions)
    while fuzzer.batches < MAX_BATCHES and not decisions.is_at_end:
        fuzzer.run_batch()
    return tuple(sorted(fuzzer.codes))


def seeds() -> list[bytes]:
    return [Random(seed).randbytes(_SEED_BYTES) for seed in range(4)]


TARGET = Target("p4runtime", run, ("packages/softswitch/src/softswitch/p4runtime",), seeds)
