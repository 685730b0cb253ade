"""Start and end the process of `hotline up`, which runs switch, servers and rendezvous."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiment.run_config import Config, load_config
from foundation.checkout import environment_with_checkout
from foundation.errors import HotlineError
from foundation.text import pluralize
from hotline_agents.warm import warm
from hotline_scripts.kv.connection import ClusterLost, Connection, NotConnected
from hotline_scripts.lines import socket_path
from hotline_scripts.up import check, hold_folder
from softswitch.progress import IdleLimit, describe_activity, read_activity
from topologies import routes
from topologies.lock_record import is_alive
from topologies.run_lock import hold_run_lock
from topologies.testbed_kinds import testbed_kind

_DOWN_TIMEOUT_S = 60.0  # for which the process does nothing
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class UpInfo:
    connect: str
    """Path of the rendezvous's socket."""
    workers: int
    job: int
    """Job id for the controller's commands."""
    switch: str
    """HOST:PORT of the P4Runtime server."""
    folder: Path
    machines: Mapping[str, Sequence[int]]
    """Machine -> ranks of the workers that join there; empty if all join on this machine."""
    scheduler: str | None
    """Address of the machines' dask scheduler; None if all is on this machine."""


def up(file: Path | None = None, variables: Sequence[str] = ()) -> UpInfo:
    """Start switch and servers as a TOML file says, by default the checkout's run.toml.

    `variables` are `NAME=value`, such as MACHINES=ADDRESS. Needs root, unless the machines are others.
    Returns when workers may join. Leaves nothing running if it raises `HotlineError`.
    """
    settings = [*([] if file is None else [f"CONFIG={file.absolute()}"]), *variables]
    config = load_config(settings)
    # On several machines, their supervisors find that it runs already.
    if config.machines is None and (status := _ask_status()) is not None:
        raise HotlineError(
            f"`hotline up` runs already: process {status['pid']}, with "
            f"{pluralize(status['workers'], 'worker')}, at {socket_path()}; `./hotline down` ends it"
        )
    check(config, testbed_kind(config))
    warm(config.design)  # here, because the user sees what this process compiles
    with hold_folder(config) as folder:
        pass  # before its log is replaced
    reply = _start(settings, folder / "up.log", config)
    if "error" in reply:
        raise HotlineError(reply["error"])
    return UpInfo(folder=folder, scheduler=config.machines, **reply)


def down() -> str:
    """End `hotline up`, or remove the remains of a killed `hotline up`; return a message to print."""
    status = _ask_status()
    if status is None:
        return _remove_remnants()
    # It may end before it can answer.
    with closing(Connection(socket_path())) as connection, suppress(ClusterLost):
        status = connection.ask("down")
    _wait_for_end(status["pid"])
    remarks = f"; {pluralize(status['workers'], 'worker')} had not left" if status["workers"] else ""
    if vanished := status.get("vanished"):
        remarks += (
            f"; {pluralize(vanished, 'worker')} ended without leaving, "
            f"so {'its' if vanished == 1 else 'their'} last pushes may be lost"
        )
    return f"down: process {status['pid']} has ended{remarks}"


def _wait_for_end(pid: int) -> None:
    limit = IdleLimit(_DOWN_TIMEOUT_S)
    while is_alive(pid):
        if limit.look_s == 0:
            limit.look([read_activity(pid)])
        if limit.is_exceeded:
            raise HotlineError(
                f"process {pid} does not end: it {describe_activity(read_activity(pid))}; "
                f"`sudo kill -9 {pid}`, then `./hotline down`"
            )
        time.sleep(_POLL_S)


def _ask_status() -> dict[str, Any] | None:
    try:
        with closing(Connection(socket_path())) as connection:
            return connection.ask("who")
    except (ClusterLost, NotConnected):
        return None


def _remove_remnants() -> str:
    message = f"nothing is up at {socket_path()}"
    if os.geteuid() != 0:
        return message
    with hold_run_lock(interfaces=[]) as run_lock:
        routes.remove()
        socket_path().unlink(missing_ok=True)
        if not run_lock.removed_run:
            return message
        remnants = [
            pluralize(run_lock.removed_run.processes, "process", "processes"),
            *run_lock.removed_run.interfaces,
        ]
        return f"{message}; removed the remains of a killed `hotline up`: {', '.join(remnants)}"


def _start(settings: list[str], log: Path, config: Config) -> dict[str, Any]:
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "hotline_scripts.up", *settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=environment_with_checkout(),
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        with process.stdout:
            line = process.stdout.readline()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if not line:
        last_line = log.read_text(errors="replace").strip().splitlines()[-1:]
        return {"error": f"`hotline up` ended with code {process.wait()}: {''.join(last_line)} ({log})"}
    reply: dict[str, Any] = json.loads(line)
    if "error" in reply:
        process.wait()
    else:
        process.returncode = 0  # the process goes on without this parent; avoids a ResourceWarning
    return reply
