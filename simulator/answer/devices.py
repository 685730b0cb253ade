"""Switches of `hotline answer --switch`: time of a frame, bandwidth, and number of hot keys.

The figures of chips are those of docs/tofino.md, from published limits and the program with one pass, which
was compiled for both. No chip was measured, and the program with two passes needs more stages than a Tofino 1
has; it was not compiled to the end for a Tofino 2.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from experiment.config import MAX_TOP_K
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, LANES, VALUE_BYTES

_FRAME_BYTES = FRAME_OVERHEAD + HEADER_BYTES + LANES * (KEY_BYTES + VALUE_BYTES)
_GAP_BYTES = 24
"""Preamble, frame check sequence and interframe gap."""


class Device(NamedTuple):
    description: str
    pass_us: float  # time of a frame through the switch once, in µs
    lanes: int
    hot_keys: int
    pipe_gbit: int | None = None
    """Bandwidth of one pipe in Gbit/s; None assumes 1,000 million frames/s."""

    @property
    def passes(self) -> int:
        """Passes of an RPC of 32 lanes; each recirculation takes bandwidth of the pipe, too."""
        return -(-LANES // self.lanes)

    @property
    def network(self) -> dict[str, float]:
        mpps = 1_000.0
        if self.pipe_gbit is not None:
            mpps = self.pipe_gbit * 1e3 / (8 * (_FRAME_BYTES + _GAP_BYTES)) / self.passes
        return {"switch_us": self.pass_us * self.passes, "switch_mpps": round(mpps, 1)}


_CHIP_HOT_KEYS = 16 * 8_192 * 7 // 8  # 7/8 of the slots of 16 lanes, as compiled
DeviceName = Literal["ideal", "tofino", "tofino2"]
DEVICES: dict[DeviceName, Device] = {
    "ideal": Device("a device", pass_us=1.0, lanes=LANES, hot_keys=MAX_TOP_K),
    "tofino": Device("a pipe of a Tofino", 1.0, lanes=16, hot_keys=_CHIP_HOT_KEYS, pipe_gbit=1_600),
    "tofino2": Device("a pipe of a Tofino 2", 1.0, lanes=16, hot_keys=_CHIP_HOT_KEYS, pipe_gbit=3_200),
}
