"""The documented costs of `exact`, computed from the compiled programs and the format of packets."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hotline_allreduce.exact.arithmetic import digit_count, lane_bits
from hotline_allreduce.exact.design import DESIGN
from hotline_allreduce.exact.worker import FLOATS_A_CHUNK, PACKET_BYTES
from hotline_allreduce.switchml.design import DESIGN as SWITCHML
from hotline_allreduce.switchml.packet import CUT, VALUES
from nativekit.plain import plain
from simulator.state import HEAD_BYTES

DOCS = Path(__file__).parents[3] / "docs" / "exact.md"
ENTRIES = 16_384  # of the pool
_ALUS_A_STAGE = 4  # stateful ones of a Tofino


def documented() -> dict[str, list[str]]:
    _, _, rest = DOCS.read_text().partition("\n## What it costs\n")
    rows = re.findall(r"^\|(.*)\|$", rest.partition("\n## ")[0], re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {name: values for name, *values in cells[2:]}


def registers(path: Path) -> dict[str, int]:
    """Return the bits of an entry in each register of a program, without those of the optional timeout."""
    arrays = json.loads(path.read_text())["register_arrays"]
    return {
        each["name"]: each["bitwidth"] * each["size"] // ENTRIES
        for each in arrays
        if "slot_timeout" not in each["name"]
    }


def test_costs_are_those_of_program_and_packets() -> None:
    programs = registers(DESIGN.program), registers(SWITCHML.program)
    alus = [
        -(-sum("value_" in name for name in program) // 2) + sum("value_" not in name for name in program)
        for program in programs
    ]
    frame_bytes = HEAD_BYTES + PACKET_BYTES
    values_a_packet = {
        workers: VALUES // (plain(digit_count)(plain(lane_bits)(workers)) + 1) for workers in (32, 256)
    }
    assert documented() == {
        "floats a packet": [str(FLOATS_A_CHUNK), str(VALUES)],
        "frame bytes": [str(frame_bytes), str(frame_bytes - CUT.size)],
        "frame bytes a float, first pass": [
            f"{frame_bytes / FLOATS_A_CHUNK:g}", f"{(frame_bytes - CUT.size) / VALUES:.2f}"
        ],
        "frame bytes a float, second pass": [
            ", ".join(f"{frame_bytes / each:g}" for each in values_a_packet.values()) + " (256 addends)", "-"
        ],
        "words a float": ["2, and a cut bit", "1"],
        "register bits of an entry": [f"{sum(program.values()):,}" for program in programs],
        "stateful ALUs of a Tofino, if two words share one": [str(each) for each in alus],
        "stages for them, 4 in each": [str(-(-each // _ALUS_A_STAGE)) for each in alus],
    }  # fmt: skip
