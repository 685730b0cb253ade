"""Child processes that run softswitch or BMv2 without a P4 program, with P4Runtime on the loopback."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from softswitch.errors import Bmv2NotFound, SwitchEnded
from softswitch.progress import Activity, IdleLimit, describe_activity, describe_load, read_activity

_LOG = logging.getLogger(__name__)

DEVICE_ID = 1
WITHOUT_PROGRAM = ("--no-p4",)
SOFTSWITCH = (sys.executable, "-m", "softswitch")
BMV2_PROGRAM = "simple_switch_grpc"
BMV2_VARIABLE = "HOTLINE_BMV2"
BMV2_SOURCES = "https://github.com/p4lang/behavioral-model"
NO_BMV2 = f"{BMV2_PROGRAM}, which {BMV2_SOURCES} builds, is neither on PATH nor named by {BMV2_VARIABLE}"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.005
_READY_LINE = re.compile(r"P4Runtime on (\S+)\n")

T = TypeVar("T")


def find_bmv2() -> str:
    path = installed_bmv2()
    if path is None:
        raise Bmv2NotFound(NO_BMV2)
    return path


def installed_bmv2() -> str | None:
    """Return the path of `simple_switch_grpc`, or None. Raises Bmv2NotFound for a wrong HOTLINE_BMV2."""
    configured_path = os.environ.get(BMV2_VARIABLE)
    if not configured_path:
        return shutil.which(BMV2_PROGRAM)
    path = Path(configured_path).absolute()
    if path.is_dir():
        path /= BMV2_PROGRAM
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Bmv2NotFound(f"{BMV2_VARIABLE}={configured_path}: {path} is not a program")
    return str(path)


@contextmanager
def reserved_port(reuse_option: int = socket.SO_REUSEPORT) -> Iterator[int]:
    """Reserve a TCP port of the loopback for a gRPC server during the block."""
    # The port is bound with SO_REUSEPORT, as gRPC binds (Thrift: SO_REUSEADDR), without listening: the kernel
    # does not assign it to sockets that bind port 0, but gRPC can bind it.
    with socket.socket() as reserving_socket:
        reserving_socket.setsockopt(socket.SOL_SOCKET, reuse_option, 1)
        reserving_socket.bind(("127.0.0.1", 0))
        port: int = reserving_socket.getsockname()[1]
        yield port


def switch_command(
    executable: Sequence[str],
    address: str,
    interfaces: Mapping[int, str] = {},
    *,
    cpu_port: int | None = None,
    options: Sequence[str] = WITHOUT_PROGRAM,
    target_options: Sequence[str] = (),
) -> list[str]:
    """Return a switch's command line, by default without a P4 program; `interfaces` are by port number."""
    interface_options = [
        option for port, interface in interfaces.items() for option in ("-i", f"{port}@{interface}")
    ]
    cpu_option = [] if cpu_port is None else ["--cpu-port", str(cpu_port)]
    # BMv2 requires "--" before the options of its target; softswitch accepts it.
    return [
        *executable, *options, "--device-id", str(DEVICE_ID), *interface_options,
        "--", "--grpc-server-addr", address, *cpu_option, *target_options,
    ]  # fmt: skip


@cache
def has_thrift(executable: str) -> bool:
    """Return whether BMv2 was built with Thrift, which sets the rates and depths of its queues."""
    result = subprocess.run([executable, "--help"], capture_output=True, text=True, check=False)
    return "--thrift-port" in result.stdout + result.stderr


class SwitchProcess(NamedTuple):
    """A switch process, the file of its output, and the address HOST:PORT of its P4Runtime server."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    address: str
    thrift_port: int | None = None

    def log(self) -> str:
        # Not with `read`: the process writes at the position of the shared file description.
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def exit_error(self) -> SwitchEnded | None:
        """Return the error of a process that has ended, with its last line of output; None while it runs."""
        if self.process.poll() is None:
            return None
        return SwitchEnded(f"the switch ended with code {self.process.returncode}: {self._last_line()}")

    def wait_until_it_listens(self, timeout_s: float = _START_SECONDS) -> None:
        """Wait until the switch listens; `timeout_s` counts only the time for which it does nothing."""
        self._poll(self.listens, timeout_s, f"does not listen at {self.address}")

    def wait_for_address(self) -> SwitchProcess:
        return self._replace(address=self._poll(self._find_printed_address, _START_SECONDS, "is not ready"))

    def end(self, timeout_s: float = _STOP_SECONDS) -> None:
        end_process(self.process, timeout_s)

    def activity(self) -> Activity:
        return read_activity(self.process.pid)

    def _poll(self, check: Callable[[], T | None], timeout_s: float, problem: str) -> T:
        limit = IdleLimit(timeout_s)
        while (result := check()) is None:
            if (error := self.exit_error()) is not None:
                raise error
            if limit.look_s == 0:
                limit.look([self.activity()])
            if limit.is_exceeded:
                raise SwitchEnded(
                    f"the switch {problem} within {timeout_s:g} s of idle time: {self._describe()}"
                )
            if (waited_s := limit.take_overdue_s()) is not None:
                _LOG.warning("the switch %s after %.0f s: %s", problem, waited_s, self._describe())
            time.sleep(_POLL_SECONDS)
        return result

    def _describe(self) -> str:
        activity = describe_activity(self.activity())
        return f"it {activity}; {describe_load()}; its last line of output: {self._last_line()}"

    def _last_line(self) -> str:
        lines = self.log().strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def listens(self) -> bool | None:  # None if not, for `_poll`
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return None
        return True

    def _find_printed_address(self) -> str | None:
        match = _READY_LINE.search(self.log())
        return match and match[1]


def end_process(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """End a process by SIGTERM, or kill it when it has had `timeout_s` of time for its end."""
    process.terminate()
    process.send_signal(signal.SIGCONT)  # a stopped process does not hear the first signal
    limit = IdleLimit(timeout_s, counts_work=True)
    while not limit.is_exceeded:
        with suppress(subprocess.TimeoutExpired):
            process.wait(limit.look_s)
            return
        limit.look([read_activity(process.pid)])
    process.kill()
    process.wait()


def start_switch(
    command: Sequence[str],
    output: IO[bytes],
    address: str,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> SwitchProcess:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=folder,
        env={**os.environ, **environment},
        start_new_session=True,  # Ctrl-C does not end it
    )
    return SwitchProcess(process, output, address)


@contextmanager
def softswitch(
    interfaces: Mapping[int, str] = {},
    *,
    cpu_port: int | None = None,
    options: Sequence[str] = WITHOUT_PROGRAM,
    cores: Iterable[int] | None = None,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[SwitchProcess]:
    """Run a softswitch, which serves P4Runtime on a free port, during the block."""
    command = switch_command(SOFTSWITCH, "127.0.0.1:0", interfaces, cpu_port=cpu_port, options=options)
    # The switch prints its address.
    with _run_switch(command, "", cores, environment, folder) as switch:
        yield switch.wait_for_address()


@contextmanager
def bmv2(
    interfaces: Mapping[int, str] = {},
    *,
    cpu_port: int | None = None,
    target_options: Sequence[str] = (),
    cores: Iterable[int] | None = None,
) -> Iterator[SwitchProcess]:
    executable, thrift_port = find_bmv2(), None
    options: Sequence[str] = WITHOUT_PROGRAM
    with ExitStack() as exit_stack:
        address = f"127.0.0.1:{exit_stack.enter_context(reserved_port())}"
        if has_thrift(executable):  # by default each BMv2 uses port 9090
            thrift_port = exit_stack.enter_context(reserved_port(socket.SO_REUSEADDR))
            options = (*options, "--thrift-port", str(thrift_port))
        command = switch_command(
            [executable],
            address,
            interfaces,
            cpu_port=cpu_port,
            options=options,
            target_options=target_options,
        )
        with _run_switch(command, address, cores) as switch:
            switch.wait_until_it_listens()
            yield switch._replace(thrift_port=thrift_port)


@contextmanager
def _run_switch(
    command: Sequence[str],
    address: str,
    cores: Iterable[int] | None = None,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[SwitchProcess]:
    # Each program execs the next. The kernel kills the switch when this process dies for any reason.
    kill_with_parent = ["setpriv", "--pdeathsig", "KILL", "--"]
    pin_to_cores = [] if cores is None else ["taskset", "--cpu-list", ",".join(map(str, cores))]
    with tempfile.TemporaryFile() as output:
        switch = start_switch(
            [*kill_with_parent, *pin_to_cores, *command], output, address, environment, folder
        )
        try:
            yield switch
        finally:
            switch.end()
