"""`combination.combine` for compiled functions."""

from __future__ import annotations

from foundation.designs import combination
from nativekit.compile import compiled

combine = compiled(combination.combine)
