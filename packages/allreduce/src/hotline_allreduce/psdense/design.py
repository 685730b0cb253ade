"""Design `psdense`: servers add up dense vectors of all workers; the switch forwards, as for `none`."""

from __future__ import annotations

from foundation.checkout import ROOT
from foundation.designs.interface import Arm, Design, Forwarding

NAME = "psdense"


PSDENSE = Arm(
    "psdense", job=11, design=NAME, settings=Forwarding(), colour="#3b7dd8",
    about="in which servers add up dense vectors",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="servers add up dense vectors, chunk by chunk, and workers wait for each other",
    promise="all workers get equal sums, or an operation fails",
    program=ROOT / "p4src" / "compiled" / "none.json",
    arms=(PSDENSE,),
    module=__name__,
    agents="hotline_allreduce.psdense.agents:AGENTS",
    control="controller.forwarding:CONTROL",
    is_lockstep=True,
)
