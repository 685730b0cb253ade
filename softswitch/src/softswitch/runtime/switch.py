"""All calls on one switch."""

from __future__ import annotations

from typing import Generic

from softswitch.p4runtime.pipelines import Pipelines
from softswitch.runtime.base import PL
from softswitch.runtime.cells import Cells
from softswitch.runtime.device import Device, Ports
from softswitch.runtime.profiles import Profiles
from softswitch.runtime.replication import Replication


class SwitchRuntime(Cells[PL], Profiles[PL], Replication[PL], Device[PL], Generic[PL]):
    """What the service `softswitch.v1.Runtime` serves (`interface.Runtime`)."""

    def __init__(self, pipelines: Pipelines[PL], ports: Ports, device_id: int) -> None:
        Replication.__init__(self, pipelines)
        Device.__init__(self, pipelines, ports, device_id)
