"""Calls on the device (programs, ports, queues, time, custom CRCs), and the class with all calls."""

from __future__ import annotations

import time
from typing import Generic, Protocol

from google.protobuf import text_format

from softswitch import __version__
from softswitch.errors import SwitchError
from softswitch.hashing import Crc as CrcFunction
from softswitch.load.json_text import decode_text
from softswitch.p4runtime.device_config import extract_program
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.p4runtime.reconcile import ENTITIES
from softswitch.runtime.base import PL, RuntimeCalls
from softswitch.runtime.cells import CellCalls
from softswitch.runtime.interface import Info, RuntimeCrc, RuntimePort, Time
from softswitch.runtime.profiles import ProfileCalls
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.runtime.replication import ReplicationCalls


class DevicePorts(Protocol):
    """The ports, as calls use them; methods raise SwitchError if the datapath does not support them."""

    def now(self) -> int:
        """Return the time of the packets' clock, µs since start."""

    def names(self) -> dict[int, str]: ...

    def is_up(self, port: int) -> bool: ...

    def add(self, port: int, interface: str) -> None: ...

    def remove(self, port: int) -> None: ...

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        """Set rates and depths of queues (`Runtime.queue_set`)."""

    def set_crc(self, calculation: str, crc: CrcFunction) -> None: ...


class DeviceCalls(RuntimeCalls[PL]):
    def __init__(self, pipelines: Pipelines[PL], ports: DevicePorts, device_id: int) -> None:
        RuntimeCalls.__init__(self, pipelines)
        self._ports = ports
        self._device_id = device_id

    # -- programs

    def info(self) -> Info:
        has_p4info = self._pipelines.running is not None
        return Info(device_id=self._device_id, version=__version__, has_p4info=has_p4info)

    def config(self) -> str:
        return decode_text(extract_program(self.control().config.p4_device_config))

    def load_config(self, config: str) -> None:
        if self._pipelines.prepared is not None:
            raise RuntimeRefusal("swap", "ONGOING_SWAP", "another program is loaded: swap_configs runs it")
        self._pipelines.prepare_bare(config.encode())

    def swap_configs(self) -> None:
        if self._pipelines.prepared is None:
            raise RuntimeRefusal("swap", "NO_ONGOING_SWAP", "no program is loaded: call load_config first")
        self._pipelines.run_prepared()

    def reset_state(self) -> None:
        self._pipelines.discard_prepared()
        config = self.control().config
        if self._pipelines.running is not None:
            self._pipelines.load(config)
        else:
            self._pipelines.load_bare(config.p4_device_config)

    def state(self) -> str:
        responses, _ = self.control().read(p4r.ReadRequest(entities=ENTITIES))
        merged_response = p4r.ReadResponse()
        for response in responses:
            merged_response.MergeFrom(response)
        return text_format.MessageToString(merged_response)

    # -- ports and queues

    def ports(self) -> list[RuntimePort]:
        return [
            RuntimePort(port=port, interface=name, is_up=self._ports.is_up(port))
            for port, name in sorted(self._ports.names().items())
        ]

    def port_add(self, port: int, interface: str) -> None:
        if port in self._ports.names():
            raise RuntimeRefusal("device manager", "ERROR", f"port {port} is there already")
        self._ports.add(port, interface)

    def port_remove(self, port: int) -> None:
        if port not in self._ports.names():
            raise RuntimeRefusal("device manager", "ERROR", f"there is no port {port}")
        self._ports.remove(port)

    def queue_set(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        if port is not None and port not in self._ports.names():
            raise SwitchError(f"Error: there is no port {port}")
        self._ports.set_queues(port, priority, rate, depth)

    # -- time and hashes

    def time(self) -> Time:
        return Time(elapsed=self._ports.now(), epoch=time.time_ns() // 1000)

    def crc_set(self, calculation: str, width: int, crc: RuntimeCrc) -> None:
        control = self.require_unpinned("the parameters of a CRC")
        algorithm = f"crc{width}_custom"
        algorithms = {
            calculation_info.name: calculation_info.algorithm
            for calculation_info in control.pipeline.program.calculations
        }
        if calculation not in algorithms:
            text = f"the program has no calculation {calculation}"
            raise RuntimeRefusal("crc", "INVALID_CALCULATION_NAME", text)
        if algorithms[calculation] != algorithm:
            text = f"calculation {calculation} is {algorithms[calculation]}, not {algorithm}"
            raise RuntimeRefusal("crc", "WRONG_TYPE_CALCULATION", text)
        if crc["reflect_data"] != crc["reflect_remainder"]:
            text = "expected data and remainder to be both reflected, or neither"
            raise RuntimeRefusal("crc", "INVALID_CONFIG", text)
        function = CrcFunction(width, crc["polynomial"], crc["initial"], crc["final"], crc["reflect_data"])
        self._ports.set_crc(calculation, function)


class SwitchRuntime(CellCalls[PL], ProfileCalls[PL], ReplicationCalls[PL], DeviceCalls[PL], Generic[PL]):
    def __init__(self, pipelines: Pipelines[PL], ports: DevicePorts, device_id: int) -> None:
        # The two bases with attributes of their own.
        ReplicationCalls.__init__(self, pipelines)
        DeviceCalls.__init__(self, pipelines, ports, device_id)
