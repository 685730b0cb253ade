"""Generate the files `constants.p4` from Python's constants; `make p4` runs this before it compiles."""

from __future__ import annotations

from pathlib import Path

from hotline_allreduce.atp import design as atp_design
from hotline_allreduce.atp import packet as atp
from hotline_allreduce.switchml import packet as switchml
from hotline_allreduce.switchml.design import UDP_PORT

P4SRC = Path(__file__).parents[1] / "p4src"

SWITCHML = f"""\
// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
// Sizes and codes are those of p4lang/p4app-switchML (b5c74a0).
#ifndef SWITCHML_CONSTANTS_P4
#define SWITCHML_CONSTANTS_P4

#ifndef LANES
#define LANES {switchml.VALUES}        // values of a packet
#define SIZE_CODE {switchml.SIZE}
#endif

// Slots of the pool, each with an entry in both of its sets.
const bit<32> SLOTS = {switchml.SLOTS};

const bit<16> SWITCHML_PORT = {UDP_PORT:#x};   // of UDP

// What the first byte of a packet says: a packet of SwitchML, with 4 * LANES bytes of values.
const bit<4> KIND = {switchml.KIND};
const bit<3> SIZE = SIZE_CODE;

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

FILES = {"switchml": SWITCHML, "atp": ATP}
"""Folder of p4src -> text of its constants.p4."""


if __name__ == "__main__":
    for folder, text in FILES.items():
        (P4SRC / folder / "constants.p4").write_text(text)
