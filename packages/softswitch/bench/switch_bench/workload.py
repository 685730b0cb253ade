"""Workloads of the bench: the frames to send, and the program and table entries that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from softswitch.p4runtime.messages import p4r

INGRESS = 1
"""Ingress port of all frames."""
MAX_RUN = 1_000
"""Largest number of a run in `Stamp.run`; the first is 1."""
FIRST_SEQ = 64
"""Sequence number of a run's first frame: turn 1 of slot 0 (seq mod 64) in Hotline; turn 0 would be stale."""
RUN_BYTES, SEQ_BYTES, EGRESS_BYTES, T0_BYTES = 4, 4, 2, 8  # sizes of the numbers of a `Stamp`


class Stamp(NamedTuple):
    """Byte offsets of big-endian numbers in a frame; the program must not change these bytes."""

    run: int  # the number of the run, from 1 to MAX_RUN
    seq: int  # the frame's number in the run, from FIRST_SEQ on
    egress: int  # the port that the frame has to leave by
    t0: int  # when it was sent: ns since the epoch


class CompiledProgram(NamedTuple):
    """Output files of p4c-bm2-ss for one program; `path` is their path without a suffix."""

    path: Path

    @property
    def json(self) -> Path:
        return self.path.with_suffix(".json")

    @property
    def p4info(self) -> Path:
        return self.path.with_suffix(".p4info.txtpb")


@dataclass(frozen=True, slots=True)
class Setup:
    program: CompiledProgram
    updates: Sequence[p4r.Update]


@dataclass(frozen=True, slots=True)
class Workload:
    """At least `ports.layout.BURST` frames of one length, sent in turn, and the ports that they leave by."""

    name: str
    frames: Sequence[bytes]
    stamp: Stamp
    egress: tuple[int, ...]
