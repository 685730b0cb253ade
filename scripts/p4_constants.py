"""Generate the files `constants.p4` from Python's constants; `scripts/p4` runs this before it compiles."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from controller.status import LaneEvent, RpcOutcome
from controller.tables import ROWS, SLOTS, CallerKind
from foundation.designs import atp as atp_design
from foundation.designs.switchml import UDP_PORT
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
from hosts.atp import packet as atp
from hosts.switchml import packet as switchml

P4SRC = Path(__file__).parents[1] / "p4src"


def _enum_members(enum: type[IntEnum]) -> str:
    width = max(len(member.name) for member in enum)
    return ",\n".join(f"    {member.name:{width}} = {member.value}" for member in enum)


COMMON = f"""\
// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
#ifndef COMMON_CONSTANTS_P4
#define COMMON_CONSTANTS_P4

// The version of the RPCs between agents, as a field and in @pkginfo.
const bit<8> WIRE_VERSION = {VERSION};
#define WIRE_VERSION_TEXT "{VERSION}"

const bit<9> CPU_PORT = {CPU_PORT};

#endif
"""

HOTSET = f"""\
// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
// docs/design.md has the RPC's header.
#ifndef CONSTANTS_P4
#define CONSTANTS_P4

#ifndef LANES
#define LANES {LANES}        // of one RPC: 4 (Tofino only), 8, 16, 32 or 64
#endif

#ifndef SLOTS
#define SLOTS {SLOTS}      // cells of one lane's register, and entries of its table
#endif
#ifndef ROWS
#define ROWS {ROWS}       // callers that the switch can tell apart at a time
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

// Indices of each lane's counter `lane_stats`.
enum bit<32> LaneEvent {{
{_enum_members(LaneEvent)}
}}
const bit<32> LANE_EVENTS = {len(LaneEvent)};

#endif
"""

SWITCHML = f"""\
// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
// Sizes and codes are those of p4lang/p4app-switchML (b5c74a0).
#ifndef SWITCHML_CONSTANTS_P4
#define SWITCHML_CONSTANTS_P4

#define LANES {switchml.VALUES}        // values of a packet

// Slots of the pool, each with an entry in both of its sets.
const bit<32> SLOTS = {switchml.SLOTS};

const bit<16> SWITCHML_PORT = {UDP_PORT:#x};   // of UDP

// What the first byte of a packet says: a packet of SwitchML, with {4 * switchml.VALUES} bytes of values.
const bit<4> KIND = {switchml.KIND};
const bit<3> SIZE = {switchml.SIZE};

#endif
"""

ATP = f"""\
// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
#ifndef ATP_CONSTANTS_P4
#define ATP_CONSTANTS_P4

#define LANES {atp.VALUES}        // values of a packet

const bit<32> CELLS = {atp.CELLS};

const bit<16> ATP_PORT = {atp_design.UDP_PORT:#06x};      // of UDP

#endif
"""

FILES = {"common": COMMON, "hotset": HOTSET, "switchml": SWITCHML, "atp": ATP}
"""Folder of p4src -> text of its constants.p4."""


if __name__ == "__main__":
    for folder, text in FILES.items():
        (P4SRC / folder / "constants.p4").write_text(text)
