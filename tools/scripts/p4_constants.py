"""Generate the files `constants.p4` from Python's constants; `make p4` runs this before it compiles."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from controller.sizes import CALLERS, SLOTS
from controller.status import LaneEvent, RpcOutcome
from controller.tables import CallerKind
from foundation.protocol.addressing import CPU_PORT
from foundation.protocol.header import (
    FIRST,
    HOTLINE_PORT,
    KEYS,
    LANES,
    REPLAY,
    RESPONSE,
    SECOND,
    SET,
    VALUES,
    VERSION,
    WINDOW_BITS,
    Op,
)
from foundation.protocol.leaf_spine import MAX_SPINES

P4SRC = Path(__file__).parents[2] / "p4src"


def _enum_members(enum: type[IntEnum]) -> str:
    width = max(len(member.name) for member in enum)
    return ",\n".join(f"    {member.name:{width}} = {member.value}" for member in enum)


COMMON = f"""\
// Generated from Python's declarations by tools/scripts/p4_constants.py. Change those, and run `make p4`.
#ifndef COMMON_CONSTANTS_P4
#define COMMON_CONSTANTS_P4

// The version of the RPCs between agents, as a field and in @pkginfo.
const bit<8> WIRE_VERSION = {VERSION};
#define WIRE_VERSION_TEXT "{VERSION}"

const bit<9> CPU_PORT = {CPU_PORT};

#define MAX_SPINES {MAX_SPINES}        // of a network of several switches

#endif
"""

HOTSET = f"""\
// Generated from Python's declarations by tools/scripts/p4_constants.py. Change those, and run `make p4`.
// docs/design.md has the RPC's header.
#ifndef CONSTANTS_P4
#define CONSTANTS_P4

#ifndef LANES
#define LANES {LANES}        // of one RPC: 4 (Tofino only), 8, 16, 32 or 64
#endif

#ifndef SLOTS
#define SLOTS {SLOTS}      // cells of one lane's register, and entries of its table
#endif
#ifndef CALLERS
#define CALLERS {CALLERS}    // callers that the switch can tell apart at a time
#endif
// Each caller has 2^WINDOW_BITS sequence-number slots.
const bit<8> WINDOW_BITS = {WINDOW_BITS};

const bit<16> HOTLINE_PORT = {HOTLINE_PORT};      // of UDP

enum bit<8> Op {{
{_enum_members(Op)}
}}

// Bits of the field `flags`.
const bit<16> FLAG_RESPONSE = {RESPONSE:#x};
const bit<16> FLAG_KEYS     = {KEYS:#x};
const bit<16> FLAG_VALUES   = {VALUES:#x};
const bit<16> FLAG_SET      = {SET:#x};
const bit<16> FLAG_FIRST    = {FIRST:#x};
const bit<16> FLAG_SECOND   = {SECOND:#x};
const bit<16> FLAG_REPLAY   = {REPLAY:#x};

// The lanes of a worker hit if the key is hot. A privileged caller (a parameter server that moves a key, or
// the controller that reads one) also reaches entries that are on their way in or out.
enum bit<8> CallerKind {{
{_enum_members(CallerKind)}
}}

// Indices of counter `rpcs`.
enum bit<32> RpcOutcome {{
{_enum_members(RpcOutcome)}
}}
const bit<32> RPC_OUTCOMES = {len(RpcOutcome)};

// Indices of each bank's counter `row_stats`.
enum bit<32> LaneEvent {{
{_enum_members(LaneEvent)}
}}
const bit<32> LANE_EVENTS = {len(LaneEvent)};

#endif
"""

FILES = {"common": COMMON, "hotset": HOTSET}
"""Folder of p4src -> text of its constants.p4."""


if __name__ == "__main__":
    for folder, text in FILES.items():
        (P4SRC / folder / "constants.p4").write_text(text)
