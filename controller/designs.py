"""The `Control` of each design: its table rows, and how it reads the switch."""

from __future__ import annotations

from foundation.designs.interface import Control
from foundation.designs.registry import Parts

CONTROL = Parts[Control](
    "controller",
    "CONTROL",
    {
        "hotset": "controller.hotset.control",
        "none": "controller.forwarding",
        "psdense": "controller.forwarding",
        "ring": "controller.forwarding",
        "switchml": "controller.switchml",
    },
)
