"""Switches that are forks of one process, and share the memory of what it has imported and compiled."""

from __future__ import annotations

import os

VARIABLE = "SOFTSWITCH_SHARED"
"""Environment variable that has switches be forks of one process; "" and "0" mean that they are not."""


def is_wanted() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")
