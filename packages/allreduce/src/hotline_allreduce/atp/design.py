"""Design `atp` (Lao et al., NSDI 2021): best-effort aggregation in cells that several jobs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foundation.designs.interface import Aggregating, Arm, Design

NAME = "atp"
UDP_PORT = 0x0700
"""UDP port of servers, equal to the EtherType of the published ATP, which does not use UDP."""
ECN_DEPTH = 1_000  # packets


@dataclass(frozen=True, slots=True)
class Atp(Aggregating):
    """The extensions of ATP that an arm uses, and its ECN threshold; ATP as published has no check."""

    check: bool = False
    """Whether switch and servers compare tensor numbers, so that late packets change nothing."""
    ecn_depth: int = ECN_DEPTH
    """Minimum queue length of the switch, in packets, at which it marks packets."""
    published_timers: bool = False
    """Whether workers resend after 50 ms without a packet and then every 0.2 ms; otherwise the timeout
    follows round trips (RFC 6298), and is at least 20 ms."""


PUBLISHED = Arm(
    "atp", job=13, design=NAME, settings=Atp(), colour="#c2571a",
    about="in which the switch adds up dense vectors where cells are free, as published",
)  # fmt: skip
CHECKED = Arm(
    "atp-checked", job=14, design=NAME, settings=Atp(check=True), colour="#8a3d12",
    about="in which switch and servers also compare tensor numbers, to ignore late packets",
    reference="atp",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch adds up dense vectors where cells are free, and servers do the rest",
    promise="all workers get equal sums, or an operation fails; "
    "as published, a lost packet can make the sums wrong",
    program=Path(__file__).parents[3] / "p4src" / "compiled" / "atp.json",
    arms=(PUBLISHED, CHECKED),
    module=__name__,
    agents="hotline_allreduce.atp.agents:AGENTS",
    control="hotline_allreduce.atp.control:CONTROL",
    udp_port=UDP_PORT,
    has_networks=True,
    is_lockstep=True,
)


def settings_of(arm: Arm) -> Atp:
    return arm.settings_as(Atp, NAME)


def settings_of_job(job: int) -> Atp:
    # Jobs of other designs have the default settings.
    return next((settings_of(arm) for arm in DESIGN.arms if arm.job == job), Atp())
