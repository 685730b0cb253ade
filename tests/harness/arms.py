"""The arms of the default design, as tests name them."""

from __future__ import annotations

from protocol.arms import measured
from protocol.hotset import ARMS, DESIGN

MEASURED = tuple(arm.name for arm in measured(DESIGN))
"""Their names, in the order of tables."""
JOBS = {arm.name: arm.job for arm in ARMS}
"""Name -> job, of all of them."""
