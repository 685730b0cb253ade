"""Design `exact`: the switch adds up lanes of float32 values, whose sum workers round correctly."""

from __future__ import annotations

from pathlib import Path

from foundation.designs.interface import Arm, Design
from hotline_allreduce.switchml.design import SwitchML

NAME = "exact"
UDP_PORT = 0xBEE1  # beside SwitchML's, whose headers packets begin with


EXACT = Arm(
    "exact", job=19, design=NAME, settings=SwitchML(check=True), colour="#17806d",
    about="in which the switch adds up dense vectors, and sums of floats are correctly rounded",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch adds up dense vectors, whose float32 sums are correctly rounded in any order",
    promise="all workers get the correctly rounded sums, or an operation fails",
    program=Path(__file__).parents[3] / "p4src" / "compiled" / "exact.json",
    arms=(EXACT,),
    module=__name__,
    agents="hotline_allreduce.exact.agents:AGENTS",
    control="hotline_allreduce.switchml.control:CONTROL",
    has_services=True,
    udp_port=UDP_PORT,
    is_lockstep=True,
)
