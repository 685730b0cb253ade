"""Design `switchml` (Sapio et al., NSDI 2021): the switch adds up dense vectors, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from foundation.designs.interface import Aggregating, Arm, Design

NAME = "switchml"
UDP_PORT = 0xBEE0  # of the published SwitchML


@dataclass(frozen=True, slots=True)
class SwitchML(Aggregating):
    """The settings of an arm of SwitchML; as published, it has neither `check` nor `slot_timeout_us`."""

    check: bool = False
    """Whether the switch compares chunk numbers, so that a late copy changes nothing."""
    slot_timeout_us: int = 0
    """Time in µs after which a retransmission makes the switch answer all workers with the sums of those
    that have sent; 0 means never. It needs `check`."""
    published_timers: bool = False
    """Whether workers resend after 1 ms, instead of after 20 ms or more."""

    def __post_init__(self) -> None:
        if self.slot_timeout_us and not self.check:
            raise ValueError(
                f"slot_timeout_us ({self.slot_timeout_us}) needs check, which detects late copies"
            )


PUBLISHED = Arm(
    "switchml", job=9, design=NAME, settings=SwitchML(), colour="#b0459f",
    about="in which the switch adds up dense vectors, as published",
)  # fmt: skip
CHECKED = Arm(
    "switchml-checked", job=10, design=NAME, settings=SwitchML(check=True), colour="#5b3fa0",
    about="in which the switch also compares chunk numbers",
    reference="switchml",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch adds up dense vectors, chunk by chunk, and workers wait for each other",
    promise="all workers get equal sums, or an operation fails; "
    "as published, late copies can make the sums wrong",
    program=Path(__file__).parents[3] / "p4src" / "compiled" / "switchml.json",
    arms=(PUBLISHED, CHECKED),
    module=__name__,
    agents="hotline_allreduce.switchml.agents:AGENTS",
    control="hotline_allreduce.switchml.control:CONTROL",
    has_services=True,
    udp_port=UDP_PORT,
    is_lockstep=True,
)


LARGE_PACKET_DESIGN = replace(
    DESIGN,
    name="switchml-1024",
    program=DESIGN.program.with_name("switchml_1024.json"),
    agents="hotline_allreduce.switchml.agents:LARGE_PACKET_AGENTS",
)
"""SwitchML with 1,024 bytes of values in a packet, for the comparison: no entry point names it."""


def settings_of(arm: Arm) -> SwitchML:
    """Return the settings of an arm of SwitchML, or of `exact`, which has the same ones."""
    return arm.settings_as(SwitchML, NAME)
