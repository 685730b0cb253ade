"""The configuration of agents: bounds of settings, and the parts it selects."""

from __future__ import annotations

import os
import time
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from foundation.protocol.header import VERSION
from hosts.keys import KeySpace
from hosts.ps_config import PsConfig
from hosts.sockets import clock_offset
from hosts.worker_config import WorkerConfig
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.ps.__main__ import PsProcess
from hotline_agents.ps.durable import DurabilityError, DurableFile
from hotline_agents.ps.ops import COMPILED as COMPILED_PS
from hotline_agents.ps.rpc_server import RpcServer
from switch_harness.wording import mentions
from tests.harness.agents import ps_config, worker_config

ADDRESS = f"127.87.{os.getpid() % 250}.1"


LOGS = Path("logs")
WORKER: dict[str, Any] = worker_config(LOGS, ADDRESS, [ADDRESS], {1: "baseline"}, trace="trace", worker={})
PS: dict[str, Any] = ps_config(LOGS, 0, ADDRESS, {1: False}, n_ps=1, parameters=1000, server={})
BOUNDS = [
    (WorkerConfig, WORKER, ("wire",), VERSION, VERSION),
    (WorkerConfig, WORKER, ("number",), 1, 2**15 - 1),
    (WorkerConfig, WORKER, ("n_ps",), 1, None),
    (WorkerConfig, WORKER, ("jobs", 0, "job"), 0, 2**16 - 1),
    (WorkerConfig, WORKER, ("jobs", 0, "epoch"), 0, 2**32 - 1),
    (WorkerConfig, WORKER, ("jobs", 0, "udp_port"), 1, 2**16 - 1),
    (WorkerConfig, WORKER, ("services", 0, "ps"), 0, 2**10 - 1),
    (WorkerConfig, WORKER, ("services", 0, "port"), 1, 2**16 - 1),
    (WorkerConfig, WORKER, ("window",), 1, 64),
    (WorkerConfig, WORKER, ("worker", "compute_ns"), 0, 60 * 10**9),
    (PsConfig, PS, ("wire",), VERSION, VERSION),
    (PsConfig, PS, ("ps",), 0, 2**10 - 1),
    (PsConfig, PS, ("n_ps",), 1, None),
    (PsConfig, PS, ("jobs", 0, "job"), 0, 2**16 - 1),
    (PsConfig, PS, ("jobs", 0, "epoch"), 0, 2**32 - 1),
    (PsConfig, PS, ("service", "port"), 1, 2**16 - 1),
    (PsConfig, PS, ("server", "ns_per_rpc"), 0, 10**9),
    (PsConfig, PS, ("server", "ns_per_lane"), 0, 10**9),
    (PsConfig, PS, ("server", "cores"), 1, 1024),
    (PsConfig, PS, ("parameters",), 1, None),
]


@pytest.mark.parametrize(("config", "good", "place", "least", "maximum"), BOUNDS)
def test_settings_of_agents_have_bounds(
    config: type[BaseModel],
    good: dict[str, Any],
    place: tuple[str | int, ...],
    least: int,
    maximum: int | None,
) -> None:
    def read(value: object) -> None:
        changed: Any = deepcopy(good)
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        config.model_validate(changed)

    for value in (least, maximum):
        if value is not None:
            read(value)
    beyond = [least - 1, None if maximum is None else maximum + 1]
    # Instead of a number of parameters there may be keys.
    for wrong in beyond[:1] if place == ("parameters",) else [*beyond, None]:
        with pytest.raises(ValidationError) as refused:
            read(wrong)
        assert refused.value.errors()[0]["loc"] == place


@pytest.mark.parametrize("as_plain", [False, True])
def test_a_servers_data_path_is_compiled_unless_plain_python_is_requested(as_plain: bool) -> None:
    server = RpcServer(make_server(0, 1, KeySpace(9), [1]), lambda: 0, as_plain)
    assert (server._ops is COMPILED_PS) is not as_plain


def test_a_server_writes_its_connection_log_when_a_part_is_full(tmp_path: Path) -> None:
    config = PsConfig.model_validate({**PS, "log_dir": tmp_path})
    process = PsProcess(config)
    with closing(process.sockets()) as sockets:
        assert sockets._on_full_log == process.write_full_logs
    process.close()


def test_a_ps_that_cannot_be_recovered_closes_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connections are what `process_state.closed_connections` checks at the end of every test."""
    settings = {**PS, "log_dir": tmp_path, "durable": {"file": tmp_path / "ps.db"}}
    monkeypatch.setattr(DurableFile, "parts", lambda durable: {"cells of another version": b""})
    with pytest.raises(KeyError):
        PsProcess(PsConfig.model_validate(settings))


def test_a_journal_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """Its commands were accepted by another rule, so to replay them would give other values."""
    config = PsConfig.model_validate({**PS, "log_dir": tmp_path, "durable": {"file": tmp_path / "ps.db"}})
    identity = config.identity()
    del identity["journal"]
    DurableFile(tmp_path / "ps.db", identity, "never", 1000).close()
    with pytest.raises(DurabilityError, match=mentions("ps.db")):
        PsProcess(config)


def test_the_clock_offset_ignores_interrupted_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading interrupted between the two clocks gives an offset that is too small."""
    now, late = [1_000], iter([0, 900, 50, 5_000, *[70] * 100])
    monkeypatch.setattr(time, "time_ns", lambda: 7_000_000 + now[0])

    def monotonic_ns() -> int:
        now[0] += 10
        return now[0] - 10 + next(late)

    monkeypatch.setattr(time, "monotonic_ns", monotonic_ns)
    assert clock_offset() == 7_000_000
