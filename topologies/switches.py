"""The switch of a run: a process of softswitch or BMv2 at interfaces of its network namespace."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiment.errors import SwitchFailed
from experiment.processes import ProcessLimit
from experiment.run_config import Config
from foundation.concurrency import in_thread
from foundation.protocol import addressing
from softswitch.errors import SwitchEnded
from softswitch.processes import (
    DEVICE_ID,
    SOFTSWITCH,
    WITHOUT_PROGRAM,
    SwitchProcess,
    find_bmv2,
    start_switch,
    switch_command,
)
from softswitch.progress import ENDED, Activity, IdleLimit, read_activity

Counters = dict[str, Any]  # JSON (`softswitch.ports.report.SwitchCounters`)
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_COUNTERS_TIMEOUT_S = 1.0
_COUNTERS_POLL_INTERVAL_S = 0.005
_POLL_INTERVAL_S = 0.05
_SENT_PACKETS = "/sys/class/net/{}/statistics/tx_packets"


class TargetSwitch:
    """A P4Runtime switch; `interfaces` are by port, and are set before `start`."""

    def __init__(
        self,
        *,
        port: int,
        log_dir: Path,
        cpu: int | None,
        impairment: str | None,
        datapath: str,
        name: str = addressing.SWITCH_NAME,
    ) -> None:
        self.name = name
        self.address = f"127.0.0.1:{port}"
        self.log_dir = log_dir
        self.cpu = cpu
        self.impairment = impairment
        self.datapath = datapath
        self.interfaces: Mapping[int, str] = {}
        self.prefix: Sequence[str] = ()
        """Words before the command, of a program that executes it."""
        self.switch_process: SwitchProcess | None = None
        self.is_listening = False
        """Whether the process handles SIGUSR1, which asks for counters. Before, SIGUSR1 would end it."""
        self.restarts = 0

    @property
    def log(self) -> Path:
        return self.log_dir / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        return None if self.switch_process is None else self.switch_process.process.pid

    def command(self) -> list[str]:
        raise NotImplementedError  # each target starts its own program

    def start(self) -> None:
        process = self.launch()
        try:
            process.wait_until_it_listens(_START_TIMEOUT_S)
        except SwitchEnded as error:
            raise self._failure_error(error) from None
        self.is_listening = True

    @property
    def is_running(self) -> bool:
        return self.switch_process is not None and self.switch_process.exit_error() is None

    async def end(self) -> None:
        if self.switch_process is not None:
            await in_thread(self.switch_process.end, _STOP_TIMEOUT_S)

    async def restart(self) -> None:
        """Start a new process after the previous one has ended; then await `wait_until_listening`."""
        if self.switch_process is not None:
            self.switch_process.output.close()
        self.restarts += 1
        self.launch()

    def launch(self) -> SwitchProcess:
        self.is_listening = False
        taskset_command = [] if self.cpu is None else ["taskset", "--cpu-list", str(self.cpu)]
        self.switch_process = start_switch(
            [*self.prefix, *taskset_command, *self.command()], self.log.open("a+b"), self.address
        )
        return self.switch_process

    async def wait_until_listening(self) -> None:
        """Wait until the switch listens; `wait_until_failed` reports its end."""
        assert self.switch_process is not None
        limit = ProcessLimit(_START_TIMEOUT_S, f"start of {self.name}", self._read_activity)
        while not self.switch_process.listens():
            if await limit.is_exceeded():
                raise SwitchFailed(f"{self.name} does not listen {limit.describe()}")
            await asyncio.sleep(_POLL_INTERVAL_S)
        self.is_listening = True

    async def activity(self) -> Activity:
        """Return what the switch's process does."""
        return ENDED if self.pid is None else read_activity(self.pid)

    async def _read_activity(self) -> dict[str, Activity]:
        return {self.name: await self.activity()}

    def stop(self) -> None:
        if self.switch_process is not None:
            self.switch_process.end(_STOP_TIMEOUT_S)
            self.switch_process.output.close()
            self.switch_process = None

    async def wait_until_failed(self) -> None:
        """Wait until the process ends although nothing has stopped it, and then raise SwitchFailed."""
        assert self.switch_process is not None
        while (error := self.switch_process.exit_error()) is None:
            await asyncio.sleep(_POLL_INTERVAL_S)
        raise self._failure_error(error)

    async def counters(self) -> Counters | None:
        return await in_thread(self.read_counters)

    def read_counters(self) -> Counters | None:
        return None

    def frames_sent(self) -> int | None:
        """Return how many frames have left the ports' interfaces; None if one of them is gone."""
        try:
            return sum(
                int(Path(_SENT_PACKETS.format(interface)).read_text())
                for interface in self.interfaces.values()
            )
        except OSError:
            return None

    def _failure_error(self, error: SwitchEnded) -> SwitchFailed:
        return SwitchFailed(f"{self.name}: {error} ({self.log})")


class SoftSwitch(TargetSwitch):
    def command(self) -> list[str]:
        options = [*WITHOUT_PROGRAM, "--counters", str(self._counters_file), "--datapath", self.datapath]
        if self.cpu is not None and self.datapath != "sockets":
            options += ["--rps-cpu", str(self.cpu)]
        if self.impairment is not None:
            options += [
                option
                for port in self.interfaces
                for direction in ("in", "out")
                for option in ("--impair", f"{port}:{direction}:{self.impairment}")
            ]
        return switch_command(
            SOFTSWITCH, self.address, self.interfaces, cpu_port=addressing.CPU_PORT, options=options
        )

    def read_counters(self) -> Counters | None:
        switch_process = self.switch_process
        if switch_process is None or not self.is_listening or switch_process.exit_error() is not None:
            return None
        previous_inode = self._counters_file.stat().st_ino  # changes when the file is replaced
        switch_process.process.send_signal(signal.SIGUSR1)
        limit = IdleLimit(_COUNTERS_TIMEOUT_S)
        while self._counters_file.stat().st_ino == previous_inode:
            limit.look([read_activity(switch_process.process.pid)])
            if limit.is_exceeded:
                return None
            time.sleep(_COUNTERS_POLL_INTERVAL_S)
        counters: Counters = json.loads(self._counters_file.read_bytes())
        return counters

    @property
    def _counters_file(self) -> Path:
        return self.log_dir / f"{self.name}.counters.json"


class Bmv2Switch(TargetSwitch):
    """BMv2's `simple_switch_grpc`, from HOTLINE_BMV2 or PATH."""

    # Builds with nanomsg open this socket and leave it behind.
    _NOTIFICATIONS = Path(f"/tmp/bmv2-{DEVICE_ID}-notifications.ipc")

    def command(self) -> list[str]:
        options = [*WITHOUT_PROGRAM, "--log-level", "off"]
        return switch_command(
            [find_bmv2()], self.address, self.interfaces, cpu_port=addressing.CPU_PORT, options=options
        )

    def stop(self) -> None:
        super().stop()
        self._NOTIFICATIONS.unlink(missing_ok=True)


TARGETS: dict[str, type[TargetSwitch]] = {"softswitch": SoftSwitch, "bmv2": Bmv2Switch}


def switch_of(config: Config, log_dir: Path, cpu: int | None, number: int = 0) -> TargetSwitch:
    """Return a switch of a configuration, counted from 0, which has not been started."""
    return TARGETS[config.target](
        name=addressing.switch_name(number),
        port=config.p4runtime_ports[number],
        log_dir=log_dir,
        cpu=cpu,
        datapath=config.datapath,
        impairment=config.faults.impairment(config.seed),
    )
