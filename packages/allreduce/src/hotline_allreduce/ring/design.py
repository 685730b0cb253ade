"""Design `ring`: workers reduce-scatter and all-gather dense vectors; the switch forwards, as for `none`."""

from __future__ import annotations

from foundation.checkout import ROOT
from foundation.designs.interface import Arm, Design, Forwarding

NAME = "ring"


RING = Arm(
    "ring", job=12, design=NAME, settings=Forwarding(), colour="#2c9a57",
    about="in which workers add up dense vectors in a ring",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="workers add up dense vectors in a ring: reduce-scatter, then all-gather",
    promise="all workers get equal sums, or an operation fails",
    program=ROOT / "p4src" / "compiled" / "none.json",
    arms=(RING,),
    module=__name__,
    agents="hotline_allreduce.ring.agents:AGENTS",
    control="controller.forwarding:CONTROL",
    is_lockstep=True,
)
