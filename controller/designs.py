"""The `ControllerOps` of each design: its table rows, and how it reads the switch."""

from __future__ import annotations

from controller.controller import Controller
from controller.tables import Row
from foundation.designs.interface import ControllerOps
from foundation.designs.registry import Parts

CONTROL = Parts[ControllerOps[Controller, Row]](
    package="controller",
    attribute="CONTROL",
    modules={
        "atp": "controller.atp",
        "collect": "controller.collect",
        "hotset": "controller.hotset.control",
        "none": "controller.forwarding",
        "psdense": "controller.forwarding",
        "ring": "controller.forwarding",
        "switchml": "controller.switchml",
    },
)
