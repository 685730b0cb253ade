"""Names and jobs of the default design's arms."""

from __future__ import annotations

from foundation.designs.arms import measured_arms
from foundation.designs.hotset import ARMS, NAME

MEASURED = tuple(arm.name for arm in measured_arms(NAME))
"""Their names, in the order of tables."""
JOBS = {arm.name: arm.job for arm in ARMS}
"""Name -> job, of all of them."""
