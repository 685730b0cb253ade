"""The documented costs of `exact`, computed from the compiled programs and the format of packets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotline_allreduce.exact.arithmetic import digit_count, lane_bits
from hotline_allreduce.exact.design import DESIGN
from hotline_allreduce.exact.worker import FLOATS_A_CHUNK, PACKET_BYTES
from hotline_allreduce.switchml.design import DESIGN as SWITCHML
from hotline_allreduce.switchml.packet import CUT, VALUES
from hotline_simulator.state import HEAD_BYTES
from nativekit.plain import plain
from tools.evidence.result import published_table

ENTRIES = 16_384  # of the pool
_ALUS_A_STAGE = 4  # stateful ones of a Tofino


def registers(path: Path) -> dict[str, int]:
    """Return the bits of an entry in each register of a program, without those of the optional timeout."""
    arrays = json.loads(path.read_text())["register_arrays"]
    return {
        each["name"]: each["bitwidth"] * each["size"] // ENTRIES
        for each in arrays
        if "slot_timeout" not in each["name"]
    }


def test_the_published_costs_follow_from_the_programs_and_the_packet_format() -> None:
    programs = registers(DESIGN.program), registers(SWITCHML.program)
    alus = [
        -(-sum("value_" in name for name in program) // 2) + sum("value_" not in name for name in program)
        for program in programs
    ]
    frame_bytes = HEAD_BYTES + PACKET_BYTES
    values_a_packet = {
        workers: VALUES // (plain(digit_count)(plain(lane_bits)(workers)) + 1) for workers in (32, 256)
    }
    published = published_table("exact-costs")
    expected = {
        "floats a packet": (FLOATS_A_CHUNK, VALUES),
        "frame bytes": (frame_bytes, frame_bytes - CUT.size),
        "frame bytes a float, first pass": (
            frame_bytes / FLOATS_A_CHUNK, pytest.approx((frame_bytes - CUT.size) / VALUES, abs=0.005)
        ),
        "frame bytes a float, second pass of 32 and of 256 addends": (
            tuple(frame_bytes / each for each in values_a_packet.values()), None
        ),
        "words a float": ("2, and a cut bit", "1"),
        "register bits of an entry": tuple(sum(program.values()) for program in programs),
        "stateful ALUs of a Tofino, if two words share one": tuple(alus),
        "stages for them, 4 in each": tuple(-(-each // _ALUS_A_STAGE) for each in alus),
    }  # fmt: skip
    assert {row.name: row.cells for row in published.rows} == expected
