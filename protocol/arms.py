"""The arms of an experiment: what of the switch each uses. On the wire an arm is a job of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the same steps."""

    name: str
    job: int
    offloaded: bool
    """The hot set is in the switch, in slots of its own."""
    proxied: bool
    """The switch is the workers' one connection to each PS."""


PROFILE = Arm("profile", job=1, offloaded=True, proxied=False)
"""Trains for the update log, and under the hot set's load; not measured."""
NEITHER = Arm("neither", job=2, offloaded=False, proxied=False)
"""What the others are compared with."""
AGAIN = Arm("again", job=6, offloaded=False, proxied=False)
"""*Neither* again (an A/A test): how it differs from *neither* is what noise looks like."""
PROXY = Arm("proxy", job=3, offloaded=False, proxied=True)
HOT = Arm("hot", job=4, offloaded=True, proxied=False)
BOTH = Arm("both", job=5, offloaded=True, proxied=True)

MEASURED = (NEITHER, AGAIN, PROXY, HOT, BOTH)
ARMS = (PROFILE, *MEASURED)
OFFLOADED = tuple(arm for arm in ARMS if arm.offloaded)
JOBS = {arm.name: arm.job for arm in ARMS}
"""Name -> job, as `run.json` has it."""
