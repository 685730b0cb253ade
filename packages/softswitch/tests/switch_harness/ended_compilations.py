"""Switches that a signal ends while they compile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.load.cached import MIN_CACHED_BYTES
from softswitch.processes import SOFTSWITCH, SwitchProcess, start_switch, switch_command
from softswitch.progress import IdleLimit
from switch_harness.small_programs import small_source
from switch_harness.waiting import PATIENCE_S

HASHES = 160
"""Hashes whose machine code takes LLVM seconds of CPU time, ten times as long as the rest."""
HASH = (
    "hash(meta.kept, HashAlgorithm.crc16, 16w0, {hdr.first, hdr.second, meta.kept}, 16w1000);"
    "hdr.first.value = meta.kept;"
)
SOCKETS = ("--datapath", "sockets")
Environment = dict[str, str]


def write_slow_program(folder: Path) -> Path:
    """Write P4 source that LLVM compiles slowly; return its path."""
    file = folder / "hashes.p4"
    # In one line, of which the JSON has a copy for each expression: only large programs are cached as loaded.
    file.write_text(small_source(ingress=HASH * HASHES))
    return file


def wait_while_working(
    switch: SwitchProcess, is_done: Callable[[], bool], limit: IdleLimit | None = None
) -> None:
    """Wait until it is done or the process has ended."""
    limit = limit or IdleLimit(PATIENCE_S)
    while not is_done() and switch.process.poll() is None:
        if limit.look_s == 0:
            limit.look([switch.activity()])
        assert not limit.is_exceeded, switch.log()
        time.sleep(0.001)


def end_by(switch: SwitchProcess, number: int) -> None:
    """End a switch by a signal, as `SwitchProcess.end` does; it must neither fail nor print anything."""
    switch.process.send_signal(number)
    wait_while_working(switch, lambda: False, IdleLimit(processes._STOP_SECONDS, counts_work=True))
    statuses = ("ready: ", "compiling the switch once", "datapath kernel: ", "offloads turned off ")
    expected = tuple(f"softswitch: {status}" for status in statuses)
    unexpected = [line for line in switch.log().splitlines() if not line.startswith(expected)]
    assert (switch.process.returncode, unexpected) == (0, [])


@contextmanager
def starting(
    program: Path, environment: Environment, prefix: Sequence[str] = (), options: Sequence[str] = SOCKETS
) -> Iterator[SwitchProcess]:
    """Run a switch that loads a program before it serves."""
    command = switch_command(SOFTSWITCH, "127.0.0.1:0", options=[str(program), *options])
    with tempfile.TemporaryFile() as output:
        switch = start_switch([*prefix, *command], output, "", environment)
        try:
            yield switch
        finally:
            switch.process.kill()
            switch.process.wait()


@contextmanager
def setting(
    program: Path, environment: Environment, options: Sequence[str] = SOCKETS
) -> Iterator[SwitchProcess]:
    """Run a switch that serves, and that a controller gives a program."""
    config = pipeline_config(program)
    assert len(config.p4_device_config) >= MIN_CACHED_BYTES
    with (
        processes.softswitch(options=["--no-p4", *options], environment=environment) as switch,
        P4RuntimeClient(switch.address) as client,
        ThreadPoolExecutor(1) as caller,
    ):
        caller.submit(client.set_pipeline, config)
        yield switch
